// Numbers and failures as people read them.

import { FanlightError, type GenerationStats, type ModelDescription } from "fanlight";

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
export function types(model: ModelDescription): string {
  const total = model.types.reduce((sum, used) => sum + used.bytes, 0);
  return model.types
    .map(({ name, bytes: count }) => {
      const share = Math.round((100 * count) / total);
      return `${name} ${share < 1 ? "< 1" : share} %`;
    })
    .join(", ");
}

/** A length of time: 5 s, 3 min. */
export function duration(seconds: number): string {
  if (seconds < 90) return `${Math.max(1, Math.round(seconds))} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}

function rate(perSecond: number): string {
  return perSecond < 10 ? perSecond.toFixed(1) : String(Math.round(perSecond));
}

/** How fast an answer comes, in one line. */
export function speedLine(stats: GenerationStats): string {
  const parts: string[] = [];
  if (stats.tokens === 0) {
    parts.push(`reading ${stats.prefilledTokens} of ${stats.promptTokens} tokens`);
  } else {
    if (stats.tokensPerSecond !== null) parts.push(`${rate(stats.tokensPerSecond)} tokens/s`);
    if (stats.tokensPerStep !== null) parts.push(`${stats.tokensPerStep.toFixed(2)} tokens per step`);
    parts.push(`${stats.tokens} tokens`);
    if (stats.firstTokenMs !== null) parts.push(`first after ${(stats.firstTokenMs / 1000).toFixed(2)} s`);
  }
  if (stats.reusedTokens > 0)
    parts.push(`${stats.reusedTokens} of ${stats.promptTokens} prompt tokens reused`);
  return parts.join(" · ");
}

const TITLES: Partial<Record<FanlightError["code"], string>> = {
  "no-gpu": "No GPU can be used here",
  "gpu-lost": "The GPU went away",
  "gpu-memory": "Not enough GPU memory",
  "gpu-refused": "The GPU refused",
  source: "The file cannot be read",
  server: "The server cannot be used",
  model: "This file cannot be run",
  request: "That is not possible",
  "prompt-too-long": "The conversation no longer fits the context",
  busy: "Something else is running",
  cancelled: "Cancelled",
  "engine-gone": "The engine stopped",
  "worker-died": "The engine stopped",
  "owner-gone": "The other tab was closed",
  "model-replaced": "Another model was loaded",
  "no-model": "No model is loaded",
  unsupported: "That is not supported",
};

/** Characters of a name that are shown. */
const NAME_LENGTH = 80;
/** Controls, and marks that change the direction of what follows them. */
const UNSEEN = /[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu;

/** A name out of a file as a line of its own: a file may call itself anything. */
export function shownName(name: string): string {
  const plain = name.replace(UNSEEN, " ").trim();
  return plain.length <= NAME_LENGTH ? plain : `${plain.slice(0, NAME_LENGTH - 1).trimEnd()}…`;
}

/** A heading for a failure. */
export function title(failure: unknown): string {
  return (failure instanceof FanlightError && TITLES[failure.code]) || "Something went wrong";
}

/** The text of a failure as a sentence. */
export function sentence(failure: unknown): string {
  const text = failure instanceof Error ? failure.message : String(failure);
  const end = /[.!?]$/.test(text) ? "" : ".";
  // A word begins with a capital; the name of a file or a host stays as it is.
  return text.replace(/^[a-z]+(?=[ ,'])/, (word) => word.charAt(0).toUpperCase() + word.slice(1)) + end;
}
