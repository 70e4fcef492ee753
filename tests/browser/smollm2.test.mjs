// A real model in the page: SmolLM2 from an address, interrupted and resumed, then kept and used without a
// server, against the reference's own tokens.

import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { after, before, test } from "node:test";

import { fetched, golden } from "./files.mjs";
import { SdkVisit, stage } from "./harness.mjs";

const NAME = "smollm2-135m-instruct-q4_1.gguf";
/** Few: a processor takes seven seconds for each. */
const TOKENS = 3;
/** Holds a third of the weights beside what a pass needs. */
const BUDGET_MIB = 110;
/** Where the reference's first two candidates are closer, another order of sums may choose the other. */
const MARGIN_MIN = 0.5;
let on;

before(async () => {
  on = await stage(path.dirname(fetched(NAME)));
});
after(async () => on?.close());

/** Bytes that a list of requests asked for. */
function bytesOf(requests) {
  return requests.reduce((sum, { range }) => {
    const [, first, last] = /^bytes=(\d+)-(\d+)$/.exec(range);
    return sum + Number(last) - Number(first) + 1;
  }, 0);
}

test("e01: a load that was cut off goes on, and smollm2 then continues as the reference does", async () => {
  const { prompts } = golden(`generate.${NAME.replace(".gguf", "")}.json`);
  const { prompt, f32 } = prompts.find(({ name }) => name === "capital");
  const unsure = f32.steps.findIndex(({ margin }) => margin < MARGIN_MIN);
  const sure = Math.min(unsure < 0 ? TOKENS : unsure, TOKENS);
  assert.ok(sure >= 3, "the reference is sure of a few tokens");
  const context = await on.browser.newContext();
  const url = `/models/${NAME}`;
  const { size } = fs.statSync(fetched(NAME));

  // The page is closed in the middle of its load, which the server does not let end.
  on.server.heldFrom = size / 2;
  const first = await SdkVisit.open(on, { context });
  await first.run((from) => {
    globalThis.done = 0;
    const onProgress = (progress) => {
      if (progress.phase === "weights") globalThis.done = progress.done;
    };
    void engine.load(from, { contextLength: 512, onProgress }).catch(() => {});
  }, url);
  await first.page.waitForFunction((half) => globalThis.done > half, size / 3);
  await first.page.close();
  on.server.heldFrom = Number.POSITIVE_INFINITY;
  const before = bytesOf(on.server.requests);
  on.server.requests.length = 0;

  const visit = await SdkVisit.open(on, { context });
  visit.how = { contextLength: 512 };
  const [partial] = await visit.run(() => engine.stored());
  assert.ok(!partial.isComplete && partial.keptBytes > size / 4, `${partial.keptBytes} bytes were kept`);
  const { value, message } = await visit.load(url);
  assert.equal(value?.parameters ?? message, 134_515_008);
  const after = bytesOf(on.server.requests);
  assert.ok(after < size - partial.keptBytes + (8 << 20), `${after} bytes after ${before}`);
  const { ids, text } = await visit.reply(prompt, { maxTokens: TOKENS });
  assert.equal(ids.length, TOKENS);
  assert.deepEqual(ids.slice(0, sure), f32.output_ids.slice(0, sure));
  assert.match(text, /^ Paris/);

  // Kept whole now: another context needs no server. Under a budget most weights stream from the copy, pass
  // by pass, each pass verifies two nodes of a draft, and the ids stay what they are.
  on.server.requests.length = 0;
  const small = (await visit.load(url, { contextLength: 256, budgetMiB: BUDGET_MIB })).value;
  assert.deepEqual([small?.contextLength, small?.plan.isStreamed], [256, true]);
  assert.ok(small.gpuBytes <= BUDGET_MIB << 20, `${small.gpuBytes} bytes on the GPU`);
  assert.deepEqual((await visit.reply(prompt, { maxTokens: TOKENS, width: 2 })).ids, ids);
  assert.deepEqual(on.server.requests, []);
  const { wasmBytes } = await visit.run(() => engine.stats());
  assert.ok(wasmBytes < size, `${wasmBytes} bytes of memory for a model of ${size}`);
  assert.deepEqual(visit.errors, []);
});
