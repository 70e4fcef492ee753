// Snapshots of an engine in another page, as the telemetry component takes them: looks into the page as often
// as somebody listens, and only while the panel is shown.

import type { Snapshot } from "fanlight";

import type { TelemetrySource } from "../src/source.js";
import type { Frames } from "./frames.js";
import { turn, type Turn } from "./turn.js";

/** What is to be said of the page. */
export type PageState =
  | { kind: "attached" }
  /** No engine has announced itself. */
  | { kind: "none" }
  /** There is an engine, and no snapshot yet. */
  | { kind: "waiting" }
  | { kind: "failed"; message: string };

/** Looks per second when a listener names no rate, and while no engine is there. */
const LOOKS_HZ = 1;
/** Looks per second at most, as many as the SDK takes. */
const LOOKS_HZ_MAX = 10;

/** The engine of the inspected page, as the telemetry component takes one. */
export class PageSource implements TelemetrySource {
  private readonly listening = new Set<{ heard: (snapshot: Snapshot) => void; hz: number }>();
  private isShown = false;
  private isRunning = false;
  /** Whether a snapshot has come since there is an engine. */
  private isAttached = false;
  private drawn = { count: 0, worstMs: 0 };
  private readonly panel = crypto.randomUUID();
  private wake: () => void = () => {};

  constructor(
    private readonly frames: Pick<Frames, "evaluate">,
    private readonly said: (state: PageState) => void,
  ) {}

  /** Hears snapshots while the panel is shown, each with the samples since the one before. */
  subscribe(
    listener: (event: { type: "snapshot"; snapshot: Snapshot }) => void,
    { hz = LOOKS_HZ }: { hz?: number } = {},
  ): () => void {
    const heard = (snapshot: Snapshot) => listener({ type: "snapshot", snapshot });
    const entry = { heard, hz: Math.min(hz, LOOKS_HZ_MAX) };
    this.listening.add(entry);
    this.begin();
    return () => this.listening.delete(entry);
  }

  /** Whether the panel is looked at; nothing is evaluated while it is not. */
  show(isShown: boolean): void {
    this.isShown = isShown;
    this.wake();
    this.begin();
  }

  /** What the frames of the inspected page did since this was last asked. */
  takeFrames(): { count: number; worstMs: number } {
    const { drawn } = this;
    this.drawn = { count: 0, worstMs: 0 };
    return drawn;
  }

  private begin(): void {
    if (!this.isRunning && this.isActive()) void this.run();
  }

  private isActive(): boolean {
    return this.isShown && this.listening.size > 0;
  }

  private async run(): Promise<void> {
    this.isRunning = true;
    while (this.isActive()) {
      const isThere = await this.look();
      const hz = isThere ? Math.max(...[...this.listening].map((entry) => entry.hz), LOOKS_HZ) : LOOKS_HZ;
      await new Promise<void>((rested) => {
        const timer = setTimeout(rested, 1000 / hz);
        this.wake = () => {
          clearTimeout(timer);
          rested();
        };
      });
    }
    this.isRunning = false;
  }

  /** One look; true when there is an engine. */
  private async look(): Promise<boolean> {
    try {
      const expression = `(${turn})("${this.panel}")`;
      const isFound = ({ engines: count }: Turn) => count > 0;
      const { engines, snapshot, error, frames } = await this.frames.evaluate<Turn>(expression, isFound);
      if (frames) {
        this.drawn.count += frames.count;
        this.drawn.worstMs = Math.max(this.drawn.worstMs, frames.worstMs);
      }
      if (error !== undefined) this.say({ kind: "failed", message: error });
      else if (engines === 0) this.say({ kind: "none" });
      else if (snapshot) {
        this.say({ kind: "attached" });
        for (const { heard } of [...this.listening]) heard(snapshot);
      } else if (!this.isAttached) this.say({ kind: "waiting" });
      return engines > 0;
    } catch (failure) {
      this.say({ kind: "failed", message: failure instanceof Error ? failure.message : String(failure) });
      return false;
    }
  }

  private say(state: PageState): void {
    this.isAttached = state.kind === "attached";
    this.said(state);
  }
}
