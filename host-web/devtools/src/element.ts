// <fanlight-telemetry>: shows where the milliseconds and bytes of an engine go, live or from a recording.

import type { Card } from "./card.js";
import { h } from "./dom.js";
import { FrameMeter } from "./frames.js";
import { FILE_BYTES_MAX, Recording, RecordingError } from "./recording.js";
import { reportOf } from "./report.js";
import type { TelemetrySource } from "./source.js";
import { ActorsCard, AdapterCard, LedgerCard, PagesCard, Tiles } from "./state_cards.js";
import { STYLE } from "./style.js";
import {
  CurveCard,
  DraftCard,
  FirstTokenCard,
  FramesCard,
  SpeedCard,
  SpentCard,
  TimelineCard,
} from "./time_cards.js";
import { Toolbar, type Controls } from "./toolbar.js";
import { traceFile } from "./trace.js";
import { viewOf } from "./view.js";

/** Snapshots per second: as many as the engine gives. */
const HZ = 10;
/** Between two pictures of what goes on: nobody reads numbers faster, and drawing is what a panel costs. */
const DRAW_MS = 500;
export class FanlightTelemetry extends HTMLElement {
  private from: TelemetrySource | null = null;
  private end: (() => void) | null = null;
  private live = new Recording();
  /** What was read from a file, in place of what is live. */
  private imported: Recording | null = null;
  /** The moment that is shown; null at the end. */
  private momentUs: number | null = null;
  private spanUs = 15e6;
  private drawnMs = 0;
  private readonly meter = new FrameMeter();
  private built: Built | null = null;
  private readonly shown = (): void => this.follow();

  /** The engine to look at; null for none. */
  get source(): TelemetrySource | null {
    return this.from;
  }

  set source(source: TelemetrySource | null) {
    if (source === this.from) return;
    this.stop();
    this.from = source;
    this.live = new Recording();
    this.follow();
    this.render();
  }

  /** What is shown: what was imported, or what was seen of the engine so far. */
  get recording(): Recording {
    return this.imported ?? this.live;
  }

  /** Shows a recording in place of the engine; null goes back to that. */
  set recording(recording: Recording | null) {
    this.imported = recording;
    this.momentUs = null;
    this.follow();
    this.render();
  }

  connectedCallback(): void {
    this.built ??= build(this);
    document.addEventListener("visibilitychange", this.shown);
    this.follow();
    this.render();
  }

  disconnectedCallback(): void {
    document.removeEventListener("visibilitychange", this.shown);
    this.stop();
    this.built?.destroy();
    this.built = null;
  }

  /** Listens while it is on a page that is seen and shows the engine; else it costs nothing. */
  private follow(): void {
    const wants = this.isConnected && !document.hidden && this.imported === null;
    if (!wants) return this.stop();
    const { from } = this;
    if (this.end !== null || from === null) return;
    if (!from.takeFrames) this.meter.start();
    this.end = from.subscribe(
      (event) => {
        if (event.type !== "snapshot") return;
        this.live.add(event.snapshot);
        const frames = from.takeFrames?.() ?? this.meter.take();
        if (frames.count > 0) this.live.addFrames({ atUs: event.snapshot.nowUs, ...frames });
        // A paused panel records on and draws nothing.
        if (this.momentUs === null && performance.now() - this.drawnMs >= DRAW_MS) this.render();
      },
      { hz: HZ },
    );
  }

  private stop(): void {
    this.end?.();
    this.end = null;
    this.meter.stop();
  }

  private render(): void {
    const { built, recording } = this;
    if (!built) return;
    built.mode(this.imported !== null, this.from !== null, this.momentUs !== null);
    this.drawnMs = performance.now();
    const view = viewOf(recording, this.spanUs, this.momentUs);
    built.show(view, recording, this.momentUs);
  }

