// The timeline: what was on the device and why nothing was, on the scales and the canvas of a chart.

import uPlot from "uplot";

import { Chart, type Palette } from "./charts.js";
import { time } from "./format.js";
import type { Bar, View } from "./view.js";
import { CAUSES } from "./words.js";

/** Lanes, from top to bottom: share of the height at which each begins and ends. */
const LANES = { device: [0.04, 0.58], gap: [0.66, 0.96] } as const;
const GAP_KINDS: ReadonlySet<string> = new Set(CAUSES.map(([cause]) => cause));

/** The name of the colour of a bar. */
export function colourOf(kind: Bar["kind"]): string {
  return GAP_KINDS.has(kind) ? `gap-${kind.slice(0, -2)}` : kind;
}

/** What a bar is, in words. */
export function describe({ kind, fromUs, toUs, piece }: Bar): string {
  const cause = CAUSES.find(([key]) => key === kind);
  if (cause) return `nothing in flight: ${cause[1]}, ${time(toUs - fromUs)}`;
  const took = time(piece.completedUs - piece.beganUs);
  const starved = piece.starvedUs ? `, waited ${time(piece.starvedUs)} for pages` : "";
  if (piece.what === "prompt") return `prompt batch of ${piece.tokens} tokens: ${took}${starved}`;
  const nodes = piece.width === 0 ? "plain" : `${piece.width} nodes`;
  const what = piece.what === "measurement" ? "measurement" : "window";
  return `${what}, ${piece.steps} × ${nodes}: ${piece.tokens} tokens in ${took}${starved}`;
}

export class Timeline {
  private readonly chart: Chart;
  private bars: Bar[] = [];
  private atUs = 0;

  /** `told` hears what lies under the pointer, or null. */
  constructor(palette: Palette, told: (text: string | null) => void) {
    const seconds = (value: number) => (value === 0 ? "now" : `−${Math.abs(value)} s`);
    const lane = (value: number) => (value > 0.5 ? "device" : "gaps");
    const look = { height: 116, series: [], x: seconds, y: lane, ySplits: [0.19, 0.69], ySize: 52 };
    this.chart = new Chart(look, palette, {
      series: [{}, { label: "lanes", scale: "y", show: false }],
      scales: { x: { time: false }, y: { range: [0, 1] } },
      cursor: { show: true, y: false, drag: { x: false, y: false }, points: { show: false } },
      hooks: {
        draw: [(plot) => this.draw(plot, palette)],
        setCursor: [(plot) => told(this.under(plot))],
      },
    });
    this.element.classList.add("timeline");
  }

  get element(): HTMLElement {
    return this.chart.element;
  }

  show(view: View, label: string): void {
    this.bars = view.bars;
    this.atUs = view.atUs;
    this.chart.show(
      [
        [-view.spanUs / 1e6, 0],
        [0, 0],
      ],
      label,
    );
  }

  redraw(): void {
    this.chart.redraw();
  }

  destroy(): void {
    this.chart.destroy();
  }

  private draw(plot: uPlot, palette: Palette): void {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    // Where many bars share a pixel, each lane shows the first of them.
    const drawn = { device: -1, gap: -1 };
    const origin = plot.valToPos(0, "x", true);
    const scale = (origin - plot.valToPos(-1, "x", true)) / 1e6;
    for (const bar of this.bars) {
      const lane = GAP_KINDS.has(bar.kind) ? "gap" : "device";
      const left = origin + (bar.fromUs - this.atUs) * scale;
      const right = origin + (bar.toUs - this.atUs) * scale;
      const from = Math.max(left, drawn[lane]);
      if (right < bbox.left || Math.ceil(right) <= drawn[lane]) continue;
      const [top, bottom] = LANES[lane];
      // A hair between two bars tells them apart, where there is room for it.
      const width = Math.max(1, right - from - (right - left > 4 ? 1 : 0));
      ctx.fillStyle = palette(colourOf(bar.kind));
      ctx.fillRect(from, bbox.top + top * bbox.height, width, (bottom - top) * bbox.height);
      const starvedUs = lane === "device" ? Math.min(bar.piece.starvedUs ?? 0, bar.toUs - bar.fromUs) : 0;
      if (starvedUs > 0) {
        ctx.fillStyle = palette("starved");
        const part = (width * starvedUs) / (bar.toUs - bar.fromUs);
        ctx.fillRect(from, bbox.top + (bottom - 0.12) * bbox.height, part, 0.12 * bbox.height);
      }
      drawn[lane] = right;
    }
    ctx.restore();
  }

  private under(plot: uPlot): string | null {
    const { left, top } = plot.cursor;
    if (left === undefined || left < 0 || top === undefined || top < 0) return null;
    const us = this.atUs + plot.posToVal(left, "x") * 1e6;
    const isGap = top / plot.over.clientHeight > LANES.device[1];
    const found = this.bars.find(
      ({ fromUs, toUs, kind }) => fromUs <= us && us <= toUs && GAP_KINDS.has(kind) === isGap,
    );
    return found ? describe(found) : null;
  }
}
