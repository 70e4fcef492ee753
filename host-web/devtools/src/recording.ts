// What the panel remembers: the last samples, snapshots and frames of an engine, bounded, with a count of
// what was let go. It can be written to a file and read again.

import type { Sample, Snapshot } from "fanlight";

import { Ring } from "./ring.js";

/** Samples that are kept: a few minutes of decoding. */
export const SAMPLES_MAX = 20_000;
/** Snapshots that are kept, without their samples: a minute in which every one brings something new. */
export const STATES_MAX = 600;
/** Stretches of frames that are kept: five minutes. */
export const FRAMES_MAX = 3_000;
/** Bytes of a file that is read: several times what the limits above take. */
export const FILE_BYTES_MAX = 64 << 20;

const FORMAT = "fanlight-recording";
const VERSION = 1;
/** Version of the snapshots that are understood. */
const SNAPSHOT_VERSION = 2;

/** Frames of the page between two snapshots. */
export interface Frames {
  /** When the stretch ended, microseconds of the engine's clock. */
  atUs: number;
  /** Frames in it. */
  count: number;
  /** The longest time between two of them, milliseconds. */
  worstMs: number;
}

/** A snapshot without its samples. */
export type State = Omit<Snapshot, "samples" | "lostSamples">;

/** A file that is no recording, and why. */
export class RecordingError extends Error {
  override readonly name = "RecordingError";
}

/** A recording as it is written to a file. */
export interface RecordingFile {
  format: typeof FORMAT;
  version: typeof VERSION;
  /** Samples that the engine or the panel let go before they were recorded, and since. */
  missed: number;
  forgotten: number;
  states: State[];
  samples: Sample[];
  frames: Frames[];
}

/** The last samples, snapshots and frames. */
export class Recording {
  private readonly stateRing = new Ring<State>(STATES_MAX);
  private readonly sampleRing = new Ring<Sample>(SAMPLES_MAX);
  private readonly frameRing = new Ring<Frames>(FRAMES_MAX);
  private missedBefore = 0;
  private forgottenBefore = 0;

  /** Takes a snapshot of a live engine. */
  add(snapshot: Snapshot): void {
    const { samples, lostSamples, ...state } = snapshot;
    const before = this.stateRing.last();
    // Another engine: times begin anew, and nothing of the old one can stand beside them.
    if (before && state.nowUs < before.nowUs) this.clear();
    this.missedBefore += lostSamples;
    for (const sample of samples) this.sampleRing.push(sample);
    // While nothing happens one snapshot stands for all.
    const isIdle = samples.length === 0 && before?.next === state.next && sameModel(before, state);
    if (isIdle && this.stateRing.size > 1) this.stateRing.replaceLast(state);
    else this.stateRing.push(state);
  }

  /** Takes what the page's frames did since the last snapshot. */
  addFrames(frames: Frames): void {
    this.frameRing.push(frames);
  }

  clear(): void {
    this.stateRing.clear();
    this.sampleRing.clear();
    this.frameRing.clear();
    this.missedBefore = 0;
    this.forgottenBefore = 0;
  }

  get states(): State[] {
    return this.stateRing.all();
  }

  get samples(): Sample[] {
    return this.sampleRing.all();
  }

  get frames(): Frames[] {
    return this.frameRing.all();
  }

  /** The newest snapshot. */
  get last(): State | undefined {
    return this.stateRing.last();
  }

  /** Samples that never came here: the engine overwrote them, or its queue was full. */
  get missed(): number {
    return this.missedBefore + (this.last?.droppedSamples ?? 0);
  }

  /** Samples that were here and were let go. */
  get forgotten(): number {
    return this.forgottenBefore + this.sampleRing.gone;
  }

  /** As it is written to a file. */
  toFile(): RecordingFile {
    const { states, samples, frames, forgotten } = this;
    const missed = this.missedBefore;
    return { format: FORMAT, version: VERSION, missed, forgotten, states, samples, frames };
  }

  /**
   * Reads what {@link toFile} has written.
   *
   * Throws a RecordingError when it is none, or of another version.
   */
  static fromFile(text: string): Recording {
    if (text.length > FILE_BYTES_MAX) {
      fail(`it has ${text.length} characters, at most ${FILE_BYTES_MAX} are read`);
    }
    const file = parsed(text);
    if (file["format"] !== FORMAT) fail("it does not say so: choose a file that this panel exported");
    if (file["version"] !== VERSION) {
      const found = String(file["version"]);
      fail(`it has version ${found}, this panel reads ${VERSION}: use the panel that wrote it`);
    }
    const recording = new Recording();
    for (const state of list(file, "states", STATES_MAX)) recording.stateRing.push(checkedState(state));
    for (const sample of list(file, "samples", SAMPLES_MAX)) recording.sampleRing.push(checkedSample(sample));
    for (const frames of list(file, "frames", FRAMES_MAX)) recording.frameRing.push(checkedFrames(frames));
    if (recording.stateRing.last() === undefined) fail("there is no snapshot in it");
    recording.missedBefore = count(file, "missed");
    recording.forgottenBefore = count(file, "forgotten");
    return recording;
  }
}

function sameModel(a: State, b: State): boolean {
  return a.model?.name === b.model?.name && a.model?.ledger.total === b.model?.ledger.total;
}

function fail(why: string): never {
  throw new RecordingError(`this is no recording that can be shown: ${why}`);
}

type Fields = Record<string, unknown>;

function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function parsed(text: string): Fields {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    fail(`it is not JSON (${String(error)})`);
  }
  return isFields(value) ? value : fail("it is not a JSON object");
}

