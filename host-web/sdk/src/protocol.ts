// What a page and the worker of the engine say to each other. Types that the engine defines come from the
// generated module.

import type {
  Adapter,
  Address,
  BudgetOptions,
  Failure,
  LoadOptions,
  ModelCard,
  ModelInspection,
  Progress,
  ReplyEnd,
  ReplyEvent,
  ReplyRequest,
  SnapshotWire,
  TokenizeRequest,
  Verification,
  VerifyScope,
} from "./fanlight.js";

export type {
  Adapter,
  Address,
  BudgetOptions,
  Failure,
  LoadOptions,
  MemoryPlan,
  ModelCard,
  ModelHead,
  ModelInspection,
  Part,
  Progress,
  ReplyEnd,
  ReplyEvent,
  ReplyRequest,
  SampleWire as Sample,
  SnapshotWire as Snapshot,
  TokenizeRequest,
  TypeUse,
  Verification,
  VerifyScope,
} from "./fanlight.js";

/** Where a model comes from, as the worker takes it. */
export type WireSource =
  { from: "files"; files: File[] } | { from: "address"; address: Address; isStored: boolean };

/** A file that the browser keeps, or a part of one. */
export interface StoredModel {
  url: string;
  /** Bytes of the file, and those of it that are kept. */
  length: number;
  keptBytes: number;
  isComplete: boolean;
}

/** Something to be told that is no failure: the work goes on. */
export interface Warning {
  code:
    | "not-stored"
    | "resumed"
    | "resumed-elsewhere"
    | "reloaded"
    | "reduced"
    | "quarantined"
    /** What was kept of earlier replies is of no use and is begun anew. */
    | "memory-dropped"
    /** The browser keeps nothing of replies and measurements for another visit. */
    | "not-remembered"
    | ModelWarningCode;
  message: string;
}

/** What is odd about a model's tokenizer or chat template, or was changed so that it takes the messages. */
export type ModelWarningCode =
  | "pre-tokenizer-missing"
  | "unencodable-bytes"
  | "control-typed-as-text"
  | "control-texts-missing"
  | "no-chat-template"
  | "chat-template-unusable"
  | "system-left-out"
  | "replies-left-out"
  | "out-of-order"
  | "neighbours-joined"
  | "system-moved-to-user";

/** What is told while something asked for is being done. */
export type WorkerEvent = Progress | ReplyEvent | { type: "warning"; warning: Warning };

/** What a page can ask: the fields of the question, and the answer. */
export interface Requests {
  /** Opens the GPU. */
  open: { ask: Record<never, never>; answer: Adapter };
  /** Looks into a model. */
  inspect: { ask: { source: WireSource; options: LoadOptions }; answer: ModelInspection };
  /** Loads a model under a key, unless the model of this key is loaded. */
  load: { ask: { source: WireSource; options: LoadOptions; key: string }; answer: ModelCard };
  /**
   * Generates a reply with the model of this key; every event is acknowledged. `askedAtMs` is wall time, for
   * telemetry.
   */
  generate: {
    ask: { request: ReplyRequest; key: string; askedAtMs: number; scope: string };
    answer: ReplyEnd;
  };
  tokenize: { ask: { request: TokenizeRequest; key: string }; answer: Uint32Array };
  detokenize: { ask: { ids: Uint32Array; key: string }; answer: string };
  /** Forgets the conversation in the cache. */
  reset: { ask: { key: string }; answer: null };
  /** Gives the model of this key another budget, and another key. */
  budget: { ask: { options: BudgetOptions; key: string; newKey: string }; answer: ModelCard };
  /** Forgets every reply that drafts could be made from, those that the browser keeps too. */
  "forget-memory": { ask: Record<never, never>; answer: null };
  /** Frees the model of this key, if it is loaded. */
  unload: { ask: { key: string }; answer: null };
  /** Stops another question, running or waiting; answered when that one is over. */
  cancel: { ask: { target: number }; answer: null };
  /** Compares pipelines on this GPU. */
  verify: { ask: { scope: VerifyScope }; answer: Verification };
  /** Bytes of the engine's own memory. */
  memory: { ask: Record<never, never>; answer: number };
  /** What can be seen of the engine, with samples from a number on; null where none has been started. */
  snapshot: { ask: { after: number }; answer: SnapshotWire | null };
  /** What the browser keeps. */
  stored: { ask: Record<never, never>; answer: StoredModel[] };
  /** Removes what is kept of the file at an address. */
  forget: { ask: { url: string }; answer: null };
}

export type RequestName = keyof Requests;

/** A question, told apart by its name. */
export type Question = { [N in RequestName]: { name: N } & Requests[N]["ask"] }[RequestName];

/** Failures that the engine itself does not know. */
export type WorkerFailure = Failure | { kind: "no-model" | "model-replaced"; message: string };

/** From a page to the worker. */
export type ToWorker =
  /** The first message: where the module is, when it is not beside the worker. */
  | { type: "begin"; wasmUrl: string | null }
  /** Without `mayWait` a question that would have to wait fails as busy. */
  | { type: "ask"; id: number; question: Question; mayWait: boolean }
  /** The event was taken: there is room for more. */
  | { type: "acknowledge"; id: number };

/** From the worker about a question. */
export type About =
  | { type: "event"; id: number; event: WorkerEvent }
  | { type: "answer"; id: number; answer: Requests[RequestName]["answer"] }
  | { type: "failure"; id: number; failure: WorkerFailure };

/** From the worker to the page. */
export type FromWorker =
  | About
  /** The script runs, and holds the lock of this name as long as it lives; null where it may have none. */
  | { type: "alive"; lock: string | null }
  /** The engine has panicked or trapped: nothing else will come. */
  | { type: "crash"; message: string };

/** Events of one reply that may be on their way to the page before the engine has to wait. */
export const EVENTS_UNACKNOWLEDGED_MAX = 4;

/** Questions that wait for the engine. Each holds its texts; a page that asks more often is told to wait. */
export const QUESTIONS_WAITING_MAX = 32;

/** Milliseconds of a clock that never goes back and that page and worker share. */
export function wallMs(): number {
  return performance.timeOrigin + performance.now();
}
