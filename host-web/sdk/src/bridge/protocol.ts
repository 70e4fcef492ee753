// What the two ends of the bridge say to each other. Types only: nothing of this file is there at run time.

import type { ChatCompletionChunk, ChatCompletionRequest } from "../openai.js";

/** From a client: strings and numbers only, so that each end can check a message before it looks into it. */
export type ToBridge = { fanlightBridge: number; client: string } & (
  | { type: "hello" }
  /** `body` is the JSON of a `BridgeRequest`; `seq` grows with every request of a session. */
  | { type: "ask"; session: string; seq: number; body: string; proof: string }
  /** How many chunks of a reply were taken so far. */
  | { type: "take"; session: string; seq: number; count: number }
  /** It is closed: what it asked for ends. */
  | { type: "bye"; session: string }
);

/** What can be asked. */
export type BridgeRequest =
  | { method: "ping" }
  | { method: "chat.completions"; request: ChatCompletionRequest }
  | { method: "cancel"; target: number };

/** A failure on its way. */
export interface ToldError {
  code: string;
  message: string;
  retryAfterMs?: number;
}

/** To one client, named by what it calls itself. `seq` is null where no single request is meant. */
export type FromBridge = { fanlightBridge: number; client: string } & (
  | { type: "ready"; session: string }
  | { type: "chunk"; seq: number; chunk: ChatCompletionChunk }
  | { type: "done"; seq: number; result: unknown }
  | { type: "error"; seq: number | null; error: ToldError }
);

/** What a ping answers. */
export interface BridgeState {
  version: number;
  /** The loaded model. */
  model: { name: string; contextLength: number } | null;
}
