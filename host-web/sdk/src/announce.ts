// Where the developer tools of a browser find the engines of a page: a set under a well-known symbol. It
// holds what can be seen of engines, not the engines: no prompt, reply or file can be reached from there.

import type { Snapshot } from "./protocol.js";

/** The key of the set on `globalThis`, the same for every copy of this package. */
export const ENGINES = Symbol.for("fanlight.engines");

/** What tools get of an engine. */
export interface Observable {
  /** What can be seen of it now, of samples those from a number on; null before it was started. */
  snapshot(after?: number): Promise<Snapshot | null>;
}

/** Adds an engine to the set; the returned function takes it out. */
export function announce(snapshot: Observable["snapshot"]): () => void {
  const place = globalThis as { [ENGINES]?: Set<Observable> };
  const engines = (place[ENGINES] ??= new Set());
  const observable: Observable = Object.freeze({ snapshot });
  engines.add(observable);
  return () => {
    engines.delete(observable);
  };
}
