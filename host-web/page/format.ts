// Numbers and failures as people read them.

import type { EngineFailure } from "./client.js";
import type { Adapter, ModelCard, ReplyEnd } from "./protocol.js";

const UNITS = ["bytes", "kB", "MB", "GB", "TB"];

/** Bytes in decimal units, three digits or more. */
export function bytes(count: number): string {
  let unit = 0;
  let value = count;
  while (value >= 1000 && unit < UNITS.length - 1) {
    value /= 1000;
    unit += 1;
  }
  const digits = unit === 0 ? 0 : value < 10 ? 2 : value < 100 ? 1 : 0;
  return `${value.toFixed(digits)} ${UNITS[unit]}`;
}

/** A count of weights: 134.5 M. */
export function parameters(count: number): string {
  if (count >= 1e9) return `${(count / 1e9).toFixed(2)} B`;
  if (count >= 1e6) return `${(count / 1e6).toFixed(1)} M`;
  return count.toLocaleString("en");
}

/** The formats of a model with their shares of its bytes. */
export function types(card: ModelCard): string {
  const total = card.head.types.reduce((sum, used) => sum + used.bytes, 0);
  return card.head.types
    .map(({ name, bytes: count }) => {
      const share = Math.round((100 * count) / total);
      return `${name} ${share < 1 ? "< 1" : share} %`;
    })
    .join(", ");
}

function speed(tokens: number, microseconds: number): string {
  if (tokens === 0 || microseconds === 0) return "not measured";
  return `${((tokens * 1e6) / microseconds).toFixed(1)} tok/s`;
}

/** What was measured, over how many tokens, on what. */
export function speedLine(end: ReplyEnd, adapter: Adapter): string {
  const reused = end.reusedTokens > 0 ? `, ${end.reusedTokens} reused` : "";
  return [
    `prompt ${speed(end.prefillTokens, end.prefillUs)} (${end.prefillTokens} tokens${reused})`,
    `answer ${speed(end.decodeTokens, end.decodeUs)} (${end.decodeTokens} tokens after the first)`,
    adapter.name + (adapter.isSoftware ? " – software, no GPU" : ""),
  ].join(" · ");
}

const TITLES: Record<EngineFailure["kind"], string> = {
  "no-gpu": "No GPU can be used here",
  "gpu-lost": "The GPU went away",
  "gpu-memory": "Not enough GPU memory",
  "gpu-refused": "The GPU refused",
  source: "The file cannot be read",
  server: "The server cannot be used",
  model: "This file cannot be run",
  request: "That is not possible",
  busy: "Something else is running",
  cancelled: "Cancelled",
  "engine-gone": "The engine stopped",
  other: "Something went wrong",
  "worker-died": "The engine stopped",
};

/** A heading for a failure. */
export function title(failure: EngineFailure): string {
  return TITLES[failure.kind];
}

/** The text of a failure as a sentence. */
export function sentence(failure: EngineFailure): string {
  const text = failure.kind === "worker-died"
    ? `the engine's worker ended (${failure.message}): load the model again`
    : failure.message;
  const end = /[.!?]$/.test(text) ? "" : ".";
  // A word begins with a capital; the name of a file or a host stays as it is.
  return text.replace(/^[a-z]+(?=[ ,])/, (word) => word.charAt(0).toUpperCase() + word.slice(1)) + end;
}
