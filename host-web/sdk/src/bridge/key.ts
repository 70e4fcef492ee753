// The key of the bridge: made of random bytes, never chosen, never sent.

import { FanlightError } from "../errors.js";

const PREFIX = "fl_sk_";
/** 256 bits, as many as the hash of the proofs has. */
const KEY_BYTES = 32;
const FORM = /^fl_sk_[A-Za-z0-9_-]{43}$/;

/** A fresh key: `fl_sk_` and 256 random bits in base64url. */
export function newBridgeKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(KEY_BYTES));
  return PREFIX + base64url(bytes);
}

/** Whether a text has the form of a key. */
export function isBridgeKey(text: unknown): text is string {
  return typeof text === "string" && FORM.test(text);
}

/** Refuses what was not made by `newBridgeKey`: keys that people think of can be guessed. */
export function checkKey(key: string | null): string | null {
  if (key === null || isBridgeKey(key)) return key;
  throw new FanlightError("request", "the key of the bridge has another form: make one with newBridgeKey()");
}

export function base64url(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replaceAll("=", "");
}

/** Whether two texts are equal, in a time that depends on their lengths alone. */
export function isSame(a: string, b: string): boolean {
  let difference = a.length ^ b.length;
  for (let at = 0; at < a.length; at += 1) difference |= a.charCodeAt(at) ^ b.charCodeAt(at);
  return difference === 0;
}
