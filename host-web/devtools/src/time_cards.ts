// Cards about time: the timeline, where it went, the speed, the curve T(N), drafts, the first token, frames.

import { Card, legend } from "./card.js";
import { Chart, type Palette } from "./charts.js";
import { h, Parts, say, Table } from "./dom.js";
import { number, share, time, whole } from "./format.js";
import { colourOf, describe, Timeline } from "./timeline.js";
import type { View } from "./view.js";
import { CAUSE_HINTS, CAUSES, PHASES, WIDTHS } from "./words.js";

/** Pieces that the table below the timeline lists. */
const LISTED = 12;
const short = (value: number) => (value === 0 ? "now" : `−${number(Math.abs(value))} s`);

export class TimelineCard extends Card {
  private readonly told = h("p", { class: "told" });
  private readonly list = new Table("The last pieces, newest first", ["Ended", "What", "Gap before"]);
  private readonly details = h("details", {}, h("summary", {}, "As a table"), this.list.element);
  private readonly timeline: Timeline;

  constructor(palette: Palette) {
    super("Timeline", "wide");
    const hint = "Point at a bar to read it. Above: the device at work. Below: why nothing was in flight.";
    this.timeline = new Timeline(palette, (text) => say(this.told, text ?? hint));
    say(this.told, hint);
    const work = legend(
      "Device:",
      ["prompt", "prompt"],
      ["plain", "plain window"],
      ["tree", "window that verifies a draft"],
      ["measurement", "measurement"],
      ["starved", "waiting for a page"],
    );
    const gaps = legend("Gaps:", ...CAUSES.map(([cause, name]) => [colourOf(cause), name] as const));
    this.add(this.timeline.element, work, gaps, this.told, this.details);
  }

  show(view: View): void {
    const { pieces, spent, spanUs } = view;
    const busy = `the device worked ${share(spent.busyUs, spanUs)} of the last ${time(spanUs)}`;
    this.say(`${whole(pieces.length)} pieces; ${busy}`);
    this.timeline.show(view, `Timeline: ${whole(pieces.length)} pieces, ${busy}.`);
    if (!this.details.open) return;
    const rows = pieces.slice(-LISTED).reverse().map((piece) => {
      const bar = { kind: "plain", fromUs: piece.beganUs, toUs: piece.completedUs, piece } as const;
      const causes = CAUSES.filter(([cause]) => piece.gap[cause] > 0);
      const gap = causes.map(([cause, name]) => `${name} ${time(piece.gap[cause])}`).join(", ");
      return { cells: [`${time(view.atUs - piece.completedUs)} ago`, describe(bar), gap || "none"] };
    });
    this.list.show(rows);
  }

  override redraw(): void {
    this.timeline.redraw();
  }

  override destroy(): void {
    this.timeline.destroy();
  }
}

export class SpentCard extends Card {
  private readonly parts = new Parts();
  private readonly table = new Table("Share of the time shown", ["", "Time", "Share"]);

  constructor() {
    super("Where the time went");
    this.add(this.parts.element, this.table.element);
  }

  show({ spent, atUs, spanUs }: View): void {
    const all = Math.min(spanUs, atUs);
    const working = spent.busyUs - spent.starvedUs;
    const rows = [
      { name: "device at work", us: working, colour: "plain", hint: "prompt batches and windows" },
      { name: "waiting for pages", us: spent.starvedUs, colour: "starved", hint: "weights that stream" },
      ...CAUSES.map(([cause, name]) => {
        const us = spent.gaps[cause];
        return { name, us, colour: colourOf(cause), hint: CAUSE_HINTS[cause] };
      }),
      { name: "quiet", us: spent.quietUs, colour: "quiet", hint: "nothing was recorded" },
    ];
    this.parts.show(
      rows.map(({ us, colour }) => ({ value: us, colour })),
      all,
    );
    this.table.show(
      rows.map(({ name, us, colour, hint }) => {
        return { cells: [name, time(us), share(us, all)], colour, hint, isDim: us === 0 };
      }),
    );
    this.say(`last ${time(spanUs)}`);
  }
}

export class SpeedCard extends Card {
  private readonly chart: Chart;

