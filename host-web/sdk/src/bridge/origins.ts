// Origins that may use the bridge from another site: exact, never patterns.

import { FanlightError } from "../errors.js";
import { ORIGINS_MAX } from "./limits.js";

/** Hosts of this computer: their pages come over no network, so they need no https. */
const LOCAL: ReadonlySet<string> = new Set(["localhost", "127.0.0.1", "[::1]"]);

/** The exact origin that a text names; throws a FanlightError that says what is wrong with it. */
export function parseOrigin(text: string): string {
  const typed = text.trim();
  const refuse = (why: string): never => {
    throw new FanlightError("request", `${typed === "" ? "nothing" : typed} was given: ${why}`);
  };
  const form = "give an origin such as https://app.example or http://localhost:3000";
  if (typed.includes("*")) refuse("origins are exact, and * stands for nothing here; add each one");
  if (!/^[a-z]+:\/\//i.test(typed) || !URL.canParse(typed)) refuse(form);
  const url = new URL(typed);
  if (url.username !== "" || url.password !== "") refuse("an origin has no name and password");
  if (url.pathname !== "/" || url.search !== "" || url.hash !== "" || /[?#]$/.test(typed)) {
    refuse(`an origin ends after host and port; give ${url.origin}`);
  }
  const isLocal = url.protocol === "http:" && LOCAL.has(url.hostname);
  if (url.protocol !== "https:" && !isLocal) {
    refuse("only https is let in, and http on this computer: others on the way could change such a page");
  }
  return url.origin;
}

/** A list of origins, each once. */
export function parseOrigins(texts: readonly string[]): ReadonlySet<string> {
  const origins = new Set(texts.map(parseOrigin));
  if (origins.size <= ORIGINS_MAX) return origins;
  const message = `${origins.size} origins were given, at most ${ORIGINS_MAX} are possible`;
  throw new FanlightError("request", message);
}
