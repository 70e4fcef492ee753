// The proof on the visitor's own device: kernels that must agree in every bit are compared.

import { useState } from "preact/hooks";

import { check, comparePresets, type PresetVerdict, type Verdict } from "../engine.js";
import { activity, adapter, source } from "../state.js";
import { Panel } from "./parts.js";

/** Whether the loaded model says the same however much of it is on the GPU. */
function Presets({ told }: { told: (text: string) => void }) {
  const [verdict, setVerdict] = useState<PresetVerdict | null>(null);
  const { value: from } = source;
  if (!from) return null;
  const run = async (): Promise<void> => {
    setVerdict(null);
    setVerdict(await comparePresets(told));
    told("");
  };
  return (
    <>
      <p>
        A model that does not fit streams through the GPU, and must say the same. This loads {from.name} with
        each amount of memory and compares two tokens.
      </p>
      <div class="row">
        <button
          type="button"
          id="compare-presets"
          disabled={activity.value !== "idle"}
          onClick={() => void run()}
        >
          Compare amounts of memory
        </button>
      </div>
      {verdict && (
        <ul id="presets">
          {verdict.map(({ name, isEqual }) => (
            <li key={name}>
              {name}: {isEqual ? "the same two tokens" : "other tokens, please report this"}
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

export function CheckPanel() {
  const [told, setTold] = useState("");
  const [verdict, setVerdict] = useState<Verdict | null>(null);
  const run = async (scope: "whole" | "cover"): Promise<void> => {
    setVerdict(null);
    setTold("Starting …");
    setVerdict(await check(scope, setTold));
    setTold("");
  };
  const isGood = verdict?.differences.length === 0;
  return (
    <Panel title="Check this GPU">
      <p>
        Every step of the computation exists in several forms, for one token or for many. They must give the
        same result to the last bit, or answers would depend on how they were computed. This compares all
        forms on {adapter.value?.name ?? "this GPU"}.
      </p>
      <div class="row">
        <button
          type="button"
          id="check-whole"
          class="primary"
          disabled={activity.value !== "idle"}
          onClick={() => void run("whole")}
        >
          Compare everything
        </button>
        <button
          type="button"
          id="check-cover"
          disabled={activity.value !== "idle"}
          onClick={() => void run("cover")}
        >
          Compare the essential
        </button>
      </div>
      <Presets told={setTold} />
      <p role="status" class="numbers">
        {told}
      </p>
      {verdict && (
        <section
          id="verdict"
          class={`card ${isGood ? "good" : "bad"}`}
          data-differences={verdict.differences.length}
        >
          <h3>
            {isGood
              ? `All ${verdict.compared} comparisons agree in every bit`
              : `${verdict.differences.length} of ${verdict.compared} comparisons differ`}
          </h3>
          {!isGood && <p>Do not trust what this GPU answers. Please report this with the name of the GPU.</p>}
          {!isGood && (
            <ul>
              {verdict.differences.map((text) => (
                <li key={text}>{text}</li>
              ))}
            </ul>
          )}
        </section>
      )}
    </Panel>
  );
}
