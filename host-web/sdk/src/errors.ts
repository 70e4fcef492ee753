// Failures as a page gets them: a stable code to act on, and a text for people.

import type { WorkerFailure } from "./protocol.js";

/** What went wrong. Codes are stable; docs/embedding.md says what to do about each. */
export type FanlightErrorCode =
  | WorkerFailure["kind"]
  /** The worker ended: a crash, a script that did not load, or the browser's doing. */
  | "worker-died"
  /** The tab that held the engine was closed; another takes over at the next call. */
  | "owner-gone"
  /** This engine was disposed of. */
  | "disposed"
  /** Something was asked for that is not implemented. */
  | "unsupported";

/** Why no GPU can be used. */
export type MissingGpu = "secure-context" | "webgpu" | "adapter";

export class FanlightError extends Error {
  constructor(
    /** What went wrong. */
    readonly code: FanlightErrorCode,
    /** What was wanted, what was there and what to do. */
    message: string,
    /** With code `no-gpu`, what is missing. */
    readonly missing?: MissingGpu,
  ) {
    super(message);
    this.name = "FanlightError";
  }
}

/** A failure of the worker as an error. */
export function errorOf(failure: WorkerFailure): FanlightError {
  const missing = failure.kind === "no-gpu" ? "adapter" : undefined;
  return new FanlightError(failure.kind, failure.message, missing);
}
