// Evaluates in the frame that has an engine: the inspected page itself, or else one that it embeds.

/** Frames that are looked into at most; a page with more of them has its engine elsewhere. */
export const FRAMES_MAX = 16;

/** What of the browser's developer tools is used. */
export interface Inspected {
  /** Evaluates in the frame of an address, or in the page itself; fails with a text for people. */
  evaluate(expression: string, frameUrl: string | null): Promise<unknown>;
  /** Addresses of the documents of the page. */
  documents(): Promise<string[]>;
}

export class Frames {
  /** The frame that had an engine the last time; null for the page itself. */
  private current: string | null = null;

  constructor(private readonly inspected: Inspected) {}

  /** Evaluates in the page, then in its frames, until `isFound` likes a value; else gives the page's own. */
  async evaluate<T>(expression: string, isFound: (value: T) => boolean): Promise<T> {
    const { inspected, current } = this;
    const first = (await inspected.evaluate(expression, current).catch((failure: unknown) => {
      // A frame that is gone; the page itself can only fail as a whole.
      if (current === null) throw failure;
      return null;
    })) as T | null;
    if (first !== null && isFound(first)) return first;
    if (current !== null) {
      this.current = null;
      return await this.evaluate(expression, isFound);
    }
    for (const url of (await inspected.documents()).slice(0, FRAMES_MAX)) {
      const value = (await inspected.evaluate(expression, url).catch(() => null)) as T | null;
      if (value === null || !isFound(value)) continue;
      this.current = url;
      return value;
    }
    if (first === null) throw new Error("the page has answered nothing: reload it");
    return first;
  }
}
