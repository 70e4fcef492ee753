// A model at an address: ranges only, each checked; a server that serves them wrongly is refused with the
// reason.

import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { after, before, test } from "node:test";

import { synthetic, temporaryFolder } from "./files.mjs";
import { stage, Visit } from "./harness.mjs";

const folder = temporaryFolder();
let on;
let model;
let name;

before(async () => {
  model = synthetic(folder, "tiny-llama", "q8_0");
  name = path.basename(model);
  on = await stage(folder);
});
after(async () => on?.close());

test("a server with ranges is read in ranges, and not more than the file", async () => {
  on.server.requests.length = 0;
  const visit = await Visit.open(on, `?model=/models/${name}`);
  const { card } = await visit.outcome();
  assert.match(card ?? await visit.alert(), /tiny llama/);
  await visit.setting("tokens", 4);
  assert.ok((await visit.ask("the light")).ids.length > 0);
  const { requests } = on.server;
  assert.ok(requests.length >= 3);
  const times = new Uint8Array(fs.statSync(model).size);
  for (const { method, range } of requests) {
    assert.equal(method, "GET");
    const [, first, last] = /^bytes=(\d+)-(\d+)$/.exec(range);
    for (let at = Number(first); at <= Number(last); at += 1) times[at] += 1;
  }
  assert.equal(requests[0].range, "bytes=0-0", "the length comes from a small first range");
  // Once to describe the model, once to load it, and once as weights.
  const most = times.reduce((a, b) => Math.max(a, b));
  assert.ok(most <= 3, `a byte was read ${most} times`);
  assert.ok(times.at(-1) > 0, "the last weight was read");
  assert.deepEqual(visit.foreign, []);
});

const REFUSED = {
  "e03: ranges ignored": ["whole", /ignores range requests/, /download the file/],
  "e03: another range": ["shifted", /answered with content-range/],
  "e03: a shorter range": ["shorter", /answered with content-range/],
  "e03: several parts in one body": ["multipart", /no readable content-range/],
  "more bytes than the range": ["longer", /sent more than/],
  // Chromium itself refuses an encoding that it did not ask for, and does not say so.
  "e04: parts of a compressed file": ["compressed", /content-encoding gzip|no answer from/i],
  "e02: a file that is replaced meanwhile": ["replaced", /changed while it was read/],
  "e01: a page in place of the file": ["disguised", /ignores range requests/],
};

for (const [title, [flaw, ...texts]] of Object.entries(REFUSED)) {
  test(title, async () => {
    const visit = await Visit.open(on, `?model=/flaw/${flaw}/${name}`);
    const { alert } = await visit.outcome();
    for (const text of texts) assert.match(alert ?? "it was loaded", text);
    assert.deepEqual(visit.errors, []);
    await visit.page.close();
  });
}

test("after a refused address a picked file works", async () => {
  const visit = await Visit.open(on, `?model=/flaw/whole/${name}`);
  assert.match((await visit.outcome()).alert, /ignores range requests/);
  const { card } = await visit.pick(model);
  assert.match(card ?? "no card", /tiny llama/);
});

test("e16: trouble that passes is waited out, and a body is resumed where it broke off", async () => {
  on.server.requests.length = 0;
  const visit = await Visit.open(on, `?model=/flaw/shaky/${name}`);
  const { card, alert } = await visit.outcome();
  assert.match(card ?? alert, /tiny llama/);
  const ranges = on.server.requests.map(({ range }) => range);
  assert.equal(ranges[0], ranges[1], "asked again after 429");
  assert.equal(ranges[2], ranges[3], "asked again after 503");
  assert.notEqual(ranges[4], ranges[5], "resumed, not repeated");
  assert.equal(ranges[4].split("-")[1], ranges[5].split("-")[1]);
});

test("e16: an address that expires is renewed at the original", async () => {
  const visit = await Visit.open(on, `?model=/flaw/expiring/${name}`);
  const { card, alert } = await visit.outcome();
  assert.match(card ?? alert, /tiny llama/);
});

test("a missing file, and an address that is none", async () => {
  const missing = await Visit.open(on, "?model=/models/absent.gguf");
  assert.match((await missing.outcome()).alert, /404.*no such file/);
  const none = await Visit.open(on, "?model=file:///x.gguf");
  assert.match((await none.outcome()).alert, /is no web address/);
});
