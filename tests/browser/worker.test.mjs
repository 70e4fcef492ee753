// The end of the worker, of the GPU and of tabs, however it comes, and browsers without a GPU.

import assert from "node:assert/strict";
import path from "node:path";
import { after, before, test } from "node:test";

import { synthetic, temporaryFolder } from "./files.mjs";
import { beforeWorker, LONG_TOKENS, SdkVisit, serve, stage, Visit } from "./harness.mjs";

const folder = temporaryFolder();
let on;
let url;
/** Tabs of one visitor, and the first of them, which has the engine: each device compiles anew. */
let context;
let owner;
/** Takes ten seconds of waiting, in which other tests compute. */
let stopped;

before(async () => {
  url = `/models/${path.basename(synthetic(folder, "tiny-llama", "q8_0"))}`;
  on = await stage(folder);
  context = await on.browser.newContext();
  stopped = stoppedTab();
  stopped.catch(() => {});
});
after(async () => on?.close());

/** Keeps the page's workers where a test can reach them. */
const keepWorkers = (page) =>
  page.addInitScript(() => {
    globalThis.workers = [];
    globalThis.Worker = class extends Worker {
      constructor(...args) {
        super(...args);
        globalThis.workers.push(this);
      }
    };
  });

test("e13: a reply outlives its GPU; a killed worker fails it, and the next call reloads", async () => {
  const visit = await SdkVisit.open(on, { prepare: keepWorkers, context });
  owner = visit;
  await visit.load(url);
  const plain = await visit.reply("the light", { maxTokens: LONG_TOKENS });
  await visit.hold("the light");
  await visit.page.workers()[0].evaluate(() => globalThis.gpuSeen.devices.at(-1).destroy());
  const lost = await visit.readOn();
  assert.deepEqual(lost.warned, ["resumed"]);
  assert.deepEqual(lost.ids, plain.ids, "the same reply as without the loss");

  // e13: killed behind the page's back in mid-reply.
  await visit.hold("the light");
  await visit.run(() => {
    globalThis.heard = [];
    engine.subscribe((event) => heard.push(event.type === "warning" ? event.warning.code : event.type));
    workers.at(-1).terminate();
  });
  const killed = await visit.readOn();
  assert.equal(killed.code, "worker-died");
  assert.match(killed.message, /worker ended/);
  assert.equal(killed.last, "error");
  const again = await visit.reply("the light", { maxTokens: 4 });
  assert.deepEqual(again.ids, plain.ids.slice(0, 4));
  const after = await visit.run(() => ({ heard, workers: workers.length }));
  assert.deepEqual(after, { heard: ["ended", "reloaded"], workers: 2 });
});

/** A tab that owns the engine and hears nothing, and another that is not kept waiting for it. */
async function stoppedTab() {
  const context = await on.browser.newContext();
  // A stopped page hears nothing; its locks stay.
  const prepare = (page) =>
    page.addInitScript(() => {
      const { set } = Object.getOwnPropertyDescriptor(BroadcastChannel.prototype, "onmessage");
      Object.defineProperty(BroadcastChannel.prototype, "onmessage", {
        set(listener) {
          set.call(this, (event) => globalThis.isStopped || listener(event));
        },
      });
    });
  const owner = await SdkVisit.open(on, { context, prepare });
  await owner.run(() => {
    globalThis.isStopped = true;
  });
  const guest = await SdkVisit.open(on, { context });
  assert.equal(guest.page.workers().length, 1, "the guest has taken over");
  assert.equal(await guest.run((from) => engine.inspect(from).then(({ name }) => name), url), "tiny llama");
  await owner.run(() => {
    globalThis.isStopped = false;
  });
  assert.equal(await owner.run((from) => engine.inspect(from).then(({ name }) => name), url), "tiny llama");
  assert.equal(owner.page.workers().length, 0, "and the stopped tab asks it now");
  await context.close();
}

test("e18: a tab that the browser has stopped does not keep the engine from others", () => stopped);

test("e18: tabs share an engine, and one takes over when its owner goes", async () => {
  on.server.requests.length = 0;
  const guest = await SdkVisit.open(on, { context });
  const { value } = await guest.load(url);
  assert.equal(value?.name, "tiny llama");
  assert.deepEqual(on.server.requests, [], "the model was not read again");
  assert.equal(guest.page.workers().length, 0, "the guest has no worker");
  const remembered = { maxTokens: 12, memory: "origin" };
  const [one, two] = await Promise.all(
    [owner, guest].map((tab) => tab.reply("the light", remembered)),
  );
  assert.deepEqual(one.ids, two.ids);

  const third = await SdkVisit.open(on, { context });
  await third.load(url);
  await third.hold("the light");
  await third.page.close();
  assert.deepEqual((await owner.reply("the light", { maxTokens: 12 })).ids, one.ids, "served after it left");

  await guest.hold("the light");
  await owner.page.close();
  assert.equal((await guest.readOn()).code, "owner-gone");
  const after = await guest.reply("the light", { ...remembered, width: 2 });
  assert.deepEqual(after.ids, one.ids, "taken over");
  // What was said in a page that is gone saves steps in this one.
  const { memoryTokens, tokensPerStep } = after.last.stats;
  assert.ok(memoryTokens === 13 && tokensPerStep > 1, `${memoryTokens} tokens, ${tokensPerStep} a step`);
  assert.equal(guest.page.workers().length, 1);

  // An error in the worker is told with its reason.
  const [worker] = guest.page.workers();
  const struck = guest.run(
    () =>
      new Promise((told) => {
        engine.subscribe((event) => event.type === "ended" && told(event.error.message));
      }),
  );
  await worker.evaluate(() => {
    setTimeout(() => {
      throw new Error("struck by lightning");
    });
  });
  assert.match(await struck, /struck by lightning/);
  await context.close();
});