  constructor(palette: Palette) {
    super("Speed and width");
    this.chart = new Chart(
      {
        series: [
          { label: "width", colour: "width", scale: "right", drawn: "steps", isFilled: true },
          { label: "expected", colour: "expected", dash: [4, 4] },
          { label: "real", colour: "real" },
        ],
        x: short,
        y: number,
        right: (value) => (Number.isInteger(value) ? String(value) : ""),
      },
      palette,
    );
    const key = legend(
      "",
      ["real", "tokens/s, real"],
      ["expected", "tokens/s, expected by the controller"],
      ["width", "nodes a step (right)"],
    );
    this.add(this.chart.element, key);
  }

  show({ speed, recent }: View): void {
    const last = (values: (number | null)[]) => values.findLast((value) => value !== null) ?? null;
    const [real, expected, width] = [last(speed.real), last(speed.expected), last(speed.width)];
    const words =
      real === null
        ? "no window in this time"
        : `${number(real)} tokens/s real, ${expected === null ? "unknown" : number(expected)} expected, ` +
          `${width === 0 ? "plain" : `${width} nodes`}`;
    this.chart.show([speed.seconds, speed.width, speed.expected, speed.real], `Speed: ${words}.`);
    this.say(recent ? `while the device works; ${number(recent.tokensPerStep)} tokens a step` : words);
  }

  override redraw(): void {
    this.chart.redraw();
  }

  override destroy(): void {
    this.chart.destroy();
  }
}

export class CurveCard extends Card {
  private readonly chart: Chart;
  private readonly table = new Table("Time of a step", ["", "At the request", "Now"]);

  constructor(palette: Palette) {
    super("Cost of a step, T(N)");
    this.chart = new Chart(
      {
        series: [
          { label: "measured", colour: "measurement", dash: [4, 4] },
          { label: "now", colour: "real" },
          { label: "now", colour: "real", drawn: "points" },
        ],
        x: (value) => String(Math.round(2 ** value)),
        y: (value) => `${number(value)} ms`,
        splits: WIDTHS.map((nodes) => Math.log2(nodes)),
      },
      palette,
    );
    const key = legend("", ["real", "as it is now"], ["measurement", "as the last request found it"]);
    this.add(this.chart.element, key, this.table.element);
  }

  show({ state }: View): void {
    const { measured, online } = state.controller;
    const known = (us: number | undefined) => (us ? us / 1000 : null);
    const curve = WIDTHS.map((_, at) => known(online.treeUs[at]));
    const before = WIDTHS.map((_, at) => known(measured.treeUs[at]));
    const points = curve.filter((value) => value !== null).length;
    const said = (us: number | undefined) => (us ? time(us) : "–");
    const row = (name: string, before_: number | undefined, now: number | undefined) => {
      return { cells: [name, said(before_), said(now)], isKnown: (before_ ?? 0) + (now ?? 0) > 0 };
    };
    const plain = [1, 2, 4].map((steps, at) => {
      return row(`plain, windows of ${steps}`, measured.plainUs[at], online.plainUs[at]);
    });
    const trees = WIDTHS.map((nodes, at) => {
      return row(`${nodes} ${nodes === 1 ? "node" : "nodes"}`, measured.treeUs[at], online.treeUs[at]);
    });
    const rows = [...plain, ...trees].filter(({ isKnown }) => isKnown);
    this.table.element.hidden = rows.length === 0;
    this.table.show(rows);
    const plainUs = online.plainUs.find((us) => us > 0);
    const words = `${points} of ${WIDTHS.length} widths known, a plain step ${said(plainUs)}`;
    this.chart.show([WIDTHS.map((nodes) => Math.log2(nodes)), before, curve, curve], `Curve: ${words}.`);
    this.say(words);
  }

  override redraw(): void {
    this.chart.redraw();
  }

  override destroy(): void {
    this.chart.destroy();
  }
}

export class DraftCard extends Card {
  private readonly chart: Chart;
  private readonly depths = new Table("By accepted nodes", ["Accepted", "Steps", "Share"]);
  private readonly matches = new Table("By longest match", ["Match", "Promised", "Right"]);

  constructor(palette: Palette) {
    super("Drafts");
    this.chart = new Chart(
      {
        height: 120,
        series: [{ label: "steps", colour: "tree", drawn: "bars" }],
        x: (value) => String(value),
        y: (value) => (Number.isInteger(value) ? whole(value) : ""),
        splits: Array.from({ length: 9 }, (_, depth) => depth),
      },
      palette,
      {
        scales: {
          x: { time: false, range: [-0.6, 8.6] },
          y: { range: (_, __, max) => [0, Math.max(1, max)] },
        },
      },
    );
    const tables = h("div", { class: "pair" }, this.depths.element, this.matches.element);
    this.add(this.chart.element, legend("", ["tree", "steps by accepted nodes"]), tables);
  }

