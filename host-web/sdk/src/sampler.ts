// Takes snapshots of the engine for all who listen, at one rate, and only while somebody does.

import { FanlightError } from "./errors.js";
import type { Snapshot } from "./protocol.js";

/** Snapshots per second at most: as many as a person can follow. */
export const SNAPSHOT_HZ_MAX = 10;
/** Milliseconds until a snapshot is tried again after one that failed. */
const FAILED_MS = 1000;

interface Listening {
  heard: (snapshot: Snapshot) => void;
  hz: number;
  /** Number of the first sample that it has not heard. */
  next: number;
}

export class Sampler {
  private readonly listening = new Set<Listening>();
  private isRunning = false;

  /** `take` asks for a snapshot with the samples from a number on; null where there is no engine. */
  constructor(private readonly take: (after: number) => Promise<Snapshot | null>) {}

  /** Hears snapshots, each with the samples since the one before; the returned function ends that. */
  add(heard: (snapshot: Snapshot) => void, hz: number): () => void {
    if (!(hz > 0)) {
      const message = `${String(hz)} snapshots per second were asked for: more than 0 are needed`;
      throw new FanlightError("request", message);
    }
    const entry: Listening = { heard, hz: Math.min(hz, SNAPSHOT_HZ_MAX), next: 0 };
    this.listening.add(entry);
    if (!this.isRunning) void this.run();
    return () => this.listening.delete(entry);
  }

  /** Nobody hears any more. */
  clear(): void {
    this.listening.clear();
  }

  private async run(): Promise<void> {
    this.isRunning = true;
    while (this.listening.size > 0) {
      const began = performance.now();
      const isTaken = await this.tick();
      // The fastest rate that anyone asked for, and never a question while one is open.
      const pause = 1000 / Math.max(0, ...[...this.listening].map(({ hz }) => hz));
      const rest = isTaken ? began + pause - performance.now() : FAILED_MS;
      if (this.listening.size > 0) await new Promise((rested) => setTimeout(rested, Math.max(0, rest)));
    }
    this.isRunning = false;
  }

  private async tick(): Promise<boolean> {
    const after = Math.min(...[...this.listening].map(({ next }) => next));
    // Whoever listens to the engine's events hears what went wrong.
    const snapshot = await this.take(after).catch(() => null);
    if (snapshot === null) return false;
    for (const entry of [...this.listening]) {
      const cut = since(snapshot, entry.next);
      // Numbers that go back are those of a new engine: all that it has is news.
      entry.next = snapshot.next < entry.next ? 0 : snapshot.next;
      entry.heard(cut);
    }
    return true;
  }
}

/** The snapshot with the samples from number `next` on, and how many of those were lost. */
export function since(snapshot: Snapshot, next: number): Snapshot {
  const first = snapshot.next - snapshot.samples.length;
  const samples = snapshot.samples.slice(Math.max(0, next - first));
  return { ...snapshot, samples, lostSamples: Math.max(0, first - next) };
}
