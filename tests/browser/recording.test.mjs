// What the telemetry panel records, exports, reads and reports: logic without a browser.

import assert from "node:assert/strict";
import { test } from "node:test";
import { pathToFileURL } from "node:url";

import { bundled, temporaryFolder } from "./files.mjs";

const folder = temporaryFolder();
const source = (name) => `export * from "./devtools/src/${name}.ts";`;
const NAMES = ["recording", "trace", "report", "view", "ring"];
const built = bundled(folder, "logic.mjs", NAMES.map(source).join(""));
const logic = await import(pathToFileURL(built));
const { Recording, RecordingError, Ring, SAMPLES_MAX, STATES_MAX, reportOf, traceFile, viewOf } = logic;

const NO_GAP = { idleUs: 0, prepareUs: 0, compileUs: 0, hostUs: 0, consumerUs: 0, restUs: 0 };
const PHASES = {
  shownAtUs: 5_000,
  queueUs: 100,
  tokeniseUs: 200,
  recallUs: 0,
  compileUs: 700,
  prefillUs: 1_000,
  showUs: 10,
  totalUs: 2_010,
  promptTokens: 12,
  reusedTokens: 4,
};
const NINE = Array(9).fill(1);
const PASSES = {
  count: 0,
  elapsedUs: 0,
  starvedUs: 0,
  readBytes: 0,
  cachedBytes: 0,
  keptBytes: 0,
  waitedUs: 0,
};
const TOTALS = {
  replies: 1,
  promptTokens: 12,
  busyUs: 1,
  gaps: NO_GAP,
  memoryReplies: 0,
  memoryTokens: 0,
};
const ADAPTER = {
  name: "paper",
  backend: "webgpu",
  driver: "",
  isSoftware: true,
  bindingBytesMax: 1,
  hasPackedDot: true,
};
/** What a report must not say. */
const SECRETS = ["secret model", "secret.gguf", "secret words"];

/** A window that takes 8 ms of every 10, after 2 ms of a cause. */
function window(number, cause = "hostUs") {
  const beganUs = 10_000 * number + 2_000;
  return {
    kind: "piece",
    what: "window",
    width: 8,
    steps: 2,
    liveSteps: 2,
    tokens: 5,
    expectedTokensPerS: 600,
    submittedUs: beganUs,
    beganUs,
    completedUs: beganUs + 8_000,
    gap: { ...NO_GAP, [cause]: 2_000 },
  };
}

function state(nowUs, next) {
  const lane = { capacity: 4, depth: 0, depthMax: 1, waits: 0, drops: 0 };
  const pages = { count: 2, bytes: 100 };
  const costs = { plainUs: [4_000, 0, 0], treeUs: [0, 0, 0, 8_000, 0, 0] };
  const ledger = { weights: 200, streaming: 0, constants: 1, cache: 2, scratch: 3, drafting: 4, transfer: 5 };
  return {
    version: 2,
    nowUs,
    adapter: { ...ADAPTER },
    model: {
      name: SECRETS[0],
      contextLen: 512,
      batchTokens: 64,
      cacheBytes: 0,
      ledger: { ...ledger, total: 215 },
      resident: pages,
      streaming: { count: 0, bytes: 0 },
      slots: { count: 0, bytes: 0 },
      passBytes: 0,
      map: [1000],
    },
    quarantined: [{ nodes: 8, evidence: "lane against gemm" }],
    totals: { ...TOTALS, tokens: next },
    phases: PHASES,
    passes: { ...PASSES },
    drafts: { verified: 9, accepted: 3, stepsByAccepted: NINE, stepsByMatchLength: NINE },
    controller: {
      measured: costs,
      online: costs,
      acceptance: Array(9).fill({ steps: 1, promisedMilli: 500, right: 1 }),
      probes: 0,
    },
    actors: [{ name: "pager", control: lane, inbox: lane, lastError: `${SECRETS[1]}: ${SECRETS[2]}` }],
    droppedSamples: 0,
    next,
  };
}

/** A recording of so many windows, taken ten at a time. */
function recorded(windows) {
  const recording = new Recording();
  recording.add({ ...state(1, 0), samples: [], lostSamples: 0 });
  for (let first = 0; first < windows; first += 10) {
    const samples = Array.from({ length: 10 }, (_, at) => window(first + at, at % 2 ? "hostUs" : "restUs"));
    recording.add({ ...state(10_000 * (first + 10), first + 10), samples, lostSamples: 0 });
  }
  return recording;
}

