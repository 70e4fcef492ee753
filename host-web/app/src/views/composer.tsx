// Where questions are written, with the text that answers go by and the speed of the answer.

import { useEffect, useRef, useState } from "preact/hooks";

import { ask, ground } from "../chat.js";
import { running, showFailure, stop } from "../engine.js";
import { bytes, speedLine } from "../format.js";
import { activity, current, draft, isStopping, live, model, pass } from "../state.js";
import { Icon } from "./icons.js";
import { IconButton } from "./parts.js";

/** A question may be so high before it scrolls. */
const HEIGHT_MAX = 240;
/** The longest message that the engine takes, in characters. */
const TEXT_MAX = 1_048_576;
/** Typing has paused when nothing was typed for so long. */
const PAUSE_MS = 400;

function grow(area: HTMLTextAreaElement): void {
  area.style.height = "auto";
  area.style.height = `${Math.min(area.scrollHeight + 2, HEIGHT_MAX)}px`;
}

/** How many tokens a text has, once typing pauses. */
function useTokens(text: string): number | null {
  const [count, setCount] = useState<number | null>(null);
  useEffect(() => {
    setCount(null);
    if (text.trim() === "" || activity.value !== "idle") return undefined;
    const timer = setTimeout(
      () =>
        void running()
          .countTokens(text)
          .then(setCount, () => setCount(null)),
      PAUSE_MS,
    );
    return () => clearTimeout(timer);
  }, [text]);
  return count;
}

async function takeFile(file: File): Promise<void> {
  if (file.size > 4 * TEXT_MAX) {
    showFailure(
      new Error(`${file.name} has ${bytes(file.size)}, a text of at most ${TEXT_MAX} characters is possible`),
    );
    return;
  }
  const text = await file.text();
  if (text.includes("\0")) showFailure(new Error(`${file.name} is no text: give a plain text file`));
  else if (text.length > TEXT_MAX)
    showFailure(new Error(`${file.name} has more than ${TEXT_MAX} characters: shorten it`));
  else ground(text);
}

function Grounding({ onClose }: { onClose: () => void }) {
  const { grounding } = current.value;
  const tokens = useTokens(grounding);
  const context = model.value?.contextLength ?? 0;
  const size =
    tokens === null ? "" : `${tokens.toLocaleString("en")} of ${context.toLocaleString("en")} tokens`;
  const drop = (event: DragEvent) => {
    event.preventDefault();
    const file = event.dataTransfer?.files[0];
    if (file) void takeFile(file);
  };
  return (
    <section
      class="grounding"
      aria-label="Source text"
      onDragOver={(event) => event.preventDefault()}
      onDrop={drop}
    >
      <div class="row between">
        <label for="grounding">Base answers on this text</label>
        <IconButton icon="close" label="Close the text" onClick={onClose} />
      </div>
      <textarea
        id="grounding"
        rows={6}
        value={grounding}
        placeholder="Paste text here, or drop a text file"
        disabled={activity.value !== "idle"}
        onChange={(event) => ground(event.currentTarget.value)}
      />
      <div class="row between small faint">
        <span class="numbers" role="status">
          {size}
        </span>
        {grounding !== "" && (
          <button type="button" class="quiet" onClick={() => ground("")}>
            Clear
          </button>
        )}
      </div>
    </section>
  );
}

/** Below the question: the text to go by, the speed, and the button that sends or stops. */
function AskRow({ isOpen, onToggle, onSend }: { isOpen: boolean; onToggle: () => void; onSend: () => void }) {
  const hasText = current.value.grounding.trim() !== "";
  return (
    <div class="ask-row">
      <button type="button" class={`quiet ${hasText ? "on" : ""}`} aria-expanded={isOpen} onClick={onToggle}>
        <Icon name="text" /> {hasText ? "Based on a text" : "Add a text"}
      </button>
      <span id="live" class="live numbers">
        {isStopping.value
          ? "Stopping …"
          : [
              pass.value && `${pass.value.done} of ${pass.value.total} pages · `,
              live.value && speedLine(live.value),
            ]}
      </span>
      {activity.value === "answering" ? (
        <IconButton
          icon="stop"
          id="stop"
          class="round"
          label="Stop"
          disabled={isStopping.value}
          onClick={() => void stop()}
        />
      ) : (
        <IconButton
          icon="send"
          id="send"
          class="round primary"
          label="Ask"
          onClick={onSend}
          disabled={activity.value !== "idle" || draft.value.trim() === ""}
        />
      )}
    </div>
  );
}

export function Composer() {
  const area = useRef<HTMLTextAreaElement>(null);
  const [isOpen, setOpen] = useState(false);
  useEffect(() => {
    if (area.current) grow(area.current);
  }, [draft.value]);
  // Where a finger points, the focus would raise the keyboard over what is to be read.
  const isTouched = matchMedia("(hover: none)").matches;
  const focus = () => {
    if (!isTouched) area.current?.focus();
  };
  useEffect(focus, [current.value.id]);
  const isIdle = activity.value === "idle";
  useEffect(() => {
    // The button that stopped the answer had the focus and is gone.
    if (isIdle && document.activeElement === document.body) focus();
  }, [isIdle]);
  const send = () => void ask(draft.value);
  const press = (event: KeyboardEvent) => {
    // Enter sends, also with an input method once its own Enter is done; with shift it is a new line, and
    // always where there is no keyboard with a shift key to hold.
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || isTouched) return;
    event.preventDefault();
    send();
  };
  const isChat = model.value?.hasChatTemplate !== false;
  return (
    <div class="composer">
      <div class="column">
        {isOpen && <Grounding onClose={() => setOpen(false)} />}
        <form
          class="ask"
          onSubmit={(event) => {
            event.preventDefault();
            send();
          }}
        >
          <textarea
            id="question"
            ref={area}
            rows={1}
            value={draft.value}
            autocomplete="off"
            aria-label="Your question"
            placeholder={isChat ? "Ask something" : "Begin a text: this model continues it"}
            onInput={(event) => {
              draft.value = event.currentTarget.value;
            }}
            onKeyDown={press}
          />
          <AskRow isOpen={isOpen} onToggle={() => setOpen(!isOpen)} onSend={send} />
        </form>
        <p class="faint small memory numbers">
          {model.value && `${bytes(model.value.gpuBytes)} on the GPU. `}Models make mistakes: check what
          matters.
        </p>
      </div>
    </div>
  );
}
