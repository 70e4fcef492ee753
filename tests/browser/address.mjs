// A model at an address: ranges only, each checked; a server that serves them wrongly is refused with the
// reason. What is kept in the browser is complete or goes on, and never stands in the way. Part of
// `errors.test.mjs`, on its page.

import assert from "node:assert/strict";
import crypto from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";

const PLAIN = { cache: "none" };
/** What the page was opened with: the stage, the page, the file of its model. */
let on;
let visit;
let model;
let name;

const inWorker = (work, argument) => visit.page.workers()[0].evaluate(work, argument);

/** Titles and what they do, in order. */
const TESTS = [];
const add = (title, work) => TESTS.push([title, work]);

add("a server with ranges is read in ranges, and not more than the file", async () => {
  on.server.requests.length = 0;
  const { value } = await visit.load(`/models/${name}`, PLAIN);
  assert.equal(value.name, "tiny llama");
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
  "e02: a file that is replaced meanwhile": ["replaced", /changed while it was read/],
  "e02: the whole file in place of the rest of a range": ["overrun", /ignores range requests/],
  "e02: another part in place of the rest of a range": ["astray", /answered with content-range/],
  "e01: a page in place of the file": ["disguised", /ignores range requests/],
};

for (const [title, [flaw, ...texts]] of Object.entries(REFUSED)) {
  add(title, async () => {
    const { message } = await visit.load(`/flaw/${flaw}/${name}`, PLAIN);
    for (const text of texts) assert.match(message ?? "it was loaded", text);
  });
}

add("e01: of refused addresses nothing is kept, and a good one works", async () => {
  for (const flaw of ["disguised", "whole", "shifted"]) {
    assert.match((await visit.load(`/flaw/${flaw}/${name}`)).code, /^(server|source)$/);
  }
  const kept = await visit.run(() => engine.stored());
  assert.deepEqual(
    kept.filter(({ keptBytes }) => keptBytes > 0),
    [],
  );
  for (const { url } of kept) await visit.run((at) => engine.forget(at), url);
  const { value } = await visit.load(`/models/${name}`, PLAIN);
  assert.equal(value?.name, "tiny llama");
});

add("e16: trouble that passes is waited out, and a body is resumed where it broke off", async () => {
  on.server.requests.length = 0;
  const { value, message } = await visit.load(`/flaw/shaky/${name}`, PLAIN);
  assert.equal(value?.name ?? message, "tiny llama");
  const ranges = on.server.requests.map(({ range }) => range);
  assert.equal(ranges[0], ranges[1], "asked again after 429");
  assert.equal(ranges[2], ranges[3], "asked again after 503");
  assert.notEqual(ranges[4], ranges[5], "resumed, not repeated");
  assert.equal(ranges[4].split("-")[1], ranges[5].split("-")[1]);
});

add("e16: an address that expires is renewed at the original", async () => {
  const { value, message } = await visit.load(`/flaw/expiring/${name}`, PLAIN);
  assert.equal(value?.name ?? message, "tiny llama");
});

add("e17: a hash that is named on the way to the file is not compared with the file's own", async () => {
  const { value, message } = await visit.load(`/flaw/linked/${name}`, PLAIN);
  assert.equal(value?.name ?? message, "tiny llama");
});

add("a missing file, an address that is none, and one of the hub's that names no file", async () => {
  assert.match((await visit.load("/models/absent.gguf")).message, /404.*no such file/);
  assert.match((await visit.load("file:///x.gguf")).message, /is no web address/);
  const found = await visit.run(() => [
    sdk.hub("a/b/c d.gguf").url,
    (() => {
      try {
        return sdk.hub("a/b");
      } catch (error) {
        return error.code;
      }
    })(),
  ]);
  assert.deepEqual(found, ["https://huggingface.co/a/b/resolve/main/c%20d.gguf", "request"]);
});

add("headers are sent, and a hash is compared before the model is used", async () => {
  on.server.requests.length = 0;
  const sha256 = crypto.createHash("sha256").update(fs.readFileSync(model)).digest("hex");
  const source = { url: `/models/${name}`, headers: { "x-token": "abc" }, sha256 };
  assert.equal((await visit.load(source, PLAIN)).value?.name, "tiny llama");
  assert.ok(on.server.requests.every(({ token }) => token === "abc"));
  const wrong = await visit.load({ ...source, sha256: sha256.replaceAll(sha256[0], "0") }, PLAIN);
  assert.match(wrong.message ?? "it was loaded", /sha-256/);
});

add("a kept model needs no server, and a damaged part of it is fetched again", async () => {
  const url = `/models/${name}`;
  assert.equal((await visit.load(url)).value?.name, "tiny llama");
  on.server.requests.length = 0;
  assert.equal((await visit.load(url, { contextLength: 256 })).value?.contextLength, 256);
  assert.deepEqual(on.server.requests, []);
  await inWorker(async () => {
    const root = await (await navigator.storage.getDirectory()).getDirectoryHandle("fanlight-models");
    for await (const folder of root.values()) {
      const data = await (await folder.getFileHandle("data")).createSyncAccessHandle();
      data.write(new Uint8Array([1, 2, 3]), { at: 1000 });
      data.close();
    }
  });
  assert.equal((await visit.load(url)).value?.name, "tiny llama");
  assert.ok(on.server.requests.length > 0, "the damage was noticed");
  const [kept] = await visit.run(() => engine.stored());
  assert.ok(kept.isComplete && kept.keptBytes === fs.statSync(model).size);
  await visit.run((at) => engine.forget(at), kept.url);
  assert.deepEqual(await visit.run(() => engine.stored()), []);
});

add("e05: a full disk is told, and the model runs without being kept", async () => {
  const load = () =>
    visit.run(async ([url, how]) => {
      const told = [];
      const leave = engine.subscribe((event) => event.type === "warning" && told.push(event.warning));
      const { value } = await outcome(engine.load(url, how));
      leave();
      return { told, name: value?.name, kept: await engine.stored() };
    }, [`/models/${name}`, visit.how]);
  await inWorker(() => {
    const { prototype } = FileSystemSyncAccessHandle;
    globalThis.realWrite = prototype.write;
    prototype.write = function full(bytes, where) {
      if (bytes.length > 1000) throw new DOMException("no room", "QuotaExceededError");
      return globalThis.realWrite.call(this, bytes, where);
    };
  });
  await visit.run(() => engine.unload());
  const full = await load();
  await visit.run(() => engine.unload());
  await inWorker(() => {
    FileSystemSyncAccessHandle.prototype.write = globalThis.realWrite;
    StorageManager.prototype.estimate = async () => ({ quota: 1000, usage: 900 });
  });
  const small = await load();
  for (const found of [full, small]) {
    assert.equal(found.name, "tiny llama");
    assert.equal(found.told[0]?.code, "not-stored");
    assert.match(found.told[0].message, /free/);
    assert.deepEqual(found.kept, []);
  }
  assert.deepEqual(visit.errors, []);
});

/** Registers the tests; `session` gives stage, page and model file. */
export function addressTests(session) {
  for (const [title, work] of TESTS) {
    test(title, async () => {
      ({ on, visit, model } = session());
      name = path.basename(model);
      await work();
    });
  }
}
