// The SDK where there is no GPU to open: in Node, in pages that may start no worker or have no locks.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { temporaryFolder } from "./files.mjs";
import { SDK, Visit, serve, stage } from "./harness.mjs";

const { Fanlight, FanlightError, hubFiles } = await import(`${SDK}/index.js`);
const { replyRequest } = await import(`${SDK}/requests.js`);
const { resolve } = await import(`${SDK}/sources.js`);

const folder = temporaryFolder();
let on;

before(async () => {
  on = await stage(folder);
});
after(async () => on?.close());

/** What a call of the package comes to in a page: the code and text of its failure. */
const created = (page, from, options = {}) =>
  page.evaluate(
    async ([address, how]) => {
      const { Fanlight, FanlightError, hubFiles } = await import(address);
      const slow = new Promise((late) => setTimeout(() => late("it never settles"), 20_000));
      const failed = (error) => [error instanceof FanlightError, error.code, error.message];
      return await Promise.race([Fanlight.create(how).then(({ adapter }) => adapter.name, failed), slow]);
    },
    [from, options],
  );

test("W07, C4: without a page create() fails with a FanlightError", async () => {
  await assert.rejects(Fanlight.create(), (error) => {
    assert.ok(error instanceof FanlightError, String(error));
    assert.equal(error.code, "no-gpu");
    return true;
  });
});

test("W05: an address is taken where there is no document", async () => {
  const { wire } = await resolve("https://models.example/a.gguf", false);
  assert.equal(wire.address.url, "https://models.example/a.gguf");
});

test("A10, C5: a text is a question, and what is no prompt or no option is refused", () => {
  const { prompt } = replyRequest("Why?", {});
  assert.deepEqual(prompt.turns, [{ role: "user", content: "Why?" }]);
  for (const input of [undefined, null, {}, { prompt: 7 }, 7])
    assert.throws(() => replyRequest(input, {}), (error) => error instanceof FanlightError, String(input));
  const unknown = () => replyRequest("Why?", { temprature: 1 });
  assert.throws(unknown, /generate has no option temprature: .*temperature/);
});

test("W06: a page of the hub is taken as its file, and a repository lists its models", async (context) => {
  const blob = await resolve("https://huggingface.co/o/r/blob/main/x/y.gguf", false);
  assert.equal(blob.key, "https://huggingface.co/o/r/resolve/main/x/y.gguf");
  const other = await resolve("https://models.example/o/r/blob/main/y.gguf", false);
  assert.match(other.key, /\/blob\//);
  const names = ["b-q8_0.gguf", "a-q4_0.gguf", "README.md", "c-00001-of-00002.gguf", "c-00002-of-00002.gguf"];
  const entries = names.map((path, at) => ({ type: "file", path, size: 900 - at }));
  const asked = [];
  context.mock.method(globalThis, "fetch", async (address) => {
    asked.push(address);
    return address.includes("/absent/") ? new Response("", { status: 404 }) : Response.json(entries);
  });
  const files = await hubFiles("someone/some-GGUF");
  assert.deepEqual(
    files.map(({ path }) => path),
    ["c-00001-of-00002.gguf", "a-q4_0.gguf", "b-q8_0.gguf"],
  );
  assert.equal(files[1].url, "https://huggingface.co/someone/some-GGUF/resolve/main/a-q4_0.gguf");
  assert.deepEqual(asked, ["https://huggingface.co/api/models/someone/some-GGUF/tree/main?recursive=true"]);
  await assert.rejects(hubFiles("someone/absent"), /no such repository/);
  await assert.rejects(hubFiles("nonsense"), /names no repository/);
});

test("A5: create() settles where no worker can be started", async () => {
  const visit = await Visit.open(on, "pages/blank.html", async (page) => {
    await page.addInitScript(() => {
      globalThis.Worker = function refused() {
        throw new DOMException("no workers here", "SecurityError");
      };
    });
  });
  for (const shared of [true, false]) {
    const [isTyped, code, message] = await created(visit.page, "/sdk/index.js", { shared });
    assert.deepEqual([isTyped, code], [true, "worker-died"]);
    assert.match(message, /no workers here.*serve the package from this page's origin/);
  }
});

test("W02: without locks, as where site data is blocked, a page has an engine of its own", async () => {
  const visit = await Visit.open(on, "pages/blank.html", async (page) => {
    await page.addInitScript(() => {
      LockManager.prototype.request = async () => {
        throw new DOMException("denied", "SecurityError");
      };
    });
  });
  assert.match(await created(visit.page, "/sdk/index.js"), /swiftshader/i);
});

test("A5, C8: the package works from another origin that lets it be read", async () => {
  const cdn = await serve(folder, { "access-control-allow-origin": "*" });
  try {
    const visit = await Visit.open(on, "pages/blank.html");
    const address = `http://127.0.0.1:${cdn.address().port}/sdk/index.js`;
    assert.match(await created(visit.page, address), /swiftshader/i);
  } finally {
    cdn.close();
    cdn.closeAllConnections();
  }
});

test("W04: a second engine survives that the first, which has the worker, is disposed of", async () => {
  const { page } = await Visit.open(on, "pages/blank.html");
  const name = await page.evaluate(async () => {
    const { Fanlight } = await import("/sdk/index.js");
    const first = Fanlight.create();
    // As React's strict mode does: mounted, unmounted and mounted once more.
    void first.then((engine) => engine.dispose());
    return (await Fanlight.create()).adapter.name;
  });
  assert.match(name, /swiftshader/i);
});
