// Puts an answer on the page as it comes: at most once per frame, and only its last block is made anew.

import { withCopyButtons } from "./code.js";
import type { Entry } from "./conversation.js";
import { openBlock, rendered } from "./markdown.js";
import { thoughts } from "./state.js";

/** A page that is covered gets frames rarely: after so long an answer goes on without one. */
const FRAME_MS = 100;

/** Runs once before the next frame, or when the page is hidden, as it gets no frames then. */
function nextFrame(run: () => void): void {
  let isDone = false;
  const once = () => {
    if (isDone) return;
    isDone = true;
    document.removeEventListener("visibilitychange", once);
    clearTimeout(timer);
    run();
  };
  const timer = setTimeout(once, FRAME_MS);
  requestAnimationFrame(once);
  document.addEventListener("visibilitychange", once);
}

/** The answer that is being written. */
let writing: Writer | null = null;

export class Writer {
  private text = "";
  private thoughts = "";
  /** When the first and the last of the thoughts came. */
  private thought: { fromMs: number; toMs: number } | null = null;
  private place: HTMLElement | null = null;
  private readonly open = document.createElement("div");
  /** How much of the text is in finished blocks. */
  private finished = 0;
  private shown: Promise<void> | null = null;

  constructor(readonly id: string) {
    this.open.className = "open";
    document.addEventListener("visibilitychange", this.look);
  }

  /** The element that shows it; what came before is shown at once. */
  attach(place: HTMLElement): void {
    if (this.place === place) return;
    this.place = place;
    place.replaceChildren(this.open);
    this.finished = 0;
    this.show();
  }

  /** What was written so far, as parts of an entry. */
  said(): Pick<Entry, "content" | "thoughts" | "thoughtMs"> {
    const { text, thoughts: all, thought } = this;
    if (thought === null) return { content: text };
    return { content: text, thoughts: all, thoughtMs: Math.round(thought.toMs - thought.fromMs) };
  }

  /** Appends to the thoughts, which are shown apart; resolves as `append` does. */
  think(text: string): Promise<void> {
    const nowMs = performance.now();
    this.thought = { fromMs: this.thought?.fromMs ?? nowMs, toMs: nowMs };
    this.thoughts += text;
    thoughts.value = this.thoughts;
    return this.append("");
  }

  /**
   * Appends in the next frame; resolves when it is on the page. A page that nobody sees is not waited for:
   * browsers let its timers run once per second, and the answer would come no faster.
   */
  append(text: string): Promise<void> {
    this.text += text;
    if (document.hidden) return Promise.resolve();
    this.shown ??= new Promise((resolve) => {
      nextFrame(() => {
        this.shown = null;
        this.show();
        resolve();
      });
    });
    return this.shown;
  }

  /** Nothing more comes; the whole text is then shown by the view itself. */
  end(): void {
    if (writing === this) writing = null;
    document.removeEventListener("visibilitychange", this.look);
  }

  private readonly look = (): void => {
    if (!document.hidden) this.show();
  };

  private show(): void {
    if (!this.place) return;
    const isAtEnd = isScrolledToEnd();
    const rest = this.text.slice(this.finished);
    const start = openBlock(rest);
    if (start > 0) {
      this.open.before(withCopyButtons(rendered(rest.slice(0, start))));
      this.finished += start;
    }
    this.open.replaceChildren(rendered(rest.slice(start)));
    if (isAtEnd) scrollToEnd();
  }
}

/** Begins to write an answer. */
export function begin(id: string): Writer {
  writing = new Writer(id);
  return writing;
}

/** The writer of an answer, while it is being written. */
export function writerOf(id: string): Writer | null {
  return writing?.id === id ? writing : null;
}

function scroller(): HTMLElement | null {
  return document.getElementById("log");
}

function isScrolledToEnd(): boolean {
  const log = scroller();
  // Fractions of a pixel, and a line that has just been added.
  return log !== null && log.scrollHeight - log.clientHeight - log.scrollTop < 64;
}

/** Shows the end of the conversation. */
export function scrollToEnd(): void {
  const log = scroller();
  log?.scrollTo({ top: log.scrollHeight });
}
