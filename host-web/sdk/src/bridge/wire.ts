// Reads what other pages send. Nothing in a message is believed before it has been looked at here.

import { BRIDGE_VERSION, BridgeError } from "./client.js";
import { CLIENT_CHARS_MAX, REQUEST_CHARS_MAX } from "./limits.js";
import type { BridgeRequest, ToBridge } from "./protocol.js";

const CLIENT = new RegExp(`^[A-Za-z0-9-]{1,${CLIENT_CHARS_MAX}}$`);
/** Of a session: 128 bits in base64url. */
const SESSION = /^[A-Za-z0-9_-]{22}$/;
const PROOF = /^[A-Za-z0-9_-]{43}$/;

/** A message that is for the bridge and cannot be used. */
export interface Unusable {
  type: "unusable";
  client: string;
  seq: number | null;
  error: BridgeError;
}

/** A message to the bridge; null for anything else, and for what does not say whom to answer. */
export function readMessage(data: unknown): ToBridge | Unusable | null {
  if (typeof data !== "object" || data === null) return null;
  const { fanlightBridge, type, client, ...rest } = data as Record<string, unknown>;
  if (typeof fanlightBridge !== "number" || typeof client !== "string" || !CLIENT.test(client)) return null;
  const seq = isCount(rest["seq"]) ? rest["seq"] : null;
  const unusable = (code: "malformed" | "too-large", message: string): Unusable => {
    return { type: "unusable", client, seq, error: new BridgeError(code, message) };
  };
  if (fanlightBridge !== BRIDGE_VERSION) {
    const message = `a message has version ${fanlightBridge}, the bridge has ${BRIDGE_VERSION}: `;
    return unusable("malformed", `${message}take bridge-client.js from this engine's page`);
  }
  const base = { fanlightBridge, client };
  const { session, body, proof, count } = rest;
  switch (type) {
    case "hello":
      return { ...base, type };
    case "ask":
      if (!isSession(session)) return unusable("malformed", "a request has no session: say hello first");
      if (seq === null || seq === 0) return unusable("malformed", "a request's seq is no number from 1 on");
      if (typeof proof !== "string" || !PROOF.test(proof)) {
        return unusable("malformed", "a request has no proof of its key: use bridge-client.js");
      }
      if (typeof body !== "string") return unusable("malformed", "a request's body is no text: send JSON");
      if (body.length > REQUEST_CHARS_MAX) {
        const message = `a request has ${body.length} characters, at most ${REQUEST_CHARS_MAX} are taken`;
        return unusable("too-large", `${message}: shorten its messages`);
      }
      return { ...base, type, session, seq, body, proof };
    case "take":
      if (!isSession(session) || seq === null || !isCount(count)) {
        return unusable("malformed", "a take needs session, seq and count");
      }
      return { ...base, type, session, seq, count };
    case "bye":
      return isSession(session) ? { ...base, type, session } : null;
    case "ready":
    case "chunk":
    case "done":
    case "error":
      // Another bridge's answer: on a channel everybody hears everything.
      return null;
    default:
      return unusable("malformed", `a message has type ${shown(type)}: hello, ask, take and bye are known`);
  }
}

/** The request in a body; throws a BridgeError. */
export function readRequest(body: string): BridgeRequest {
  let request: Record<string, unknown> | null;
  try {
    request = JSON.parse(body) as Record<string, unknown> | null;
  } catch {
    throw new BridgeError("malformed", "a request's body is no JSON");
  }
  const method = request?.["method"];
  if (method === "ping") return { method };
  if (method === "cancel") {
    const target = request?.["target"];
    if (isCount(target)) return { method, target };
    throw new BridgeError("malformed", "a cancel names no request: give target, the seq of one");
  }
  if (method === "chat.completions") {
    const asked = request?.["request"];
    if (typeof asked === "object" && asked !== null && !Array.isArray(asked)) {
      return { method, request: asked as Extract<BridgeRequest, { request: unknown }>["request"] };
    }
    throw new BridgeError("malformed", "chat.completions has no request: give an object with messages");
  }
  const known = "ping, chat.completions and cancel are known";
  throw new BridgeError("malformed", `a request has method ${shown(method)}: ${known}`);
}

function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}

function isSession(value: unknown): value is string {
  return typeof value === "string" && SESSION.test(value);
}

/** A hostile value in a message for people: short, and never looked into. */
function shown(value: unknown): string {
  return typeof value === "string" ? JSON.stringify(value.slice(0, 40)) : `a ${typeof value}`;
}
