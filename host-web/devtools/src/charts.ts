// Charts on uPlot: lines over time, curves, bars, and the timeline. Colours come from the panel's style.

import uPlot from "uplot";

import { h, mark } from "./dom.js";

/** Gives the value of a colour by its name. */
export type Palette = (name: string) => string;

const HEIGHT = 150;
const FONT = "11px system-ui, sans-serif";

export interface SeriesLook {
  label: string;
  colour: string;
  /** On which scale; `y`. */
  scale?: string;
  dash?: number[];
  /** Filled to the axis. */
  isFilled?: boolean;
  /** Drawn as steps, points or bars; as a line. */
  drawn?: "steps" | "points" | "bars";
}

export interface ChartLook {
  height?: number;
  series: SeriesLook[];
  /** Text of an x value. */
  x: (value: number) => string;
  /** Text of a y value, and of one on the second scale. */
  y: (value: number) => string;
  right?: (value: number) => string;
  /** Fixed places on x, and on y; pixels of the y axis. */
  splits?: number[];
  ySplits?: number[];
  ySize?: number;
}

/** The paths of a way to draw. */
function paths(drawn: SeriesLook["drawn"]): uPlot.Series.PathBuilder | undefined {
  if (drawn === "steps") return uPlot.paths.stepped?.({ align: -1 });
  if (drawn === "bars") return uPlot.paths.bars?.({ size: [0.7, 40] });
  if (drawn === "points") return () => null;
  return uPlot.paths.linear?.();
}

function seriesOf(look: SeriesLook, palette: Palette): uPlot.Series {
  const { label, colour, scale = "y", dash, isFilled, drawn } = look;
  const built = paths(drawn);
  return {
    label,
    scale,
    width: drawn === "bars" ? 0 : drawn === "steps" ? 1 : 1.75,
    stroke: () => palette(colour),
    points: { show: drawn === "points", size: 7, fill: () => palette(colour) },
    spanGaps: false,
    ...(built && { paths: built }),
    ...(dash && { dash }),
    ...(drawn === "bars" && { fill: () => palette(colour) }),
    ...(isFilled && { fill: () => palette(`${colour}-soft`) }),
  };
}

function axis(palette: Palette, text: (value: number) => string, more: Partial<uPlot.Axis>): uPlot.Axis {
  return {
    font: FONT,
    stroke: () => palette("faint"),
    grid: { stroke: () => palette("line"), width: 1 },
    ticks: { show: false },
    gap: 4,
    values: (_, splits) => splits.map((value) => (value === null ? "" : text(value))),
    ...more,
  };
}

/** What a picture says before it has come into view, and so has not been drawn. */
export const UNDRAWN = "drawn once it is in view";

/** A chart in a box that it fills. */
export class Chart {
  readonly element = h("div", { class: "chart", role: "img", "aria-label": UNDRAWN });
  private readonly plot: uPlot;
  private readonly resized: ResizeObserver;

  constructor(look: ChartLook, palette: Palette, more: Partial<uPlot.Options> = {}) {
    const height = look.height ?? HEIGHT;
    const scales: uPlot.Scales = {
      x: { time: false },
      y: { range: (_, __, max) => [0, max > 0 ? max * 1.08 : 1] },
      ...(look.right && { right: { range: (_, __, max): [number, number] => [0, Math.max(2, max * 1.08)] } }),
    };
    const axes = [
      axis(palette, look.x, {
        size: 24,
        grid: { show: false },
        space: 60,
        ...(look.splits && { splits: () => look.splits ?? [] }),
      }),
      axis(palette, look.y, {
        size: look.ySize ?? 58,
        space: 28,
        ...(look.ySplits && { splits: () => look.ySplits ?? [], grid: { show: false } }),
      }),
    ];
    if (look.right) {
      axes.push(axis(palette, look.right, { scale: "right", side: 1, size: 34, grid: { show: false } }));
    }
    const options: uPlot.Options = {
      width: 300,
      height,
      scales,
      axes,
      series: [{}, ...look.series.map((series) => seriesOf(series, palette))],
      legend: { show: false },
      cursor: { show: false },
      padding: [8, 14, 0, 0],
      ...more,
    };
    this.plot = new uPlot(options, [[], ...look.series.map(() => [])], this.element);
    this.resized = new ResizeObserver(() => {
      const width = Math.floor(this.element.clientWidth);
      if (width > 0 && width !== this.plot.width) this.plot.setSize({ width, height });
    });
    this.resized.observe(this.element);
  }

  /** Shows data; `label` says it in words. */
  show(data: uPlot.AlignedData, label: string): void {
    mark(this.element, "aria-label", label);
    this.plot.setData(data);
  }

  /** Points that it holds. */
  get points(): number {
    return this.plot.data[0]?.length ?? 0;
  }

  /** Draws once more, as with other colours. */
  redraw(): void {
    this.plot.redraw(true, false);
  }

  destroy(): void {
    this.resized.disconnect();
    this.plot.destroy();
  }
}
