// What the panel shows at one moment of a recording. Pure: a recording and a moment in, numbers out.

import type { Sample } from "fanlight";

import type { Frames, Recording, State } from "./recording.js";
import { CAUSES, type Piece } from "./words.js";

/** Points of a curve over time: what fits on a screen. */
export const BUCKETS = 120;

/** A stretch of the timeline. */
export interface Bar {
  fromUs: number;
  toUs: number;
  /** What it is: a piece's kind, or a cause of a gap. */
  kind: "prompt" | "plain" | "tree" | "measurement" | keyof Piece["gap"];
  /** The piece that it is, or that it stands before. */
  piece: Piece;
}

/** Where the time of the span went, microseconds; they add up to it. */
export interface Spent {
  busyUs: number;
  /** Of that, for which a page of streamed weights was waited for. */
  starvedUs: number;
  gaps: Record<keyof Piece["gap"], number>;
  /** Before the first piece, after the last one, and between those of which no sample came. */
  quietUs: number;
}

/** Curves over the span; null where nothing ran. */
export interface Speed {
  /** End of each bucket, seconds before the end of the span: negative. */
  seconds: number[];
  real: (number | null)[];
  expected: (number | null)[];
  width: (number | null)[];
}

export interface View {
  /** The moment, and how far back it looks. */
  atUs: number;
  spanUs: number;
  state: State;
  pieces: Piece[];
  bars: Bar[];
  spent: Spent;
  speed: Speed;
  frames: Frames[];
  /** Tokens per second and per step of the last windows that ran before the moment. */
  recent: { tokensPerS: number; tokensPerStep: number; atUs: number } | null;
}

/** The view of a recording at a moment, or at its end. Null while there is nothing to show. */
export function viewOf(recording: Recording, spanUs: number, momentUs: number | null): View | null {
  const { states, last } = recording;
  if (!last) return null;
  const atUs = momentUs ?? last.nowUs;
  const state = states.findLast(({ nowUs }) => nowUs <= atUs) ?? states[0] ?? last;
  const fromUs = atUs - spanUs;
  const { samples } = recording;
  const pieces = piecesOf(samples, fromUs, atUs);
  const bars = barsOf(pieces, fromUs);
  return {
    atUs,
    spanUs,
    state,
    pieces,
    bars,
    spent: spentOf(bars, fromUs, atUs),
    speed: speedOf(pieces, fromUs, spanUs),
    frames: recording.frames.filter((stretch) => stretch.atUs > fromUs && stretch.atUs <= atUs),
    recent: recentOf(samples, atUs),
  };
}

/** The pieces that were complete in a span; samples come in the order of their ends. */
function piecesOf(samples: readonly Sample[], fromUs: number, atUs: number): Piece[] {
  const pieces: Piece[] = [];
  for (let index = samples.length - 1; index >= 0; index -= 1) {
    const sample = samples[index];
    if (sample?.kind !== "piece" || sample.completedUs > atUs) continue;
    if (sample.completedUs <= fromUs) break;
    pieces.push(sample);
  }
  return pieces.reverse();
}

export function kindOf({ what, width }: Piece): "prompt" | "plain" | "tree" | "measurement" {
  if (what === "prompt" || what === "measurement") return what;
  return width === 0 ? "plain" : "tree";
}

function barsOf(pieces: Piece[], startUs: number): Bar[] {
  const bars: Bar[] = [];
  for (const piece of pieces) {
    let toUs = piece.beganUs - gapOf(piece);
    for (const [kind] of CAUSES) {
      const fromUs = toUs;
      toUs += piece.gap[kind];
      if (toUs <= fromUs || toUs <= startUs) continue;
      bars.push({ fromUs: Math.max(fromUs, startUs), toUs, kind, piece });
    }
    const fromUs = Math.max(piece.beganUs, startUs);
    bars.push({ fromUs, toUs: piece.completedUs, kind: kindOf(piece), piece });
  }
  return bars;
}

