// A model's card: what it is, what it needs, and how it is to be loaded.

import type { ModelDescription, Plan } from "fanlight";

import { load, modelOptions, reconsider, resize, running, showFailure } from "../engine.js";
import { bytes, parameters, sentence, shownName, types } from "../format.js";
import type { Settings } from "../settings.js";
import { chosen, isBusy, loadedCacheMiB, loadedWith, model, set, settings, source } from "../state.js";
import { Choice, NumberField } from "./parts.js";

/** As much as the engine takes: its own memory has room for no more. */
const CACHE_MIB_MAX = 2048;

const CONTEXTS = [512, 1024, 2048, 4096, 8192, 16_384, 32_768];

function Rows({ rows }: { rows: [string, string][] }) {
  return (
    <dl class="rows">
      {rows.map(([name, value]) => [<dt key={name}>{name}</dt>, <dd key={`${name}:`}>{value}</dd>])}
    </dl>
  );
}

function factsOf(described: ModelDescription, plan: Plan | null): [string, string][] {
  const rows: [string, string][] = [
    ["Architecture", described.architecture],
    [
      "Weights",
      `${parameters(described.parameters)} in ${bytes(described.weightBytes)} (${types(described)})`,
    ],
    [
      "Made for",
      described.contextLengthMax ? `${described.contextLengthMax.toLocaleString("en")} tokens` : "not said",
    ],
    ["Conversations", described.hasChatTemplate ? "yes, it brings a chat template" : "no chat template"],
  ];
  if (plan) {
    const parts = `${bytes(plan.weightBytes)} weights, ${bytes(plan.kvBytes)} context`;
    const needs = `${bytes(plan.gpuBytes)}: ${parts}`;
    const rest = plan.isStreamed ? " The other weights stream through, which is slower." : "";
    rows.push(["On the GPU", `${needs}.${rest} Browser and driver need some on top.`]);
  }
  return rows;
}

function ContextChoice() {
  const { contextLength } = settings.value;
  const all = CONTEXTS.includes(contextLength)
    ? CONTEXTS
    : [...CONTEXTS, contextLength].sort((a, b) => a - b);
  const change = (value: string) => {
    set({ contextLength: Number(value) });
    void reconsider();
  };
  return (
    <Choice
      id="context"
      label="Context"
      value={String(contextLength)}
      of={all.map((tokens) => [String(tokens), `${tokens.toLocaleString("en")} tokens`])}
      onChange={change}
      disabled={isBusy.value}
    />
  );
}

const MEMORIES: [Settings["memory"], string][] = [
  ["all", "all that it needs"],
  ["fast", "6 GiB (fast)"],
  ["saver", "2 GiB (saver)"],
  ["lite", "512 MiB (lite)"],
  ["custom", "another amount"],
];

/** What it may take on the GPU: the rest streams through, and may be kept in the computer's memory. */
function MemoryChoice({ isStreamed }: { isStreamed: boolean }) {
  const { memory, budgetMiB, cacheMiB } = settings.value;
  const change = (to: Partial<Settings>) => {
    set(to);
    void reconsider();
  };
  return (
    <>
      <Choice
        id="memory"
        label="GPU memory"
        value={memory}
        of={MEMORIES}
        onChange={(chosen) => change({ memory: chosen })}
        disabled={isBusy.value}
      />
      {memory === "custom" && (
        <NumberField
          id="budget"
          label="MiB"
          min={1}
          value={budgetMiB}
          onChange={(mib) => change({ budgetMiB: mib })}
          disabled={isBusy.value}
        />
      )}
      {isStreamed && (
        <NumberField
          id="cache"
          label="Other memory that keeps what streams, MiB"
          min={0}
          max={CACHE_MIB_MAX}
          value={cacheMiB}
          onChange={(mib) => set({ cacheMiB: mib })}
          disabled={isBusy.value}
        />
      )}
    </>
  );
}

/** A model that was looked into. */
export function ChosenCard() {
  const { value } = chosen;
  if (!value) return null;
  const { inspection } = value;
  return (
    <section id="card" class="card" aria-label="The chosen model">
      <h3>{shownName(inspection.name || value.name)}</h3>
      <Rows rows={factsOf(inspection, inspection.plan)} />
      {inspection.problem && (
        <p class="problem" role="alert">
          {sentence(inspection.problem)}
        </p>
      )}
      <div class="row end">
        <ContextChoice />
        <MemoryChoice isStreamed={inspection.plan?.isStreamed === true} />
      </div>
      <div class="row end">
        <button
          type="button"
          onClick={() => {
            chosen.value = null;
          }}
        >
          Choose another
        </button>
        <button
          type="button"
          id="load"
          class="primary"
          disabled={isBusy.value || inspection.problem !== null}
          onClick={() => void load(value)}
        >
          Load
        </button>
      </div>
    </section>
  );
}

/** The model in use, and how to load it differently; the conversation stays. */
export function LoadedCard() {
  const [info, from] = [model.value, source.value];
  if (!info) return null;
  const { contextLength, cacheMiB } = settings.value;
  // Another context is another load, and so is another cache; another amount of the GPU's memory is not.
  const isCached = info.plan.isStreamed && cacheMiB !== loadedCacheMiB.value;
  const isOther = contextLength !== info.plan.contextLength || isCached;
  const isSized = !isOther && JSON.stringify(modelOptions()) !== loadedWith.value;
  return (
    <section class="card" aria-label="The loaded model">
      <h3>{shownName(info.name || (from?.name ?? ""))}</h3>
      <Rows rows={factsOf(info, info.plan)} />
      <div class="row end">
        <ContextChoice />
        <MemoryChoice isStreamed={info.plan.isStreamed} />
      </div>
      <div class="row end">
        <button type="button" id="unload" onClick={() => void running().unload().catch(showFailure)}>
          Unload
        </button>
        {from && isOther && (
          <button type="button" id="reload" class="primary" onClick={() => void load(from)}>
            Reload with these settings
          </button>
        )}
        {isSized && (
          <button type="button" id="resize" class="primary" onClick={() => void resize()}>
            Use this much memory
          </button>
        )}
      </div>
    </section>
  );
}
