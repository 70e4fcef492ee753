// A recording as trace events, the format that Chrome's tracing tools and Perfetto open. Numbers only.

import type { Sample } from "fanlight";

import type { Recording } from "./recording.js";
import { CAUSES, PHASES } from "./words.js";

/** One event; times are microseconds. */
export interface TraceEvent {
  name: string;
  ph: "X" | "i" | "C" | "M";
  ts: number;
  pid: number;
  tid: number;
  dur?: number;
  cat?: string;
  s?: "t";
  args?: Record<string, number | string>;
}

export interface TraceFile {
  traceEvents: TraceEvent[];
  displayTimeUnit: "ms";
  otherData: Record<string, number>;
}

const PID = 1;
/** Tracks, as threads of one process. */
const TRACKS = { device: 1, gaps: 2, phases: 3, replies: 4, weights: 5 } as const;
const TRACK_NAMES: Record<keyof typeof TRACKS, string> = {
  device: "Device",
  gaps: "Nothing in flight",
  phases: "Until the first token",
  replies: "Replies",
  weights: "Weights",
};

/** The events of a recording. */
export function traceFile(recording: Recording): TraceFile {
  const names = Object.entries(TRACKS).map(([track, tid]): TraceEvent => {
    const name = TRACK_NAMES[track as keyof typeof TRACKS];
    return { name: "thread_name", ph: "M", ts: 0, pid: PID, tid, args: { name } };
  });
  const process: TraceEvent = {
    name: "process_name",
    ph: "M",
    ts: 0,
    pid: PID,
    tid: 0,
    args: { name: "Fanlight" },
  };
  const frames = recording.frames.map(
    ({ atUs, count, worstMs }): TraceEvent => counter("Frames of the page", atUs, { count, worstMs }),
  );
  const samples = recording.samples.flatMap(eventsOf);
  separate(samples);
  const traceEvents = [process, ...names, ...samples, ...frames];
  const { missed, forgotten } = recording;
  return { traceEvents, displayTimeUnit: "ms", otherData: { missed, forgotten } };
}

/** Lets every event of a track begin when the one before has ended: requests may wait for each other. */
function separate(events: TraceEvent[]): void {
  const ends = new Map<number, number>();
  for (const event of events) {
    if (event.ph !== "X") continue;
    const end = event.ts + (event.dur ?? 0);
    event.ts = Math.max(event.ts, ends.get(event.tid) ?? 0);
    event.dur = Math.max(0, end - event.ts);
    ends.set(event.tid, event.ts + event.dur);
  }
}

function span(
  track: keyof typeof TRACKS,
  name: string,
  [fromUs, toUs]: [number, number],
  args: Record<string, number> = {},
): TraceEvent {
  // Before the engine's clock there is nothing to show.
  const ts = Math.max(0, fromUs);
  const dur = Math.max(0, toUs - ts);
  return { name, cat: track, ph: "X", ts, dur, pid: PID, tid: TRACKS[track], args };
}

function counter(name: string, atUs: number, args: Record<string, number>): TraceEvent {
  return { name, ph: "C", ts: atUs, pid: PID, tid: 0, args };
}

function eventsOf(sample: Sample): TraceEvent[] {
  switch (sample.kind) {
    case "piece":
      return pieceEvents(sample);
    case "upload": {
      const { atUs, bytes, elapsedUs } = sample;
      return [span("weights", "upload", [atUs - elapsedUs, atUs], { bytes })];
    }
    case "passRead": {
      const { atUs, readBytes, cachedBytes, waitedUs } = sample;
      const args = { readBytes, cachedBytes, waitedUs };
      return [{ name: "pass read", ph: "i", s: "t", ts: atUs, pid: PID, tid: TRACKS.weights, args }];
    }
    case "firstToken": {
      let atUs = sample.phases.shownAtUs - sample.phases.totalUs;
      return PHASES.filter(([key]) => sample.phases[key] > 0).map(([key, name]) => {
        const fromUs = atUs;
        atUs += sample.phases[key];
        return span("phases", name, [fromUs, atUs]);
      });
    }
    case "reply": {
      const { atUs, elapsedUs, tokens, memoryTokens, acceptedTokens } = sample;
      return [span("replies", "reply", [atUs - elapsedUs, atUs], { tokens, memoryTokens, acceptedTokens })];
    }
  }
}

function pieceEvents(piece: Extract<Sample, { kind: "piece" }>): TraceEvent[] {
  const { what, width, steps, tokens, beganUs, completedUs, gap, expectedTokensPerS } = piece;
  const name = what === "window" ? (width === 0 ? "plain window" : `window of ${width} nodes`) : what;
  const args = { width, steps, tokens, starvedUs: piece.starvedUs ?? 0 };
  const events = [span("device", name, [beganUs, completedUs], args)];
  let atUs = beganUs - CAUSES.reduce((sum, [key]) => sum + gap[key], 0);
  for (const [key, cause] of CAUSES) {
    if (gap[key] > 0) events.push(span("gaps", cause, [atUs, atUs + gap[key]]));
    atUs += gap[key];
  }
  if (what === "window" && completedUs > beganUs) {
    const real = (1e6 * tokens) / (completedUs - beganUs);
    events.push(counter("Tokens per second", completedUs, { real, expected: expectedTokensPerS }));
  }
  return events;
}
