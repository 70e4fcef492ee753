// A list that keeps the last items, and counts those it let go.

export class Ring<T> {
  private items: T[] = [];
  private pushed = 0;

  constructor(readonly max: number) {}

  push(item: T): void {
    this.pushed += 1;
    this.items.push(item);
    // Cut when it is twice as long, so that an item is moved once on average.
    if (this.items.length >= 2 * this.max) this.items = this.items.slice(-this.max);
  }

  /** Puts an item in place of the last one. */
  replaceLast(item: T): void {
    if (this.items.length > 0) this.items[this.items.length - 1] = item;
    else this.push(item);
  }

  clear(): void {
    this.items = [];
    this.pushed = 0;
  }

  /** What is kept, oldest first. */
  all(): T[] {
    return this.items.slice(-this.max);
  }

  /** How many are kept. */
  get size(): number {
    return Math.min(this.items.length, this.max);
  }

  last(): T | undefined {
    return this.items.at(-1);
  }

  /** Items that were let go. */
  get gone(): number {
    return Math.max(0, this.pushed - this.max);
  }
}
