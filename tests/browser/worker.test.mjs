// The end of the worker, however it comes, and browsers without a GPU.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { synthetic, temporaryFolder } from "./files.mjs";
import { stage, Visit } from "./harness.mjs";

const folder = temporaryFolder();
let on;
let model;

before(async () => {
  model = synthetic(folder, "tiny-llama", "q8_0");
  on = await stage(folder);
});
after(async () => on?.close());

/** Keeps the page's workers where a test can reach them. */
const keepWorkers = (page) => page.addInitScript(() => {
  globalThis.workers = [];
  globalThis.Worker = class extends Worker {
    constructor(...args) {
      super(...args);
      globalThis.workers.push(this);
    }
  };
});

test("e13: a worker killed behind the page's back is noticed at once, and the next load works", async () => {
  const visit = await Visit.open(on, "", keepWorkers);
  await visit.pick(model);
  await visit.page.evaluate(() => globalThis.workers.at(-1).terminate());
  assert.match(await visit.alert(), /worker ended.*load the model again/is);
  await visit.page.locator("#alert-retry").click();
  const { card } = await visit.outcome();
  assert.match(card, /tiny llama/);
  await visit.setting("tokens", 2);
  assert.ok((await visit.ask("the light")).ids.length > 0);
  assert.equal(await visit.page.evaluate(() => globalThis.workers.length), 2);
});

test("e13: a worker killed in mid-answer fails the answer, and its text stays", async () => {
  const visit = await Visit.open(on, "", keepWorkers);
  await visit.pick(model);
  await visit.setting("tokens", 4000);
  await visit.send("the light");
  await visit.page.locator(".answer[data-token-ids]").waitFor();
  await visit.page.evaluate(() => globalThis.workers.at(-1).terminate());
  const answer = await visit.answer();
  assert.match(answer.note, /broke off/);
  assert.ok(answer.text.length > 0);
  assert.match(await visit.alert(), /worker ended/i);
  assert.match((await visit.pick(model)).card, /tiny llama/);
});

test("an error in the worker is told with its reason", async () => {
  const visit = await Visit.open(on, "", keepWorkers);
  await visit.pick(model);
  const [worker] = visit.page.workers();
  await worker.evaluate(() => { setTimeout(() => { throw new Error("struck by lightning"); }); });
  assert.match(await visit.alert(), /struck by lightning/);
  assert.match((await visit.pick(model)).card, /tiny llama/);
});

test("a module that cannot be fetched is told", async () => {
  const visit = await Visit.open(on, "", (page) => page.route("**/*.wasm", (route) => route.abort()));
  assert.match(await visit.alert(), /worker ended/i);
});

test("d08: no WebGPU gives a plain message", async () => {
  const noGpu = (page) => page.addInitScript(() => delete Navigator.prototype.gpu);
  const visit = await Visit.open(on, "", noGpu);
  assert.match(await visit.alert(), /No GPU can be used here\s+This browser has no WebGPU: use /);
  assert.deepEqual(visit.errors, []);
});

test("d08: WebGPU without an adapter gives a plain message", async () => {
  const noAdapter = (page) => page.route("**/worker.js", async (route) => {
    const response = await route.fetch();
    const noAdapter = "Object.getPrototypeOf(navigator.gpu).requestAdapter = async () => null;\n";
    const body = noAdapter + await response.text();
    await route.fulfill({ response, body });
  });
  const visit = await Visit.open(on, "", noAdapter);
  assert.match(await visit.alert(), /No GPU can be used here\s+No usable gpu/);
  assert.deepEqual(visit.errors, []);
});
