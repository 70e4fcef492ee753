// What the fields of a snapshot are called on the screen, in the order in which they are shown.

import type { Sample, Snapshot } from "fanlight";

export type Piece = Extract<Sample, { kind: "piece" }>;
export type Model = NonNullable<Snapshot["model"]>;
export type Phases = NonNullable<Snapshot["phases"]>;

/** Causes of a gap, in the order in which they come before a piece. */
export const CAUSES: readonly (readonly [keyof Piece["gap"], string])[] = [
  ["idleUs", "idle"],
  ["prepareUs", "prompt"],
  ["compileUs", "compile"],
  ["consumerUs", "reader"],
  ["restUs", "frame rest"],
  ["hostUs", "host"],
];

/** What a cause means. */
export const CAUSE_HINTS: Record<keyof Piece["gap"], string> = {
  idleUs: "nobody had asked for anything",
  prepareUs: "chat template, tokenizer, session memory",
  compileUs: "pipelines were compiled",
  consumerUs: "the reply was not read",
  restUs: "the frame budget leaves time to the page",
  hostUs: "reading what came, recording what follows",
};

type PhaseName = Exclude<keyof Phases, "shownAtUs" | "totalUs" | "promptTokens" | "reusedTokens">;

/** From the request to the first token. */
export const PHASES: readonly (readonly [PhaseName, string])[] = [
  ["queueUs", "queue"],
  ["tokeniseUs", "tokenise"],
  ["recallUs", "recall"],
  ["compileUs", "compile"],
  ["prefillUs", "prefill"],
  ["showUs", "show"],
];

/** What the bytes on the device hold. */
export const OWNERS: readonly (readonly [Exclude<keyof Model["ledger"], "total">, string])[] = [
  ["weights", "weights"],
  ["cache", "keys and values"],
  ["scratch", "scratch"],
  ["streaming", "streaming slots"],
  ["drafting", "drafting"],
  ["constants", "constants"],
  ["transfer", "transfer"],
];

/** What a model does without on an adapter, by the nodes of its steps; 0 for prompts. */
export function quarantinedName(nodes: number): string {
  return nodes === 0 ? "prompt batches" : `steps of ${nodes} nodes and more`;
}

/** Widths of the curve T(N), after plain decoding. */
export const WIDTHS = [1, 2, 4, 8, 16, 32] as const;