function gapOf(piece: Piece): number {
  return CAUSES.reduce((sum, [cause]) => sum + piece.gap[cause], 0);
}

function spentOf(bars: Bar[], fromUs: number, atUs: number): Spent {
  const gaps = { idleUs: 0, prepareUs: 0, compileUs: 0, hostUs: 0, consumerUs: 0, restUs: 0 };
  let [busyUs, starvedUs, known] = [0, 0, 0];
  for (const { fromUs: from, toUs, kind, piece } of bars) {
    known += toUs - from;
    if (kind in gaps) gaps[kind as keyof typeof gaps] += toUs - from;
    else {
      busyUs += toUs - from;
      starvedUs += Math.min(piece.starvedUs ?? 0, toUs - from);
    }
  }
  return { busyUs, starvedUs, gaps, quietUs: Math.max(0, atUs - Math.max(0, fromUs) - known) };
}

interface Bucket {
  us: number;
  tokens: number;
  expected: number;
  known: number;
  width: number;
}

function speedOf(pieces: Piece[], fromUs: number, spanUs: number): Speed {
  const bucketUs = spanUs / BUCKETS;
  const sums = Array.from({ length: BUCKETS }, (): Bucket => {
    return { us: 0, tokens: 0, expected: 0, known: 0, width: 0 };
  });
  for (const piece of pieces) if (piece.what === "window") spread(piece, sums, fromUs, bucketUs);
  return {
    seconds: sums.map((_, index) => ((index + 1) * bucketUs - spanUs) / 1e6),
    real: sums.map(({ tokens, us }) => (us > 0 ? (1e6 * tokens) / us : null)),
    expected: sums.map(({ expected, known }) => (known > 0 ? expected / known : null)),
    width: sums.map(({ width, us }) => (us > 0 ? width : null)),
  };
}

/** Adds a window to the buckets in which it ran, to each by its part. */
function spread(piece: Piece, sums: Bucket[], fromUs: number, bucketUs: number): void {
  const { beganUs, completedUs, tokens, width, expectedTokensPerS } = piece;
  if (completedUs <= beganUs) return;
  const first = Math.max(0, Math.floor((beganUs - fromUs) / bucketUs));
  for (let at = first; at < sums.length; at += 1) {
    const [from, to] = [fromUs + at * bucketUs, fromUs + (at + 1) * bucketUs];
    if (from >= completedUs) return;
    const bucket = sums[at];
    const us = Math.min(completedUs, to) - Math.max(beganUs, from);
    if (!bucket || us <= 0) continue;
    bucket.us += us;
    bucket.tokens += (tokens * us) / (completedUs - beganUs);
    bucket.width = Math.max(bucket.width, width);
    if (expectedTokensPerS > 0) {
      bucket.known += us;
      bucket.expected += us * expectedTokensPerS;
    }
  }
}

/** Microseconds of windows that the newest numbers are of. */
const RECENT_US = 2e6;

function recentOf(samples: readonly Sample[], atUs: number): View["recent"] {
  let [tokens, steps, endUs, startUs] = [0, 0, 0, 0];
  for (let index = samples.length - 1; index >= 0; index -= 1) {
    const sample = samples[index];
    if (sample?.kind !== "piece" || sample.completedUs > atUs) continue;
    if (endUs === 0 && sample.what !== "window") continue;
    // A prompt before them belongs to their reply, and what is before that to another.
    if (sample.what !== "window" || (endUs > 0 && endUs - sample.beganUs > RECENT_US)) break;
    if (endUs === 0) endUs = sample.completedUs;
    startUs = sample.beganUs;
    tokens += sample.tokens;
    steps += sample.liveSteps;
  }
  if (endUs <= startUs) return null;
  const tokensPerStep = tokens / Math.max(1, steps);
  return { tokensPerS: (1e6 * tokens) / (endUs - startUs), tokensPerStep, atUs: endUs };
}
