// The conversation on the page: questions, and answers that grow by at most one piece per frame.

/** Runs once before the next frame, or soon when the page is not shown and has no frames. */
function nextFrame(run: () => void): void {
  if (document.hidden) setTimeout(run, 0);
  else requestAnimationFrame(run);
}

/** An answer on the page. */
export class Answer {
  readonly item = document.createElement("article");
  private readonly body = document.createElement("div");
  private readonly note = document.createElement("p");
  private readonly ids: number[] = [];
  private waitingText = "";
  private shown: Promise<void> | null = null;
  text = "";

  constructor() {
    this.item.className = "answer";
    this.item.setAttribute("aria-busy", "true");
    this.item.setAttribute("aria-label", "Answer");
    this.body.className = "text";
    this.note.className = "note";
    this.item.append(this.body, this.note);
  }

  /** Appends in the next frame; resolves when it is on the page. */
  append(text: string, ids: readonly number[]): Promise<void> {
    this.text += text;
    this.waitingText += text;
    this.ids.push(...ids);
    this.shown ??= new Promise((resolve) => {
      let isShown = false;
      const show = () => {
        if (isShown) return;
        isShown = true;
        this.shown = null;
        document.removeEventListener("visibilitychange", show);
        this.flush();
        resolve();
      };
      nextFrame(show);
      // A page that is hidden now gets no frame.
      document.addEventListener("visibilitychange", show);
    });
    return this.shown;
  }

  private flush(): void {
    const isAtEnd = isScrolledToEnd();
    this.body.append(this.waitingText);
    this.waitingText = "";
    this.item.dataset["tokenIds"] = this.ids.join(" ");
    if (isAtEnd) scrollTo({ top: document.documentElement.scrollHeight });
  }

  /** A line beneath the answer. */
  remark(text: string): void {
    this.note.textContent = text;
  }

  /** Marks it as complete. */
  finish(text: string, note: string): void {
    this.text += text;
    this.waitingText += text;
    this.flush();
    this.remark(note);
    this.item.setAttribute("aria-busy", "false");
  }
}

function isScrolledToEnd(): boolean {
  const { scrollHeight, clientHeight, scrollTop } = document.documentElement;
  // Fractions of a pixel, and a line that has just been added.
  return scrollHeight - clientHeight - scrollTop < 48;
}

/** A question on the page. */
export function questionItem(text: string): HTMLElement {
  const item = document.createElement("article");
  item.className = "question";
  item.setAttribute("aria-label", "Question");
  item.textContent = text;
  return item;
}
