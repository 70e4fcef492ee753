// A token bucket: so many at once, so many per second in the long run.

export class TokenBucket {
  private tokens: number;
  private lastMs: number;

  /** `nowMs` is a clock that never goes back, in milliseconds. */
  constructor(
    private readonly burst: number,
    private readonly perSecond: number,
    private readonly nowMs: () => number,
  ) {
    this.tokens = burst;
    this.lastMs = nowMs();
  }

  /** Takes a token and returns 0, or returns the milliseconds until there is one. */
  take(): number {
    const now = this.nowMs();
    this.tokens = Math.min(this.burst, this.tokens + ((now - this.lastMs) * this.perSecond) / 1000);
    this.lastMs = now;
    if (this.tokens >= 1) {
      this.tokens -= 1;
      return 0;
    }
    return Math.ceil(((1 - this.tokens) * 1000) / this.perSecond);
  }
}