  show({ state }: View): void {
    const { drafts, controller, totals } = state;
    const rate = share(drafts.accepted, drafts.verified);
    const words = `${whole(drafts.accepted)} of ${whole(drafts.verified)} nodes accepted (${rate})`;
    const depths = drafts.stepsByAccepted.map((_, depth) => depth);
    this.chart.show([depths, drafts.stepsByAccepted], `Drafts: ${words}.`);
    const all = drafts.stepsByAccepted.reduce((sum, steps) => sum + steps, 0);
    const byDepth = drafts.stepsByAccepted.map((steps, depth) => {
      return { cells: [String(depth), whole(steps), share(steps, all)], isKnown: steps > 0 };
    });
    const byMatch = controller.acceptance.map(({ steps, promisedMilli, right }, length) => {
      const name = length === 1 ? "1 token" : `${length} tokens`;
      return { cells: [name, number(promisedMilli / 1000), whole(right)], isKnown: steps > 0 };
    });
    this.depths.show(byDepth.filter(({ isKnown }) => isKnown));
    this.matches.show(byMatch.filter(({ isKnown }) => isKnown));
    const { memoryReplies, memoryTokens } = totals;
    const memory = `; memory brought ${whole(memoryTokens)} tokens for ${whole(memoryReplies)} replies`;
    this.say(memoryReplies > 0 ? words + memory : words);
  }

  override redraw(): void {
    this.chart.redraw();
  }

  override destroy(): void {
    this.chart.destroy();
  }
}

const PHASE_COLOURS = ["gap-idle", "prompt", "drafting", "gap-compile", "plain", "gap-host"];

export class FirstTokenCard extends Card {
  private readonly parts = new Parts();
  private readonly table = new Table("The last request, in wall time", ["Phase", "Time", "Share"]);

  constructor() {
    super("From click to first token");
    this.add(this.parts.element, this.table.element);
  }

  show({ state }: View): void {
    const { phases } = state;
    this.table.element.hidden = this.parts.element.hidden = phases === undefined;
    if (!phases) return this.say("no request yet");
    const rows = PHASES.map(([key, name], at) => {
      return { name, us: phases[key], colour: PHASE_COLOURS[at] ?? "quiet" };
    });
    this.parts.show(
      rows.map(({ us, colour }) => ({ value: us, colour })),
      phases.totalUs,
    );
    this.table.show(
      rows.map(({ name, us, colour }) => {
        return { cells: [name, time(us), share(us, phases.totalUs)], colour, isDim: us === 0 };
      }),
    );
    const reused = phases.reusedTokens > 0 ? `, ${whole(phases.reusedTokens)} of them from the cache` : "";
    this.say(`${time(phases.totalUs)}; prompt of ${whole(phases.promptTokens)} tokens${reused}`);
  }
}

export class FramesCard extends Card {
  private readonly chart: Chart;

  constructor(palette: Palette) {
    super("Frames of the page");
    this.chart = new Chart(
      {
        height: 110,
        series: [{ label: "longest", colour: "frames", isFilled: true }],
        x: short,
        y: (value) => `${number(value)} ms`,
      },
      palette,
    );
    this.add(this.chart.element, legend("", ["frames", "longest time between two frames"]));
  }

  show({ frames, atUs, spanUs }: View): void {
    const worst = Math.max(0, ...frames.map(({ worstMs }) => worstMs));
    const us = frames.length > 1 ? atUs - (frames[0]?.atUs ?? atUs) : 0;
    const drawn = frames.slice(1).reduce((sum, { count }) => sum + count, 0);
    const rate = number((1e6 * drawn) / us);
    const words = us > 0 ? `${rate} frames/s, longest ${number(worst)} ms` : "not measured";
    // The ends of the span hold the axis still.
    const xs = [-spanUs / 1e6, ...frames.map((stretch) => (stretch.atUs - atUs) / 1e6), 0];
    this.chart.show([xs, [null, ...frames.map(({ worstMs }) => worstMs), null]], `Frames: ${words}.`);
    this.say(words);
  }

  override redraw(): void {
    this.chart.redraw();
  }

  override destroy(): void {
    this.chart.destroy();
  }
}