test("a ring keeps the last ones and counts the rest", () => {
  const ring = new Ring(10);
  for (let number = 0; number < 100_003; number += 1) ring.push(number);
  assert.deepEqual(
    ring.all(),
    Array.from({ length: 10 }, (_, at) => 99_993 + at),
  );
  assert.equal(ring.gone, 99_993);
});

test("100,000 samples take the room of the last ones, and all are accounted for", () => {
  const recording = recorded(100_000);
  assert.equal(recording.samples.length, SAMPLES_MAX);
  assert.equal(recording.states.length, STATES_MAX);
  assert.equal(recording.forgotten, 100_000 - SAMPLES_MAX);
  assert.equal(recording.samples.at(-1).completedUs, 1_000_000_000);
  recording.add({ ...state(1_000_100_000, 100_200), samples: [], lostSamples: 200, droppedSamples: 3 });
  assert.equal(recording.missed, 203);
  // While nothing happens nothing is added.
  for (let at = 0; at < 50; at += 1) {
    recording.add({ ...state(1_000_200_000 + at, 100_200), samples: [], lostSamples: 0 });
  }
  assert.equal(recording.last.nowUs, 1_000_200_049);
  assert.equal(recording.states.filter(({ next }) => next === 100_200).length, 1);
  // Another engine, whose clock begins anew.
  recording.add({ ...state(5, 0), samples: [], lostSamples: 0 });
  assert.deepEqual([recording.samples.length, recording.states.length, recording.missed], [0, 1, 0]);
});

test("what is imported equals what was exported", () => {
  const recording = recorded(500);
  recording.add({
    ...state(5_100_000, 503),
    lostSamples: 7,
    samples: [
      { kind: "upload", atUs: 5_000_100, bytes: 10, elapsedUs: 3 },
      { kind: "passRead", atUs: 5_000_200, readBytes: 1, cachedBytes: 2, keptBytes: 2, waitedUs: 3 },
      { kind: "firstToken", phases: PHASES },
      { kind: "reply", atUs: 5_000_300, tokens: 4, elapsedUs: 9, memoryTokens: 0, acceptedTokens: 0 },
    ],
  });
  recording.addFrames({ atUs: 5_100_000, count: 6, worstMs: 21.5 });
  const text = JSON.stringify(recording.toFile());
  const again = Recording.fromFile(text);
  assert.equal(JSON.stringify(again.toFile()), text);
  assert.deepEqual(viewOf(again, 1e6, null), viewOf(recording, 1e6, null));
  assert.deepEqual(viewOf(again, 1e6, 2e6), viewOf(recording, 1e6, 2e6));
  assert.equal(again.missed, 7);
});

test("a file that is no recording is refused with the reason", () => {
  const file = () => structuredClone(recorded(20).toFile());
  const changed = (change) => {
    const copy = file();
    change(copy);
    return JSON.stringify(copy);
  };
  const bad = [
    ["nonsense", /not JSON/],
    ["[]", /not a JSON object/],
    ["{}", /does not say so/],
    [changed((copy) => (copy.version = 9)), /version 9/],
    [changed((copy) => (copy.states = [])), /no snapshot/],
    [changed((copy) => (copy.states[0].version = 1)), /version 1/],
    [changed((copy) => delete copy.states[1].drafts), /drafts/],
    [changed((copy) => (copy.states[1].model.map = ["x"])), /map/],
    [changed((copy) => (copy.samples[0].kind = "other")), /kind "other"/],
    [changed((copy) => (copy.samples[0].beganUs = -1)), /beganUs/],
    [changed((copy) => (copy.samples[0].gap = null)), /gap/],
    [changed((copy) => (copy.samples = Array(SAMPLES_MAX + 1).fill(copy.samples[0]))), /at most/],
    [changed((copy) => (copy.missed = "1")), /missed/],
  ];
  for (const [text, reason] of bad) {
    assert.throws(
      () => Recording.fromFile(text),
      (error) => error instanceof RecordingError && reason.test(error.message),
      text.slice(0, 60),
    );
  }
  Recording.fromFile(JSON.stringify(file()));
});