  /** What the controls do. */
  readonly controls: Controls = {
    pause: () => {
      this.momentUs = this.momentUs === null ? (this.recording.last?.nowUs ?? null) : null;
      this.render();
    },
    scrub: (us: number) => {
      this.momentUs = us;
      this.render();
    },
    span: (seconds: number) => {
      this.spanUs = seconds * 1e6;
      this.render();
    },
    exportRecording: () => save("fanlight-recording.json", JSON.stringify(this.recording.toFile())),
    exportTrace: () => save("fanlight-trace.json", JSON.stringify(traceFile(this.recording))),
    report: () => reportOf(this.recording, navigator.userAgent),
    goLive: () => {
      this.recording = null;
    },
    importFile: async (file: File) => {
      if (file.size > FILE_BYTES_MAX) {
        throw new RecordingError(`the file has ${file.size} bytes, at most ${FILE_BYTES_MAX} are read`);
      }
      this.recording = Recording.fromFile(await file.text());
    },
  };
}

/** Gives a file to the visitor. */
function save(name: string, text: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  link.download = name;
  link.click();
  // The browser has taken it when the click has returned.
  setTimeout(() => URL.revokeObjectURL(link.href), 0);
}

interface Built {
  mode(isImported: boolean, hasSource: boolean, isPaused: boolean): void;
  show(view: ReturnType<typeof viewOf>, recording: Recording, momentUs: number | null): void;
  destroy(): void;
}

/** Colours by name, as the theme has them now. */
class Colours {
  private readonly probe = h("span", { class: "probe" });
  private readonly known = new Map<string, string>();
  private theme = "";

  constructor(root: ShadowRoot) {
    root.append(this.probe);
  }

  /** True when the theme has changed since this was asked. */
  changed(): boolean {
    this.probe.style.color = "var(--text)";
    const theme = getComputedStyle(this.probe).color;
    if (theme === this.theme) return false;
    this.theme = theme;
    this.known.clear();
    return true;
  }

  readonly get = (name: string): string => {
    let colour = this.known.get(name);
    if (colour === undefined) {
      this.probe.style.color = `var(--${name})`;
      colour = getComputedStyle(this.probe).color;
      this.known.set(name, colour);
    }
    return colour;
  };
}

function build(host: FanlightTelemetry): Built {
  const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(STYLE);
  root.adoptedStyleSheets = [sheet];
  root.replaceChildren();
  const colours = new Colours(root);
  const bar = new Toolbar(host.controls);
  const tiles = new Tiles();
  const timeline = new TimelineCard(colours.get);
  const stacks: Card[][] = [
    [new SpentCard(), new FirstTokenCard(), new FramesCard(colours.get), new ActorsCard()],
    [new SpeedCard(colours.get), new CurveCard(colours.get), new DraftCard(colours.get)],
    [new LedgerCard(), new PagesCard(), new AdapterCard()],
  ];
  const cards = [timeline, ...stacks.flat()];
  const columns = stacks.map((stack) => h("div", { class: "stack" }, ...stack.map(({ element }) => element)));
  const grid = h("div", { class: "cards" }, timeline.element, ...columns);
  const empty = h("p", { class: "empty" }, "Nothing to show yet: load a model, or import a recording.");
  root.append(h("div", { class: "panel" }, ...bar.elements, tiles.element, grid, empty));
  // Cards that nobody sees are not drawn.
  const seen = new Set<Element>();
  let draw = (_: Set<Element>): void => {};
  const watcher = new IntersectionObserver((entries) => {
    const come = new Set<Element>();
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting) come.add(target);
      seen[isIntersecting ? "add" : "delete"](target);
    }
    draw(come);
  });
  for (const { element } of cards) watcher.observe(element);
  return {
    mode: (...what) => bar.mode(...what),
    show: (view, recording, momentUs) => {
      tiles.element.hidden = grid.hidden = view === null;
      empty.hidden = view !== null;
      bar.show(recording, momentUs);
      if (!view) return;
      tiles.show(view);
      draw = (which) => {
        for (const card of cards) if (which.has(card.element)) card.show(view, recording);
      };
      if (colours.changed()) for (const card of cards) card.redraw();
      draw(seen);
    },
    destroy: () => {
      watcher.disconnect();
      for (const card of cards) card.destroy();
    },
  };
}
