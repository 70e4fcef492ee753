// What lasts beyond a reply: earlier replies and costs that the browser keeps, and another budget for the
// model that is loaded. Part of `sdk.test.mjs`, on its page.

import assert from "node:assert/strict";
import { test } from "node:test";

import { LONG_TOKENS } from "./harness.mjs";

const PROMPT = "the light of the house";
/** Puts bytes in place of every record that the browser keeps of a kind; what was there. */
const replaceRecords = (visit, kind, bytes) =>
  visit.run(
    async ([from, by]) => {
      const done = (request) => new Promise((told) => (request.onsuccess = () => told(request.result)));
      const database = await done(indexedDB.open("fanlight-engine"));
      const store = database.transaction(from, "readwrite").objectStore(from);
      const all = await done(store.getAll());
      if (by) for (const kept of all) await done(store.put({ ...kept, bytes: Uint8Array.from(by) }));
      database.close();
      return all.map((kept) => [...kept.bytes]);
    },
    [kind, bytes],
  );

/** A reply that is remembered: tokens of earlier ones that it had, and codes of warnings. */
const remembered = (visit, options = { memory: "origin" }) =>
  visit.run(
    async ([prompt, how]) => {
      const all = await events(engine.generate({ prompt, parseSpecial: true }, { maxTokens: 6, ...how }));
      const warned = all.filter(({ type }) => type === "warning").map(({ warning }) => warning.code);
      return [all.at(-1).stats.memoryTokens, ...warned];
    },
    [PROMPT, options],
  );

async function memoryLasts({ visit, inWorker }) {
  await visit.run(() => engine.forgetMemory());
  assert.deepEqual(await remembered(visit), [0]);
  assert.deepEqual(await remembered(visit), [7], "six tokens and what stands behind them");
  assert.deepEqual(await remembered(visit, { memory: "conversation" }), [0], "another scope");
  assert.deepEqual(await remembered(visit, { memory: "conversation" }), [7]);
  assert.deepEqual(await remembered(visit, { memory: "off" }), [0]);
  const [whole] = await replaceRecords(visit, "memory", [1, 2, 3]);
  assert.equal(String.fromCharCode(...whole.slice(0, 8)), "FLMEMORY");
  assert.deepEqual(await remembered(visit), [7, "memory-dropped"]);
  assert.deepEqual(await remembered(visit), [7], "it was begun anew");
  // An older version of the format.
  await replaceRecords(visit, "memory", [...whole.slice(0, 8), 0, ...whole.slice(9)]);
  assert.deepEqual(await remembered(visit), [7, "memory-dropped"]);
  await visit.run(() => engine.forgetMemory());
  assert.deepEqual(await remembered(visit), [0], "forgotten");
  await inWorker(() => {
    globalThis.realPut = IDBObjectStore.prototype.put;
    IDBObjectStore.prototype.put = () => {
      throw new DOMException("no room", "QuotaExceededError");
    };
  });
  assert.deepEqual(await remembered(visit), [7, "not-remembered"]);
  assert.deepEqual(await remembered(visit), [7], "which is told once");
  await inWorker(() => {
    IDBObjectStore.prototype.put = globalThis.realPut;
  });
}

async function costsLast({ visit, url }) {
  const [kept] = await replaceRecords(visit, "costs", [9, 9]);
  assert.equal(String.fromCharCode(...kept.slice(0, 7)), "FLCOSTS");
  await visit.run(() => engine.unload());
  await visit.load(url);
  await visit.reply(PROMPT, { maxTokens: 4 });
  const whole = (await replaceRecords(visit, "costs")).filter(({ length }) => length === kept.length);
  assert.equal(whole.length, 1, "that of the model which was used again");
  assert.equal(String.fromCharCode(...whole[0].slice(0, 7)), "FLCOSTS");
}

/** A context with which the model needs a little more than some MiB, and a part of that can stream. */
const streamable = (visit, url) =>
  visit.run(async (from) => {
    for (let contextLength = 512; contextLength <= 4096; contextLength += 32) {
      // Batches as a budget has them.
      const { plan } = await engine.inspect(from, { contextLength, batchSize: 32 });
      const budgetMiB = Math.floor(plan.gpuBytes / 2 ** 20);
      const { plan: smaller } = await engine.inspect(from, { contextLength, budgetMiB });
      if (smaller?.isStreamed) return { contextLength, budgetMiB };
    }
    throw new Error("the model streams with no whole number of MiB");
  }, url);