test("a view adds up: work, gaps and quiet are the time shown, and it can look back", () => {
  const recording = recorded(1_000);
  const now = viewOf(recording, 1e6, null);
  assert.equal(now.pieces.length, 100);
  assert.equal(now.spent.busyUs, 800_000);
  assert.deepEqual([now.spent.gaps.hostUs, now.spent.gaps.restUs], [100_000, 100_000]);
  assert.equal(now.spent.quietUs, 0);
  assert.equal(Math.round(now.recent.tokensPerS), 501);
  assert.equal(now.recent.tokensPerStep, 2.5);
  // 5 tokens in 8 ms, whatever part of a window a bucket has.
  for (const real of now.speed.real) assert.ok(Math.abs(real - 625) < 1e-6);
  assert.ok(now.speed.expected.every((expected) => Math.abs(expected - 600) < 1e-6));
  const back = viewOf(recording, 1e6, 2_003_000);
  assert.equal(back.atUs, 2_003_000);
  assert.ok(back.state.nowUs <= 2_003_000 && back.state.nowUs > 1_800_000);
  assert.equal(back.pieces.at(-1).completedUs, 2_000_000);
  assert.equal(back.spent.quietUs, 3_000);
  const { busyUs, gaps, quietUs } = back.spent;
  assert.equal(busyUs + Object.values(gaps).reduce((a, b) => a + b) + quietUs, 1e6);
  assert.equal(viewOf(new Recording(), 1e6, null), null);
});

test("a trace obeys the rules of the trace-event format", () => {
  const recording = recorded(300);
  recording.add({
    ...state(3_100_000, 303),
    lostSamples: 0,
    samples: [
      { kind: "firstToken", phases: PHASES },
      { kind: "upload", atUs: 100, bytes: 10, elapsedUs: 300 },
      { kind: "passRead", atUs: 200, readBytes: 1, cachedBytes: 2, keptBytes: 2, waitedUs: 3 },
      { kind: "reply", atUs: 3_000_300, tokens: 4, elapsedUs: 900, memoryTokens: 0, acceptedTokens: 0 },
      // It had waited for the one before.
      { kind: "reply", atUs: 3_000_700, tokens: 4, elapsedUs: 900, memoryTokens: 0, acceptedTokens: 0 },
    ],
  });
  recording.addFrames({ atUs: 3_100_000, count: 6, worstMs: 21.5 });
  const trace = JSON.parse(JSON.stringify(traceFile(recording)));
  assert.ok(["ms", "ns"].includes(trace.displayTimeUnit));
  const tracks = new Map();
  for (const event of trace.traceEvents) {
    const { name, ph, ts, pid, tid, dur, args } = event;
    assert.ok(typeof name === "string" && name.length > 0 && "XiCM".includes(ph), JSON.stringify(event));
    assert.ok(Number.isInteger(pid) && Number.isInteger(tid) && Number.isFinite(ts) && ts >= 0);
    if (ph === "X") {
      assert.ok(Number.isFinite(dur) && dur >= 0);
      tracks.set(tid, [...(tracks.get(tid) ?? []), [ts, ts + dur]]);
    } else assert.equal(dur, undefined);
    if (ph === "i") assert.ok(["g", "p", "t"].includes(event.s));
    if (ph === "C") assert.ok(Object.values(args).length > 0 && Object.values(args).every(Number.isFinite));
    if (ph === "M") {
      assert.ok(["process_name", "thread_name"].includes(name) && typeof args.name === "string");
    }
    if (ph !== "M") assert.ok(Object.values(args).every(Number.isFinite), "only numbers leave");
  }
  // Complete events of a track follow each other or lie inside each other.
  for (const spans of tracks.values()) {
    spans.sort((a, b) => a[0] - b[0] || b[1] - a[1]);
    const open = [];
    for (const [from, to] of spans) {
      while (open.length > 0 && open.at(-1) <= from) open.pop();
      assert.ok(open.length === 0 || to <= open.at(-1), `${from} to ${to} overlaps`);
      open.push(to);
    }
  }
  const on = (tid) => trace.traceEvents.filter((event) => event.ph === "X" && event.tid === tid);
  assert.equal(on(1).length, 300);
  assert.equal(on(2).length, 300);
  assert.equal(
    on(3).reduce((sum, { dur }) => sum + dur, 0),
    PHASES.totalUs,
  );
  const named = trace.traceEvents.filter(({ name }) => name === "thread_name").map(({ tid }) => tid);
  assert.deepEqual(new Set(named), new Set([1, 2, 3, 4, 5]));
});

test("a report and a trace have no text of the model, of files or of prompts", () => {
  const recording = recorded(50);
  const report = reportOf(recording, "Test/1.0");
  for (const text of [report, JSON.stringify(traceFile(recording))]) {
    for (const secret of SECRETS) assert.ok(!text.includes(secret), secret);
  }
  assert.match(report, /browser: Test\/1.0/);
  assert.match(report, /pager: .*an error/);
  assert.match(report, /quarantined: steps of 8 nodes and more \(lane against gemm\)/);
  assert.match(report, /first token: 2\.0 ms/);
  assert.match(reportOf(new Recording(), "x"), /Nothing was recorded/);
});
