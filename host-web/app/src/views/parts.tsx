// Small parts that several views use.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import { notice, panel, type Notice } from "../state.js";
import { Icon, type IconName } from "./icons.js";

/** A button that shows an icon and says what it does. */
export function IconButton({
  icon,
  label,
  onClick,
  disabled = false,
  id,
  isExpanded,
  class: name = "",
}: {
  icon: IconName;
  label: string;
  onClick: () => void;
  disabled?: boolean;
  id?: string;
  /** Of a button that opens something: whether it is open. */
  isExpanded?: boolean;
  class?: string;
}) {
  return (
    <button
      type="button"
      id={id}
      class={`icon-button ${name}`}
      title={label}
      aria-label={label}
      aria-expanded={isExpanded}
      disabled={disabled}
      onClick={onClick}
    >
      <Icon name={icon} />
    </button>
  );
}

/** How long a button says that it has copied. */
const COPIED_MS = 1500;

/** A button that copies a text, and says so. */
export function CopyIcon({ text }: { text: string }) {
  const [said, say] = useState("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      say("Copied");
    } catch {
      say("The browser did not copy it: select it yourself");
    }
    setTimeout(() => say(""), COPIED_MS);
  };
  return (
    <>
      <IconButton
        icon={said === "Copied" ? "check" : "copy"}
        label={said || "Copy"}
        onClick={() => void copy()}
      />
      <span class="unseen" role="status">
        {said}
      </span>
    </>
  );
}

/** A button that deletes once its question was answered. */
export function DeleteButton({
  label,
  question,
  onDelete,
  disabled,
}: {
  label: string;
  question: string;
  onDelete: () => void;
  disabled: boolean;
}) {
  const [isAsking, ask] = useState(false);
  if (!isAsking)
    return <IconButton icon="bin" label={label} disabled={disabled} onClick={() => ask(true)} />;
  return (
    <>
      <button type="button" class="danger" aria-label={`${label}: ${question}`} onClick={onDelete}>
        {question}
      </button>
      <button type="button" onClick={() => ask(false)} ref={(button) => button?.focus()}>
        Cancel
      </button>
    </>
  );
}

/** A choice of one of a few, each by its value and what is to be read. */
export function Choice<Value extends string>({
  id,
  label,
  value,
  of,
  onChange,
  disabled = false,
}: {
  id: string;
  label: string;
  value: Value;
  of: readonly (readonly [Value, string])[];
  onChange: (value: Value) => void;
  disabled?: boolean;
}) {
  return (
    <label class="field">
      {label}
      <select
        id={id}
        value={value}
        disabled={disabled}
        onChange={(event) => onChange(event.currentTarget.value as Value)}
      >
        {of.map(([name, text]) => (
          <option key={name} value={name}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}

/** A number within its range; anything else is not taken. */
export function NumberField(field: {
  id: string;
  label: string;
  min: number;
  max?: number;
  step?: number | "any";
  value: number;
  onChange: (value: number) => void;
  disabled?: boolean;
}) {
  const { id, label, min, max, step = 1, value, onChange, disabled = false } = field;
  const change = (input: HTMLInputElement) => {
    if (input.value !== "" && input.validity.valid) onChange(input.valueAsNumber);
    else input.value = String(value);
  };
  return (
    <label class="field">
      {label}
      <input
        id={id}
        type="number"
        min={min}
        max={max}
        step={step}
        value={value}
        disabled={disabled}
        onChange={(event) => change(event.currentTarget)}
      />
    </label>
  );
}

/** A dialog in front of the page; Escape closes it and gives the focus back. */
export function Panel({ title, children }: { title: string; children: ComponentChildren }) {
  const place = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = place.current;
    dialog?.showModal();
    return () => dialog?.close();
  }, []);
  const close = () => {
    panel.value = "none";
  };
  return (
    <dialog
      ref={place}
      class="panel"
      aria-labelledby="panel-title"
      onCancel={close}
      onClose={close}
      onClick={(event) => {
        if (event.target === place.current) close();
      }}
    >
      <div class="panel-inner">
        <header class="panel-head">
          <h2 id="panel-title">{title}</h2>
          <IconButton icon="close" label="Close" onClick={close} />
        </header>
        <NoticeView />
        {children}
      </div>
    </dialog>
  );
}

function NoticeBody({ value }: { value: Notice }) {
  const run = (action: () => void) => {
    notice.value = null;
    action();
  };
  return (
    <div class="notice-body">
      <h2>{value.title}</h2>
      <p>{value.text}</p>
      {value.actions && value.actions.length > 0 && (
        <p class="row">
          {value.actions.map(({ label, run: action }) => (
            <button type="button" key={label} onClick={() => run(action)}>
              {label}
            </button>
          ))}
        </p>
      )}
    </div>
  );
}

/** What the visitor should know, with what can be done about it. */
export function NoticeView() {
  const { value } = notice;
  if (!value) return null;
  return (
    <section
      class={`notice ${value.kind === "error" ? "error" : "news"}`}
      role={value.kind === "error" ? "alert" : "status"}
      aria-label={value.title}
    >
      <NoticeBody value={value} />
      <IconButton
        icon="close"
        label="Close this message"
        onClick={() => {
          notice.value = null;
        }}
      />
    </section>
  );
}
