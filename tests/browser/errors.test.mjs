// Files that are no usable model: each gives a message that can be read, and a good file then works.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

import { bigEndian, changed, synthetic, temporaryFolder, withType } from "./files.mjs";
import { stage, Visit } from "./harness.mjs";
import { split } from "./split.mjs";

const folder = temporaryFolder();
let on;
let model;
let visit;

before(async () => {
  model = synthetic(folder, "tiny-llama", "q8_0");
  on = await stage(folder);
  visit = await Visit.open(on);
});
after(async () => on?.close());

async function refuses(file, ...texts) {
  const { alert } = await visit.pick(file);
  for (const text of texts) assert.match(alert ?? "no alert", text);
  const { card } = await visit.pick(model);
  assert.match(card ?? "no card", /tiny llama/, "a good file works afterwards");
  await visit.setting("tokens", 2);
  assert.ok((await visit.ask("the light")).ids.length > 0);
  assert.deepEqual(visit.errors, []);
}

test("a02: a truncated file", async () => {
  const cut = changed(folder, "cut.gguf", model, (bytes) => bytes.subarray(0, bytes.length - 5000));
  await refuses(cut, /cut\.gguf/, /tensor/i);
});

test("a11: an empty file", async () => {
  await refuses(changed(folder, "empty.gguf", model, () => Buffer.alloc(0)), /empty\.gguf/);
});

test("a11: a file that ends in its header", async () => {
  await refuses(changed(folder, "head.gguf", model, (bytes) => bytes.subarray(0, 23)), /head\.gguf/);
});

test("a09: a big-endian file", async () => {
  await refuses(changed(folder, "big.gguf", model, bigEndian), /big-endian/i);
});

test("a13: a weight of an unknown type", async () => {
  const retyped = (bytes) => withType(bytes, "blk.1.attn_q.weight", 139);
  const unknown = changed(folder, "unknown.gguf", model, retyped);
  await refuses(unknown, /blk\.1\.attn_q\.weight/, /139/);
});

test("a file of another kind", async () => {
  await refuses(fileURLToPath(import.meta.url), /errors\.test\.mjs/, /gguf/i);
});

test("a12: parts of a split model without one of them", async () => {
  const [first, , third] = split(model, folder, "missing", 3);
  const { alert } = await visit.pick(third, first);
  assert.match(alert ?? "it was loaded", /missing-00002-of-00003/);
});
