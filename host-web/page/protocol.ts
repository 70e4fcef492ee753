// What the page and its worker say to each other. Types that the engine defines come from the generated
// package.

import type {
  Adapter, Failure, LoadOptions, ModelCard, Progress, ReplyEnd, ReplyEvent, ReplyRequest, Verification,
  VerifyScope,
} from "./fanlight.js";

export type {
  Adapter, Failure, ModelCard, Progress, ReplyEnd, ReplyEvent, ReplyRequest, Verification, VerifyScope,
};

/** What the page can ask: the fields of the question, what is told meanwhile, and the answer. */
export interface Requests {
  /** Opens the GPU. */
  open: { ask: Record<never, never>; event: never; answer: Adapter };
  /** Loads a model from picked files. */
  loadFiles: { ask: { files: File[]; options: LoadOptions }; event: Progress; answer: ModelCard };
  /** Loads a model from an address. */
  loadUrl: { ask: { url: string; options: LoadOptions }; event: Progress; answer: ModelCard };
  /** Generates a reply; every event is acknowledged. */
  generate: { ask: ReplyRequest; event: ReplyEvent; answer: ReplyEnd };
  /** Stops the reply or load at hand; answered when the engine is idle. */
  cancel: { ask: Record<never, never>; event: never; answer: null };
  /** Compares all pipelines on this GPU, or a cover of them. */
  verify: { ask: { scope: VerifyScope }; event: Progress; answer: Verification };
}

export type RequestName = keyof Requests;

/** A question, told apart by its name. */
export type Question = { [N in RequestName]: { name: N } & Requests[N]["ask"] }[RequestName];

/** From the page to the worker. */
export type ToWorker =
  | { type: "ask"; id: number; question: Question }
  /** The event was shown: there is room for more. */
  | { type: "acknowledge"; id: number };

/** From the worker to the page. */
export type FromWorker =
  /** The script runs, and holds the lock of this name for as long as it lives. */
  | { type: "alive"; lock: string }
  | { type: "event"; id: number; event: Progress | ReplyEvent }
  | { type: "answer"; id: number; answer: Requests[RequestName]["answer"] }
  | { type: "failure"; id: number; failure: Failure }
  /** The engine has panicked or trapped: nothing else will come. */
  | { type: "crash"; message: string };

/** The name that the page gives its worker's lock; the worker is created with it as its name. */
export const LOCK_PREFIX = "fanlight-worker-";

/** Events of one reply that may be on their way to the page before the engine has to wait. */
export const EVENTS_UNACKNOWLEDGED_MAX = 4;
