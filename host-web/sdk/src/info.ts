// What a page is told of models, in the SDK's own words.

import { FanlightError, errorOf } from "./errors.js";
import type {
  BudgetOptions as WireBudget,
  LoadOptions as WireOptions,
  MemoryPlan,
  ModelCard,
  ModelHead,
  ModelInspection,
  Progress,
  TypeUse,
  Warning,
} from "./protocol.js";

/** What a model takes on the GPU, in bytes; what browser and driver need comes on top. */
export interface Plan {
  gpuBytes: number;
  weightBytes: number;
  kvBytes: number;
  contextLength: number;
  batchSize: number;
  kvType: "f16" | "f32";
  /** Whether weights stream through the GPU, because not all of them fit. */
  isStreamed: boolean;
}

/** What the header of a model says. */
export interface ModelDescription {
  name: string;
  architecture: string;
  /** Number of weights. */
  parameters: number;
  /** Bytes of the weights in the files. */
  weightBytes: number;
  /** Formats of the weights with their bytes, most first. */
  types: TypeUse[];
  /** Longest context the model was made for, in tokens; 0 when the file does not say. */
  contextLengthMax: number;
  /** Whether it can hold a conversation; if not, `warnings` tells why. */
  hasChatTemplate: boolean;
  /** What a person should know about its tokenizer and chat template. */
  warnings: Warning[];
}

/** A model that was looked into: either a plan, or the reason why it cannot be run. */
export interface Inspection extends ModelDescription {
  plan: Plan | null;
  problem: FanlightError | null;
}

/** A loaded model. */
export interface ModelInfo extends ModelDescription {
  plan: Plan;
  contextLength: number;
  vocabularySize: number;
  /** Bytes of its buffers on the GPU. */
  gpuBytes: number;
  /** Whether the GPU refused to hold all of it, so that weights stream through. */
  wasReduced: boolean;
  /** What this GPU computes wrongly and is not used for prompts, which makes them slow. */
  quarantined: string | null;
  /** Bytes of weights that were read. */
  readBytes: number;
}

export interface ModelOptions {
  /** Tokens of the context, 256 to 32,768; 4,096, or the model's most where that is less. */
  contextLength?: number;
  /** Format of the cache of keys and values; `f16`. */
  kvType?: "f16" | "f32";
  /** Prompt tokens per batch, 1 to 512; 512, or less with a preset or budget. */
  batchSize?: number;
  /**
   * What the model may take on the GPU: `lite` 512 MiB, `saver` 2 GiB, `fast` 6 GiB. What does not fit
   * streams through, which is slower and gives the same text. Without it everything is on the GPU, or `saver`
   * applies where the GPU refuses.
   */
  preset?: "lite" | "saver" | "fast";
  /** The same in MiB, instead of a preset. */
  budgetMiB?: number;
}

/** What a loaded model may take on the GPU. */
export type BudgetOptions = Pick<ModelOptions, "preset" | "budgetMiB" | "batchSize">;

/** How far a load is. Bytes for `weights` and `check`, pipelines for `pipelines`. */
export type LoadProgress = Progress;

/** A budget as the worker takes it. */
export function wireBudget(options: BudgetOptions): WireBudget {
  const wire: WireBudget = {};
  if (options.batchSize !== undefined) wire.batchTokens = whole("batchSize", options.batchSize);
  if (options.preset !== undefined) wire.preset = options.preset;
  if (options.budgetMiB !== undefined) wire.budgetMib = whole("budgetMiB", options.budgetMiB);
  return wire;
}

/** Options as the worker takes them. */
export function wireOptions(options: ModelOptions, sha256: string[]): WireOptions {
  const wire: WireOptions = {};
  if (options.contextLength !== undefined) wire.contextLen = whole("contextLength", options.contextLength);
  if (options.kvType !== undefined) wire.kvType = options.kvType;
  Object.assign(wire, wireBudget(options));
  if (sha256.length > 0) wire.sha256 = sha256;
  return wire;
}

/** Refuses what has another name than an option: it would be ignored. */
export function refuseUnknown(what: string, options: object, known: ReadonlySet<string>): void {
  const other = Object.keys(options).find((name) => !known.has(name));
  if (other === undefined) return;
  const names = [...known].join(", ");
  throw new FanlightError("request", `${what} has no option ${other}: there are ${names}`);
}

/** A number that the engine can take; whether it is in range is the engine's to say. */
export function whole(name: string, value: number): number {
  if (Number.isInteger(value) && value >= 0 && value < 2 ** 32) return value;
  throw new FanlightError("request", `${name} of ${String(value)} was given, a whole number is needed`);
}

function planOf(plan: MemoryPlan): Plan {
  const { contextLen, batchTokens, ...rest } = plan;
  return { ...rest, contextLength: contextLen, batchSize: batchTokens };
}

function describe(head: ModelHead): ModelDescription {
  const { contextLenMax, warnings, ...rest } = head;
  return { ...rest, contextLengthMax: contextLenMax, warnings: warnings.map(warningOf) };
}

/** A warning of the engine, whose codes are listed in `protocol.ts`. */
export function warningOf({ code, message }: { code: string; message: string }): Warning {
  return { code: code as Warning["code"], message };
}

export function inspectionOf({ head, plan, problem }: ModelInspection): Inspection {
  return { ...describe(head), plan: plan ? planOf(plan) : null, problem: problem ? errorOf(problem) : null };
}

export function infoOf(card: ModelCard): ModelInfo {
  return {
    ...describe(card.head),
    hasChatTemplate: card.hasChatTemplate,
    plan: planOf(card.plan),
    contextLength: card.contextLen,
    vocabularySize: card.vocabularyLen,
    gpuBytes: card.gpuBytes,
    wasReduced: card.wasReduced,
    quarantined: card.quarantined ?? null,
    readBytes: card.readBytes,
  };
}
