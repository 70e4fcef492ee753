// What is evaluated in the inspected page. It is sent as text, so the function uses nothing that lies outside
// it. The page keeps no timer and no listener: what is not asked for costs nothing. Only frames are counted
// for two seconds after the last look.

import type { Snapshot } from "fanlight";

/** What a turn comes to; it crosses as JSON. */
export interface Turn {
  /** Engines that have announced themselves. */
  engines: number;
  snapshot?: Snapshot | null;
  error?: string;
  /** Frames of the page since the turn before, and the longest time between two of them. */
  frames?: { count: number; worstMs: number };
}

/**
 * Hands over the snapshot that was asked for by the turn before, and asks for the next. One question is open
 * at most, however slowly it is answered. `panel` tells panels apart: each begins with all samples that the
 * engine has.
 */
export function turn(panel: string): Turn {
  interface Slot {
    engine: object;
    panel: string;
    /** Number of the first sample that the panel has not got. */
    next: number;
    isOpen: boolean;
    taken: { snapshot?: Snapshot | null; error?: string } | null;
    meter: { isRunning: boolean; askedMs: number; lastMs: number; count: number; worstMs: number };
  }
  const place = globalThis as unknown as Record<symbol, unknown>;
  const engines = place[Symbol.for("fanlight.engines")] as
    Set<{ snapshot(after: number): Promise<Snapshot | null> }> | undefined;
  // The one that was made last: a page that makes a new one is done with those before.
  const engine = [...(engines ?? [])].at(-1);
  if (!engine) return { engines: 0 };
  const key = Symbol.for("fanlight.devtools");
  let slot = place[key] as Slot | undefined;
  if (slot?.engine !== engine || slot.panel !== panel) {
    const meter = { isRunning: false, askedMs: 0, lastMs: 0, count: 0, worstMs: 0 };
    place[key] = slot = { engine, panel, next: 0, isOpen: false, taken: null, meter };
  }
  const mine = slot;
  const { meter, taken } = mine;
  mine.taken = null;
  if (!mine.isOpen) {
    mine.isOpen = true;
    engine
      .snapshot(mine.next)
      .then((snapshot) => {
        // Numbers that go back are those of a new worker: all that it has is news.
        if (snapshot) mine.next = snapshot.next < mine.next ? 0 : snapshot.next;
        mine.taken = { snapshot };
      })
      .catch((error: unknown) => {
        mine.taken = { error: String(error) };
      })
      .finally(() => {
        mine.isOpen = false;
      });
  }
  const beat = (nowMs: number) => {
    if (meter.lastMs > 0) {
      meter.count += 1;
      meter.worstMs = Math.max(meter.worstMs, nowMs - meter.lastMs);
    }
    meter.lastMs = nowMs;
    meter.isRunning = nowMs - meter.askedMs < 2000;
    if (meter.isRunning) requestAnimationFrame(beat);
    else meter.lastMs = 0;
  };
  meter.askedMs = performance.now();
  // A page that nobody sees draws nothing, and that is no long frame.
  if (document.hidden) meter.lastMs = 0;
  if (!meter.isRunning) {
    meter.isRunning = true;
    requestAnimationFrame(beat);
  }
  const frames = { count: meter.count, worstMs: meter.worstMs };
  meter.count = meter.worstMs = 0;
  return { engines: engines?.size ?? 0, frames, ...taken };
}
