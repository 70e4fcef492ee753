// Files and addresses that give no usable model: each gives a message that can be read, and a good one then
// works.

import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

import { addressTests } from "./address.mjs";
import { bigEndian, changed, nativeReply, synthetic, temporaryFolder, withType } from "./files.mjs";
import { SdkVisit, stage } from "./harness.mjs";
import { split, stretched } from "./split.mjs";

const folder = temporaryFolder();
const PROMPT = "the light of the house";
let on;
let model;
let visit;
/** What a load comes to that the browser refuses and that is tried again for a while, beside other tests. */
let compressed;

before(async () => {
  model = synthetic(folder, "tiny-llama", "q8_0", 3);
  on = await stage(folder);
  visit = await SdkVisit.open(on);
  const beside = await SdkVisit.open(on, { context: await on.browser.newContext() });
  compressed = beside.load(`/flaw/compressed/${path.basename(model)}`, { cache: "none" });
  compressed.catch(() => {});
});
after(async () => on?.close());

/** Loads picked files. */
async function load(...files) {
  await visit.pick(...files);
  return await visit.run((how) => outcome(engine.load(picked, how)), visit.how);
}

async function refuses(file, ...texts) {
  const { message } = await load(file);
  for (const text of texts) assert.match(message ?? "it was loaded", text);
  assert.equal((await load(model)).value?.name, "tiny llama", "a good file works afterwards");
  assert.ok((await visit.reply(PROMPT, { maxTokens: 2 })).ids.length > 0);
  assert.deepEqual(visit.errors, []);
}

test("a02: a truncated file", async () => {
  const cut = changed(folder, "cut.gguf", model, (bytes) => bytes.subarray(0, bytes.length - 5000));
  await refuses(cut, /cut\.gguf/, /tensor/i);
});

test("a11: an empty file, and one that ends in its header", async () => {
  await refuses(
    changed(folder, "empty.gguf", model, () => Buffer.alloc(0)),
    /empty\.gguf/,
  );
  await refuses(
    changed(folder, "head.gguf", model, (bytes) => bytes.subarray(0, 23)),
    /head\.gguf/,
  );
});

test("a09: a big-endian file", async () => {
  await refuses(changed(folder, "big.gguf", model, bigEndian), /big-endian/i);
});

test("a13: a weight of an unknown type is refused, and a look at the file says so", async () => {
  const retyped = (bytes) => withType(bytes, "blk.1.attn_q.weight", 139);
  const unknown = changed(folder, "unknown.gguf", model, retyped);
  await refuses(unknown, /blk\.1\.attn_q\.weight/, /139/);
});

test("a file of another kind", async () => {
  await refuses(fileURLToPath(import.meta.url), /errors\.test\.mjs/, /gguf/i);
});

test("a12: the parts of a split model in any order, as one file, and without one of them", async () => {
  const [first, second, third] = split(model, folder, "parts", 3);
  assert.match((await load(third, first)).message ?? "it was loaded", /parts-00002-of-00003/);
  assert.equal((await load(third, first, second)).value?.name, "tiny llama");
  const { ids } = await visit.reply(PROMPT, { maxTokens: 8 });
  assert.deepEqual(ids, nativeReply(model, PROMPT, { tokens: 8, raw: true }).output_ids);
});

test("e06: a weight beyond 4 GiB of a file is read where it lies", async () => {
  const plain = (await visit.reply(PROMPT, { maxTokens: 8 })).ids;
  const far = stretched(model, path.join(folder, "far.gguf"));
  assert.ok(fs.statSync(far).size > 2 ** 32);
  assert.equal((await load(far)).value?.name, "tiny llama");
  assert.deepEqual((await visit.reply(PROMPT, { maxTokens: 8 })).ids, plain);
});

test("models are found in a folder by their first bytes, split ones as one", async () => {
  const unnamed = changed(folder, "sha256-0123abcd", model, (bytes) => bytes);
  await visit.pick(fileURLToPath(import.meta.url), unnamed, ...split(model, folder, "parts", 3));
  const found = await visit.run(async () => {
    const models = await sdk.findModels(picked);
    return models.map(({ path, files, bytes }) => [path, files.length, bytes > 100_000]);
  });
  assert.deepEqual(found, [
    ["parts.gguf", 3, true],
    ["sha256-0123abcd", 1, true],
  ]);
});

test("a second model takes the place of the first", async () => {
  const { value } = await load(synthetic(folder, "tiny-qwen2", "q4_0", 3));
  assert.equal(value?.architecture, "qwen2");
  assert.ok((await visit.reply(PROMPT, { maxTokens: 4 })).ids.length > 0);
});

test("e04: parts of a compressed file", async () => {
  // Chromium itself refuses an encoding that it did not ask for, and does not say so.
  assert.match((await compressed).message ?? "it was loaded", /content-encoding gzip|no answer from/i);
});

// Requests to the server are counted in some of these, so nothing runs beside them.
addressTests(() => ({ on, visit, model }));