function list(fields: Fields, name: string, max: number): Fields[] {
  const value = fields[name];
  if (!Array.isArray(value)) return fail(`${name} is missing or no list`);
  if (value.length > max) return fail(`${name} has ${value.length} entries, at most ${max} are read`);
  return value.map((entry) => (isFields(entry) ? entry : fail(`an entry of ${name} is no object`)));
}

function count(fields: Fields, name: string): number {
  const value = fields[name];
  if (typeof value === "number" && Number.isFinite(value) && value >= 0) return value;
  return fail(`${name} is ${JSON.stringify(value)}, a number from 0 on is needed`);
}

function counts(fields: Fields, names: readonly string[], what: string): void {
  const inside = fields[what];
  if (!isFields(inside)) return fail(`${what} is missing`);
  for (const name of names) count(inside, name);
}

function numbers(fields: Fields, name: string): void {
  const value = fields[name];
  if (!Array.isArray(value) || value.some((entry) => typeof entry !== "number" || !Number.isFinite(entry))) {
    fail(`${name} is no list of numbers`);
  }
}

const GAPS = ["idleUs", "prepareUs", "compileUs", "hostUs", "consumerUs", "restUs"] as const;
const PHASES = [
  ...["shownAtUs", "queueUs", "tokeniseUs", "recallUs", "compileUs", "prefillUs", "showUs", "totalUs"],
  ...["promptTokens", "reusedTokens"],
];
const PASSES = ["count", "elapsedUs", "starvedUs", "readBytes", "cachedBytes", "keptBytes", "waitedUs"];
const LANE = ["capacity", "depth", "depthMax", "waits", "drops"];
const LEDGER = ["weights", "streaming", "constants", "cache", "scratch", "drafting", "transfer", "total"];

/** Checks what the views count on; what else there is they do not look at. */
function checkedState(state: Fields): State {
  if (state["version"] !== SNAPSHOT_VERSION) {
    fail(`a snapshot has version ${String(state["version"])}, ${SNAPSHOT_VERSION} is needed`);
  }
  for (const name of ["nowUs", "droppedSamples", "next"]) count(state, name);
  counts(state, ["replies", "tokens", "promptTokens", "busyUs", "memoryReplies", "memoryTokens"], "totals");
  counts(state["totals"] as Fields, GAPS, "gaps");
  counts(state, PASSES, "passes");
  counts(state, ["verified", "accepted"], "drafts");
  for (const name of ["stepsByAccepted", "stepsByMatchLength"]) numbers(state["drafts"] as Fields, name);
  counts(state, ["probes"], "controller");
  const controller = state["controller"] as Fields;
  for (const which of ["measured", "online"]) {
    const costs = controller[which];
    if (!isFields(costs)) return fail(`the costs ${which} are missing`);
    for (const name of ["plainUs", "treeUs"]) numbers(costs, name);
  }
  for (const entry of list(controller, "acceptance", 9)) {
    for (const name of ["steps", "promisedMilli", "right"]) count(entry, name);
  }
  for (const actor of list(state, "actors", 64)) {
    if (typeof actor["name"] !== "string" || typeof actor["lastError"] !== "string") {
      fail("an actor has no name");
    }
    for (const lane of ["control", "inbox"]) counts(actor, LANE, lane);
  }
  for (const found of list(state, "quarantined", 16)) {
    count(found, "nodes");
    if (typeof found["evidence"] !== "string") fail("a quarantined pipeline has no evidence");
  }
  if (state["phases"] !== undefined) counts(state, PHASES, "phases");
  if (state["model"] !== undefined) checkModel(state["model"]);
  const adapter = state["adapter"];
  if (adapter !== undefined && (!isFields(adapter) || typeof adapter["name"] !== "string")) {
    fail("the adapter has no name");
  }
  return state as unknown as State;
}

function checkModel(model: unknown): void {
  if (!isFields(model) || typeof model["name"] !== "string") return fail("the model has no name");
  counts(model, LEDGER, "ledger");
  for (const name of ["resident", "streaming", "slots"]) counts(model, ["count", "bytes"], name);
  for (const name of ["contextLen", "passBytes", "cacheBytes"]) count(model, name);
  numbers(model, "map");
}

const PIECE = [
  ...["width", "steps", "liveSteps", "tokens", "expectedTokensPerS"],
  ...["submittedUs", "beganUs", "completedUs"],
];

function checkedSample(sample: Fields): Sample {
  switch (sample["kind"]) {
    case "piece":
      for (const name of PIECE) count(sample, name);
      counts(sample, GAPS, "gap");
      if (!["prompt", "window", "measurement"].includes(String(sample["what"]))) {
        fail("a piece does not say what it is");
      }
      break;
    case "upload":
      for (const name of ["atUs", "bytes", "elapsedUs"]) count(sample, name);
      break;
    case "passRead":
      for (const name of ["atUs", "readBytes", "cachedBytes", "waitedUs"]) count(sample, name);
      break;
    case "firstToken":
      counts(sample, PHASES, "phases");
      break;
    case "reply":
      for (const name of ["atUs", "tokens", "elapsedUs"]) count(sample, name);
      break;
    default:
      fail(`there is a sample of kind ${JSON.stringify(sample["kind"])}`);
  }
  return sample as unknown as Sample;
}

function checkedFrames(frames: Fields): Frames {
  for (const name of ["atUs", "count", "worstMs"]) count(frames, name);
  return frames as unknown as Frames;
}
