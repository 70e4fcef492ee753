// What the panel looks at.

import type { Snapshot } from "fanlight";

/** An engine, or whatever stands for one: a `Fanlight` is a source as it is. */
export interface TelemetrySource {
  /** Hears snapshots, each with the samples since the one before, at most `hz` times a second. */
  subscribe(listener: (event: SourceEvent) => void, options: { hz: number }): () => void;
  /** Frames of the engine's page since this was last asked; absent where that is the panel's own page. */
  takeFrames?(): { count: number; worstMs: number };
}

/** Only snapshots are heeded. */
export type SourceEvent =
  { type: "snapshot"; snapshot: Snapshot } | { type: "model" } | { type: "warning" } | { type: "ended" };
