// The controls of the panel: what is shown, exports and imports, the report.

import { h, mark, say } from "./dom.js";
import { time } from "./format.js";
import type { Recording } from "./recording.js";

/** Spans that can be shown, seconds, and the one at first. */
const SPANS_S = [1, 5, 15, 60];
const FIRST_S = 15;

/** What the controls do. */
export interface Controls {
  /** Stops at this moment, or goes on. */
  pause(): void;
  /** Shows a moment, microseconds of the engine's clock. */
  scrub(us: number): void;
  /** Shows so many seconds. */
  span(seconds: number): void;
  exportRecording(): void;
  exportTrace(): void;
  /** The text of a report. */
  report(): string;
  /** From a recording back to the engine. */
  goLive(): void;
  /** Shows a recording from a file; throws a RecordingError when it is none. */
  importFile(file: File): Promise<void>;
}

function button(text: string, act: () => void): HTMLButtonElement {
  const element = h("button", { type: "button" }, text);
  element.addEventListener("click", act);
  return element;
}

export class Toolbar {
  readonly elements: HTMLElement[];
  private readonly state = h("span", { class: "mode", role: "status" });
  private readonly note = h("p", { class: "note bad", role: "alert" });
  private readonly pause: HTMLButtonElement;
  private readonly live: HTMLButtonElement;
  private readonly slider = h("input", { type: "range", "aria-label": "Moment", step: "any" });
  private readonly at = h("output");
  private readonly scrub: HTMLElement;

  constructor(private readonly controls: Controls) {
    this.note.hidden = true;
    this.pause = button("Pause", () => controls.pause());
    this.live = button("Back to live", () => controls.goLive());
    const file = this.file();
    const report = new Report(controls);
    const head = h(
      "header",
      {},
      h("h2", {}, "Telemetry"),
      this.state,
      this.span(),
      this.pause,
      this.live,
      button("Export", () => controls.exportRecording()),
      button("Export trace", () => controls.exportTrace()),
      button("Import", () => file.click()),
      button("Bug report", () => report.open()),
      // What the page that shows the panel adds, such as a way to close it.
      h("slot", { name: "actions" }),
      file,
    );
    this.slider.addEventListener("input", () => controls.scrub(this.slider.valueAsNumber));
    this.scrub = h("div", { class: "scrub" }, this.slider, this.at);
    this.elements = [head, this.note, report.element, this.scrub];
  }

  /** Says what is shown. */
  mode(isImported: boolean, hasSource: boolean, isPaused: boolean): void {
    const following = !hasSource ? "no engine" : isPaused ? "paused" : "live, 10 a second";
    this.state.classList.toggle("live", !isImported && hasSource && !isPaused);
    say(this.state, isImported ? "recording" : following);
    say(this.pause, isPaused ? "Resume" : "Pause");
    this.pause.hidden = isImported;
    this.live.hidden = !isImported;
    // Live there is nothing to choose from.
    this.scrub.hidden = !isImported && !isPaused;
  }

  /** Shows where in a recording the moment lies; null is its end. */
  show(recording: Recording, momentUs: number | null): void {
    if (this.scrub.hidden) return;
    const [first, last] = [recording.states[0]?.nowUs ?? 0, recording.last?.nowUs ?? 0];
    mark(this.slider, "min", String(first));
    mark(this.slider, "max", String(last));
    this.slider.value = String(momentUs ?? last);
    const before = Math.max(0, last - (momentUs ?? last));
    const text = before < 1 ? "the end" : `${time(before)} before the end`;
    say(this.at, text);
    mark(this.slider, "aria-valuetext", text);
  }

  private span(): HTMLElement {
    const span = h("select", { "aria-label": "Time shown" });
    span.append(...SPANS_S.map((seconds) => h("option", { value: String(seconds) }, `last ${seconds} s`)));
    span.value = String(FIRST_S);
    span.addEventListener("change", () => this.controls.span(Number(span.value)));
    return span;
  }

  private file(): HTMLInputElement {
    const accept = ".json,application/json";
    const file = h("input", { type: "file", accept, "aria-label": "A recording" });
    file.hidden = true;
    file.addEventListener("change", () => {
      const picked = file.files?.[0];
      if (picked) void this.read(picked);
      file.value = "";
    });
    return file;
  }

  private async read(file: File): Promise<void> {
    this.note.hidden = true;
    try {
      await this.controls.importFile(file);
    } catch (error) {
      say(this.note, error instanceof Error ? error.message : String(error));
      this.note.hidden = false;
    }
  }
}

/** The report, to be read and copied. */
class Report {
  readonly element: HTMLElement;
  private readonly text = h("textarea", { readonly: "", "aria-label": "Report" });
  private readonly copied = h("span", { role: "status" });

  constructor(private readonly controls: Controls) {
    const hint = "Numbers only: no prompt, no output, no names of files or of the model.";
    const close = button("Close", () => {
      this.element.hidden = true;
    });
    const row = h("div", { class: "row" }, button("Copy", () => void this.copy()), close, this.copied);
    const parts = [h("p", {}, hint), this.text, row];
    this.element = h("section", { class: "card", "aria-label": "Bug report" }, ...parts);
    this.element.hidden = true;
  }

  open(): void {
    this.text.value = this.controls.report();
    say(this.copied, "");
    this.element.hidden = false;
    this.text.focus();
  }

  private async copy(): Promise<void> {
    try {
      await navigator.clipboard.writeText(this.text.value);
      say(this.copied, "copied");
    } catch {
      this.text.select();
      say(this.copied, "press Ctrl-C: the browser does not let this page copy");
    }
  }
}
