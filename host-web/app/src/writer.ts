// Puts an answer on the page as it comes: at most once per frame, and only its last block is made anew.

import { rendered, openBlock } from "./markdown.js";
import { withCopyButtons } from "./code.js";

/** Runs once before the next frame, or soon when the page is not shown and has no frames. */
function nextFrame(run: () => void): void {
  let isDone = false;
  const once = () => {
    if (isDone) return;
    isDone = true;
    document.removeEventListener("visibilitychange", once);
    run();
  };
  if (document.hidden) setTimeout(once, 0);
  else {
    requestAnimationFrame(once);
    // A page that is hidden now gets no frame.
    document.addEventListener("visibilitychange", once);
  }
}

/** The answer that is being written. */
let writing: Writer | null = null;

export class Writer {
  text = "";
  private place: HTMLElement | null = null;
  private readonly open = document.createElement("div");
  /** How much of the text is in finished blocks. */
  private finished = 0;
  private shown: Promise<void> | null = null;

  constructor(readonly id: string) {
    this.open.className = "open";
  }

  /** The element that shows it; what came before is shown at once. */
  attach(place: HTMLElement): void {
    if (this.place === place) return;
    this.place = place;
    place.replaceChildren(this.open);
    this.finished = 0;
    this.show();
  }

  /** Appends in the next frame; resolves when it is on the page. */
  append(text: string): Promise<void> {
    this.text += text;
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
  }

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
