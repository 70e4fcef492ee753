// How regularly the page draws: the time between its frames, while somebody looks.

export class FrameMeter {
  private request = 0;
  private lastMs = 0;
  private count = 0;
  private worstMs = 0;

  start(): void {
    if (this.request !== 0) return;
    this.lastMs = 0;
    const next = (nowMs: number) => {
      if (this.lastMs > 0) {
        this.count += 1;
        this.worstMs = Math.max(this.worstMs, nowMs - this.lastMs);
      }
      this.lastMs = nowMs;
      this.request = requestAnimationFrame(next);
    };
    this.request = requestAnimationFrame(next);
  }

  stop(): void {
    cancelAnimationFrame(this.request);
    this.request = 0;
    this.take();
  }

  /** Frames since this was last asked, and the longest time between two of them. */
  take(): { count: number; worstMs: number } {
    const { count, worstMs } = this;
    this.count = 0;
    this.worstMs = 0;
    return { count, worstMs };
  }
}
