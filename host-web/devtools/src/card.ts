// A card of the panel: a title, a line that says the most important, and what it shows.

import { h, say } from "./dom.js";
import type { Recording } from "./recording.js";
import type { View } from "./view.js";

export abstract class Card {
  readonly element: HTMLElement;
  private readonly line = h("p");

  constructor(title: string, ...kinds: string[]) {
    const head = h("div", { class: "head" }, h("h3", {}, title), this.line);
    this.element = h("section", { class: ["card", ...kinds].join(" "), "aria-label": title }, head);
  }

  /** Shows a view; called only while the card can be seen. */
  abstract show(view: View, recording: Recording): void;

  /** Draws once more with other colours. */
  redraw(): void {}

  /** Lets go of what it holds. */
  destroy(): void {}

  protected say(text: string): void {
    say(this.line, text);
  }

  protected add(...nodes: Node[]): void {
    this.element.append(...nodes);
  }
}

/** A line that says which colour is what, after a word of what it is about. */
export function legend(word: string, ...entries: readonly (readonly [string, string])[]): HTMLElement {
  const spans = entries.map(([colour, text]) => {
    const dot = h("span", { class: "mark", "aria-hidden": "true" });
    dot.style.setProperty("--mark", `var(--${colour})`);
    return h("span", {}, dot, text);
  });
  return h("div", { class: "legend" }, ...(word ? [h("span", {}, word)] : []), ...spans);
}