async function budgetChanges({ visit, url }) {
  const { contextLength, budgetMiB } = await streamable(visit, url);
  await visit.load(url, { contextLength });
  const plain = await visit.reply(PROMPT, { maxTokens: LONG_TOKENS });
  const found = await visit.run(async (mib) => {
    const phases = [];
    const heard = [];
    const leave = engine.subscribe(({ type, model }) => heard.push([type, model?.plan.isStreamed]));
    const onProgress = ({ phase }) => phases.push(phase);
    const { value: small } = await outcome(engine.setBudget({ budgetMiB: mib, onProgress }));
    const none = await outcome(engine.setBudget({ budgetMiB: 1 }));
    const both = await outcome(engine.setBudget({ budgetMiB: mib, preset: "lite" }));
    leave();
    return { small, none, both, phases, heard, now: engine.model };
  }, budgetMiB);
  const { plan, gpuBytes } = found.small;
  assert.ok(plan.isStreamed && gpuBytes <= budgetMiB << 20, `${gpuBytes} bytes`);
  assert.equal(gpuBytes, plan.gpuBytes);
  assert.deepEqual(found.now, found.small);
  assert.ok(found.phases.includes("weights"), found.phases.join());
  assert.deepEqual(found.heard, [["model", true]]);
  assert.deepEqual([found.none.code, found.both.code], ["gpu-memory", "request"]);
  assert.match(found.none.message, /bytes are missing/);
  const streamed = await visit.reply(PROMPT, { maxTokens: 8 });
  const ids = plain.ids.slice(0, 8);
  assert.deepEqual(streamed.ids, ids);
  const { kvBytes, peakGpuBytes } = streamed.last.stats;
  assert.deepEqual([kvBytes, peakGpuBytes], [plan.kvBytes, plan.gpuBytes], "as planned");
  // In the middle of a reply, whose reader holds still: it has begun to stream and ends with all on the GPU.
  await visit.hold(PROMPT);
  const { value: whole } = await visit.run(() => outcome(engine.setBudget()));
  assert.equal(whole.plan.isStreamed, false);
  assert.deepEqual((await visit.readOn()).ids, plain.ids);
  // Stopped while it is given another budget, a reply ends and the model stays.
  await visit.hold(PROMPT);
  const stopped = await visit.run(async (mib) => {
    const setting = outcome(engine.setBudget({ budgetMiB: mib }));
    await reader.cancel();
    const { value } = await setting;
    const [again, refused] = [await engine.setBudget(), await outcome(engine.load("/x", { cacheMiB: 2049 }))];
    return { isStreamed: [value?.plan.isStreamed, again.plan.isStreamed], refused };
  }, budgetMiB);
  assert.deepEqual(stopped.isStreamed, [true, false]);
  assert.match(stopped.refused.message, /2049 MiB was asked for, at most 2048/);
  // Of what streams, host memory keeps what has room there.
  await visit.load(url, { contextLength, budgetMiB, cacheMiB: 64 });
  const streams = async () => {
    const before = (await visit.run(() => engine.stats())).streamed;
    const { ids: said } = await visit.reply(PROMPT, { maxTokens: 8 });
    const { readBytes, cachedBytes, keptBytes } = (await visit.run(() => engine.stats())).streamed;
    const read = readBytes - before.readBytes;
    return { said, read, cached: cachedBytes - before.cachedBytes, keptBytes };
  };
  const [first, second] = [await streams(), await streams()];
  assert.deepEqual([first.said, second.said], [ids, ids]);
  assert.ok(first.read > 0 && first.cached > 0, "the first pass reads, those after it do not");
  assert.deepEqual([second.read, second.keptBytes], [0, first.keptBytes]);
  const { model } = await visit.run(() => engine.snapshot(Number.MAX_SAFE_INTEGER));
  assert.equal(model.cacheBytes, 64 << 20);
  assert.ok(second.cached > 0 && second.keptBytes <= model.cacheBytes, JSON.stringify(second));
  await visit.load(url);
}

const TESTS = {
  "replies are remembered as far as asked; what is kept may be damaged, refused or forgotten": memoryLasts,
  "what steps cost is kept for the next visit, and a damaged record is replaced": costsLast,
  "another budget needs no other load, and changes nothing that is said": budgetChanges,
};

/** Registers the tests; `session` gives the page, the address of its model and a way into its worker. */
export function keptTests(session) {
  for (const [title, work] of Object.entries(TESTS)) test(title, () => work(session()));
}
