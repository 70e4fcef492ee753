// What can be set: instructions, the length of answers, what is kept, the theme.

import { useState } from "preact/hooks";

import { forgetAnswers, showFailure } from "../engine.js";
import { beginKeeping, endKeeping } from "../keeping.js";
import type { Settings } from "../settings.js";
import { activity, conversations, set, settings, type Theme } from "../state.js";
import { BridgeSection } from "./bridge.js";
import { Choice, NumberField, Panel } from "./parts.js";

/** A number that says how tokens are chosen. */
function SamplingField(field: {
  name: "temperature" | "topP" | "topK" | "minP" | "repeatPenalty";
  label: string;
  min?: number;
  max: number;
  isWhole?: boolean;
}) {
  const { name, label, min = 0, max, isWhole = false } = field;
  return (
    <NumberField
      id={name}
      label={label}
      min={min}
      max={max}
      step={isWhole ? 1 : "any"}
      value={settings.value[name]}
      onChange={(value) => set({ [name]: value })}
    />
  );
}

const MEMORIES: [Settings["remembers"], string][] = [
  ["origin", "Of all visits"],
  ["conversation", "Of this visit"],
  ["off", "None"],
];

const THINKING: [Settings["thinks"], string][] = [
  ["model", "The model's default"],
  ["on", "On"],
  ["off", "Off"],
];

const THEMES: [Theme, string][] = [
  ["auto", "System"],
  ["light", "Light"],
  ["dark", "Dark"],
];

/** Which earlier answers make the next ones quicker. */
function MemoryFields() {
  const [told, setTold] = useState("");
  const { remembers, keeps } = settings.value;
  const forget = () => {
    setTold("");
    void forgetAnswers().then(() => setTold("Forgotten."), showFailure);
  };
  return (
    <fieldset>
      <legend>Earlier answers</legend>
      <p class="faint small">
        What the model often says is guessed ahead from what it said before. That saves time and never changes
        an answer.
        {!keeps && " Those of other visits are not used while conversations are not kept."}
      </p>
      <Choice
        id="remembers"
        label="Guess from answers"
        value={remembers}
        of={MEMORIES}
        onChange={(chosen) => set({ remembers: chosen })}
      />
      <div class="row">
        <button type="button" id="forget-memory" disabled={activity.value !== "idle"} onClick={forget}>
          Forget them
        </button>
        <span class="faint small" role="status">
          {told}
        </span>
      </div>
    </fieldset>
  );
}

/** Whether conversations are kept. Nothing is deleted before the visitor has said so twice. */
function Keeping() {
  const [isAsking, ask] = useState(false);
  const { keeps } = settings.value;
  const count = conversations.value.filter(({ entries }) => entries.length > 0).length;
  const change = (box: HTMLInputElement) => {
    if (box.checked) void beginKeeping();
    else if (count === 0) void endKeeping();
    else {
      box.checked = true;
      ask(true);
    }
  };
  const end = () => {
    ask(false);
    void endKeeping();
  };
  const [what, them] =
    count === 1 ? ["the conversation", "it"] : [`all ${count} conversations`, "them"];
  return (
    <>
      <label class="check">
        <input
          id="keeps"
          type="checkbox"
          checked={keeps}
          onChange={(event) => change(event.currentTarget)}
        />
        <span>
          Keep conversations on this computer
          <span class="faint small">Turning this off deletes the ones that are kept.</span>
        </span>
      </label>
      {isAsking && (
        <div class="notice error" role="alertdialog" aria-label="Delete conversations?">
          <p class="grow">This deletes {what} from this computer. Export {them} first to keep a copy.</p>
          <button type="button" id="end-keeping" onClick={end}>
            Delete {what}
          </button>
          <button type="button" onClick={() => ask(false)} ref={(button) => button?.focus()}>
            Cancel
          </button>
        </div>
      )}
    </>
  );
}

export function SettingsPanel() {
  const { value } = settings;
  return (
    <Panel title="Settings">
      <label class="field tall">
        Instructions to the model
        <textarea
          id="system"
          rows={4}
          value={value.system}
          placeholder="Such as: answer briefly, in plain words."
          onChange={(event) => set({ system: event.currentTarget.value })}
        />
      </label>
      <NumberField
        id="tokens"
        label="Longest answer, in tokens"
        min={1}
        max={32_768}
        value={value.maxTokens}
        onChange={(maxTokens) => set({ maxTokens })}
      />
      <Choice
        id="thinks"
        label="Think before answering, where the model can"
        value={value.thinks}
        of={THINKING}
        onChange={(thinks) => set({ thinks })}
      />
      <fieldset>
        <legend>How tokens are chosen</legend>
        <SamplingField name="temperature" label="Temperature (0: the most likely)" max={100} />
        <SamplingField name="topP" label="Top-p" max={1} />
        <SamplingField name="topK" label="Top-k (0: all)" max={1_000_000} isWhole />
        <SamplingField name="minP" label="Min-p" max={1} />
        <SamplingField name="repeatPenalty" label="Repetition penalty" min={0.01} max={100} />
        <label class="field">
          Seed (empty: another one each time)
          <input
            id="seed"
            type="text"
            inputMode="numeric"
            value={value.seed}
            onChange={(event) => set({ seed: event.currentTarget.value.replace(/\D/g, "").slice(0, 15) })}
          />
        </label>
      </fieldset>
      <MemoryFields />
      <Choice id="theme" label="Theme" value={value.theme} of={THEMES} onChange={(theme) => set({ theme })} />
      <Keeping />
      <BridgeSection />
    </Panel>
  );
}
