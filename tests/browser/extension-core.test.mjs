// How the extension of the developer tools gets snapshots out of a page, without a browser: its expressions
// are evaluated here, against engines that are slow, fail, start anew, or lie in a frame.

import assert from "node:assert/strict";
import { afterEach, beforeEach, mock, test } from "node:test";
import vm from "node:vm";

import { bundled, temporaryFolder } from "./files.mjs";

const folder = temporaryFolder();
const exported = (file) => `export * from "./devtools/extension/${file}.ts";`;
const script = ["source", "frames"].map(exported).join("");
const { Frames, FRAMES_MAX, PageSource } = await import(bundled(folder, "extension.mjs", script));
const ENGINES = Symbol.for("fanlight.engines");

/** A page of the inspected kind, with a global object of its own, whose frames a test draws. */
class Page {
  beats = [];
  nowMs = 0;
  document = { hidden: false };
  global = vm.createContext({
    document: this.document,
    performance: { now: () => this.nowMs },
    requestAnimationFrame: (beat) => this.beats.push(beat),
  });
  evaluations = 0;
  asked = [];

  evaluate(expression) {
    this.evaluations += 1;
    const value = vm.runInContext(expression, this.global);
    // Values cross as JSON.
    return JSON.parse(JSON.stringify(value));
  }

  draw(ms) {
    this.nowMs += ms;
    for (const beat of this.beats.splice(0)) beat(this.nowMs);
  }

  announce(snapshot) {
    const engine = { snapshot: (after) => (this.asked.push(after), snapshot(after)) };
    const engines = (this.global[ENGINES] ??= new Set());
    engines.add(engine);
    return () => engines.delete(engine);
  }
}

let page;
let frames;
let source;
let states;
let heard;

beforeEach(() => {
  mock.timers.enable({ apis: ["setTimeout"] });
  page = new Page();
  frames = {};
  states = [];
  heard = [];
  const inspected = {
    evaluate: async (expression, url) => {
      if (url !== null && !frames[url]) throw new Error("no such frame");
      return (url === null ? page : frames[url]).evaluate(expression);
    },
    documents: async () => Object.keys(frames),
  };
  source = new PageSource(new Frames(inspected), ({ kind }) => {
    if (states.at(-1) !== kind) states.push(kind);
  });
});
afterEach(() => mock.timers.reset());

async function pass(ms) {
  for (let done = 0; done < ms; done += 50) {
    for (let round = 0; round < 10; round += 1) await new Promise((next) => setImmediate(next));
    mock.timers.tick(50);
  }
}

const listen = (hz) => source.subscribe(({ snapshot }) => heard.push(snapshot), { hz });
const counting = () => {
  let next = 0;
  return async () => ({ next: (next += 10), samples: [] });
};

test("nothing is evaluated until the panel is shown, nor after it is hidden", async () => {
  page.announce(counting());
  listen(10);
  await pass(1000);
  assert.equal(page.evaluations, 0);
  source.show(true);
  await pass(1000);
  assert.ok(page.evaluations >= 8 && page.evaluations <= 12, `${page.evaluations}`);
  source.show(false);
  await pass(200);
  const before = page.evaluations;
  await pass(2000);
  assert.equal(page.evaluations, before);
  source.show(true);
  const end = listen(10);
  await pass(500);
  assert.ok(page.evaluations > before);
  end();
});

test("each snapshot is asked for once, with the samples since the one before", async () => {
  page.announce(counting());
  listen(10);
  source.show(true);
  await pass(1000);
  const nexts = heard.map(({ next }) => next);
  assert.deepEqual(nexts, nexts.map((_, index) => 10 * (index + 1)));
  assert.deepEqual(page.asked, page.asked.map((_, index) => 10 * index));
  assert.deepEqual(states, ["waiting", "attached"]);
});

test("an engine that answers slowly has one question open, and one that fails is told", async () => {
  let answer;
  const leave = page.announce(() => new Promise((given) => (answer = given)));
  listen(10);
  source.show(true);
  await pass(2000);
  assert.equal(page.asked.length, 1);
  answer({ next: 5, samples: [] });
  await pass(200);
  assert.deepEqual(heard.map(({ next }) => next), [5]);
  leave();
  await pass(1500);
  page.announce(async () => {
    throw new Error("the worker ended");
  });
  await pass(2500);
  assert.deepEqual(states, ["waiting", "attached", "none", "waiting", "failed"]);
});

test("a new engine, a new worker and a new panel each begin with all that there is", async () => {
  const numbers = [40, 50, 3, 6];
  page.announce(async () => ({ next: numbers.length > 1 ? numbers.shift() : numbers[0], samples: [] }));
  listen(10);
  source.show(true);
  await pass(600);
  assert.deepEqual(page.asked.slice(0, 5), [0, 40, 50, 0, 6], "after a number that goes back, from 0");
  page.asked = [];
  page.announce(counting());
  await pass(300);
  assert.equal(page.asked[0], 0);
  source.show(false);
  await pass(200);
  page.asked = [];
  const other = new PageSource(new Frames({ evaluate: async (text) => page.evaluate(text) }), () => {});
  other.subscribe(() => {}, { hz: 10 });
  other.show(true);
  await pass(200);
  assert.equal(page.asked[0], 0);
  other.show(false);
  await pass(200);
});

test("an engine in a frame is found, and found again elsewhere when the frame is gone", async () => {
  frames = { "https://a.example/": new Page(), "https://b.example/": new Page() };
  frames["https://b.example/"].announce(counting());
  listen(10);
  source.show(true);
  await pass(1000);
  assert.ok(heard.length > 5, `${heard.length} snapshots`);
  const looks = page.evaluations;
  await pass(1000);
  assert.equal(page.evaluations, looks, "only the frame is asked once it is known");
  delete frames["https://b.example/"];
  await pass(2500);
  assert.equal(states.at(-1), "none");
  page.announce(counting());
  await pass(2500);
  assert.equal(states.at(-1), "attached");
});

test("frames of the page are counted while somebody looks, but not those of a hidden page", async () => {
  page.announce(counting());
  listen(10);
  source.show(true);
  await pass(100);
  for (const ms of [16, 16, 70, 16]) page.draw(ms);
  await pass(150);
  assert.deepEqual(source.takeFrames(), { count: 3, worstMs: 70 });
  assert.deepEqual(source.takeFrames(), { count: 0, worstMs: 0 });
  page.document.hidden = true;
  await pass(150);
  page.document.hidden = false;
  page.draw(1500);
  page.draw(16);
  await pass(150);
  assert.deepEqual(source.takeFrames(), { count: 1, worstMs: 16 });
  source.show(false);
  await pass(150);
  for (let ms = 0; ms < 3000; ms += 100) page.draw(100);
  assert.equal(page.beats.length, 0, "it stops by itself");
});

test("a page that cannot be evaluated is told, and many frames are not all looked into", async () => {
  for (let count = 0; count < 100; count += 1) frames[`https://a${count}.example/`] = new Page();
  listen(10);
  source.show(true);
  await pass(100);
  source.show(false);
  await pass(100);
  const all = Object.values(frames).reduce((sum, { evaluations }) => sum + evaluations, 0);
  assert.ok(all > 0 && all <= 2 * FRAMES_MAX, `${all}`);
  page.evaluate = () => {
    throw new Error("Permission denied");
  };
  source.show(true);
  await pass(100);
  assert.equal(states.at(-1), "failed");
  source.show(false);
  await pass(1100);
});