test("engines that change the same record take turns, and the oldest records go", async () => {
  const context = await on.browser.newContext();
  const pages = await Promise.all([1, 2].map(() => Visit.open(on, "pages/blank.html", undefined, context)));
  const work = ({ page }, at) =>
    page.evaluate(async (own) => {
      const { BrowserRecords } = await import("/sdk/records.js");
      const records = new BrowserRecords();
      for (let round = 0; round < 20; round += 1) {
        const over = await records.lock();
        const before = (await records.read("memory", "shared")) ?? [];
        await records.write("memory", "shared", Uint8Array.of(...before, own));
        over();
      }
    }, at + 1);
  await Promise.all(pages.map(work));
  const found = await pages[0].page.evaluate(async () => {
    const { BrowserRecords } = await import("/sdk/records.js");
    const records = new BrowserRecords();
    const shared = [...(await records.read("memory", "shared"))];
    for (let n = 0; n < 20; n += 1) await records.write("memory", `other ${n}`, Uint8Array.of(n));
    const held = await records.lock();
    const refused = await records.lock().then(
      () => "granted",
      ({ message }) => message,
    );
    held();
    return { shared, names: await records.names("memory"), refused };
  });
  assert.deepEqual([1, 2].map((own) => found.shared.filter((byte) => byte === own).length), [20, 20]);
  assert.equal(found.names.length, 16);
  assert.ok(!found.names.includes("shared") && found.names.includes("other 19"));
  assert.match(found.refused, /too long/);
  await context.close();
});

/** What a page says that cannot open an engine. */
async function refused(prepare, origin = on.origin) {
  const page = await on.browser.newPage();
  await prepare(page);
  await page.goto(`${origin}/pages/blank.html`);
  return await page.evaluate(async () => {
    const { Fanlight } = await import("/sdk/index.js");
    return await Fanlight.create().then(
      () => "opened",
      ({ code, missing, message }) => ({ code, missing, message }),
    );
  });
}

test("a module that cannot be fetched is told", async () => {
  const { code } = await refused((page) => page.route("**/*.wasm", (route) => route.abort()));
  assert.equal(code, "worker-died");
});

test("d08: no WebGPU, and WebGPU without an adapter, give errors that say what is missing", async () => {
  const none = await refused((page) => page.addInitScript(() => delete Navigator.prototype.gpu));
  assert.deepEqual([none.code, none.missing], ["no-gpu", "webgpu"]);
  assert.match(none.message, /no WebGPU: use /);
  const noAdapter = "Object.getPrototypeOf(navigator.gpu).requestAdapter = async () => null;\n";
  const unusable = await refused((page) => beforeWorker(page, noAdapter));
  assert.deepEqual([unusable.code, unusable.missing], ["no-gpu", "adapter"]);
  assert.match(unusable.message, /no usable gpu/i);
});

/** Does something with a server that sends these headers with everything. */
async function servedWith(headers, work) {
  const server = await serve(folder, headers);
  try {
    return await work(`http://127.0.0.1:${server.address().port}`);
  } finally {
    server.close();
    server.closeAllConnections();
  }
}

const STRICT =
  "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; connect-src 'self'; frame-src 'none'; " +
  "object-src 'none'; base-uri 'none'";

const ISOLATION = {
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-embedder-policy": "require-corp",
};

test("e14: a policy that forbids WebAssembly is named in the error", async () => {
  const policy = { "content-security-policy": STRICT.replace(" 'wasm-unsafe-eval'", "") };
  const { code, message } = await servedWith(policy, (origin) => refused(async () => {}, origin));
  assert.equal(code, "worker-died");
  assert.match(message, /wasm-unsafe-eval/);
});

test("e14, e15: the strict policy suffices, with and without isolation headers", async () => {
  for (const more of [{}, ISOLATION]) {
    await servedWith({ "content-security-policy": STRICT, ...more }, async (origin) => {
      const page = await on.browser.newPage();
      const broken = [];
      page.on("console", (message) => {
        const { url } = message.location();
        const isAbout = /example\.invalid|favicon/.test(`${url} ${message.text()}`);
        if (message.type() === "error" && !isAbout) broken.push(message.text());
      });
      await page.goto(`${origin}/pages/blank.html`);
      const found = await page.evaluate(async () => {
        const { Fanlight } = await import("/sdk/index.js");
        const engine = await Fanlight.create();
        const { architecture } = await engine.inspect("/models/tiny-llama-q8_0.gguf");
        const elsewhere = await fetch("https://example.invalid/").then(
          () => "sent",
          () => "blocked",
        );
        return { isIsolated: crossOriginIsolated, architecture, elsewhere };
      });
      assert.equal(found.isIsolated, more === ISOLATION);
      assert.equal(found.architecture, "llama");
      assert.equal(found.elsewhere, "blocked");
      assert.deepEqual(broken, []);
      await page.close();
    });
  }
});

test("e15: an isolated page reads a model of another origin that allows it", async () => {
  const allowing = {
    "access-control-allow-origin": "*",
    "access-control-expose-headers": "content-range, etag",
  };
  await servedWith(allowing, async (elsewhere) => {
    await servedWith(ISOLATION, async (origin) => {
      const page = await on.browser.newPage();
      await page.goto(`${origin}/pages/blank.html`);
      const found = await page.evaluate(async (url) => {
        const { Fanlight } = await import("/sdk/index.js");
        const engine = await Fanlight.create();
        const { architecture } = await engine.inspect(url);
        return { isIsolated: crossOriginIsolated, architecture };
      }, `${elsewhere}/models/tiny-llama-q8_0.gguf`);
      assert.deepEqual(found, { isIsolated: true, architecture: "llama" });
      await page.close();
    });
  });
});
