// The packed package in pages of others: as plain modules, through Vite and through esbuild. Each page opens
// the GPU and looks into a model with its own copy of worker and module; the first generates a token too.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { after, before, test } from "node:test";

import { synthetic, temporaryFolder } from "./files.mjs";
import { PATIENCE_MS, ROOT, serve, stage } from "./harness.mjs";

const HOST = path.join(ROOT, "host-web");
const require = createRequire(path.join(HOST, "package.json"));
const folder = temporaryFolder();
const models = path.join(folder, "models");
const unpacked = path.join(folder, "node_modules/fanlight");
let on;

/** A page's script: what a user of the package would write. */
const script = (options, from = "fanlight", more = "") => `
  import { Fanlight } from ${JSON.stringify(from)};
  const engine = await Fanlight.create(${options});
  const url = "/models/tiny-llama-q8_0.gguf";
  ${more}
  globalThis.architecture = (await engine.inspect(url)).architecture;
`;
const GENERATE = `
  await engine.load(url, { contextLength: 256, batchSize: 1, cache: "none" });
  globalThis.ids = await engine.tokenize(await engine.generate({ prompt: "the" }, { maxTokens: 1 }).text());
`;
const html = (source) => `<!doctype html><title>x</title><script type="module" src="${source}"></script>`;

before(async () => {
  fs.mkdirSync(models);
  fs.mkdirSync(unpacked, { recursive: true });
  synthetic(models, "tiny-llama", "q8_0");
  const packed = execFileSync("npm", ["pack", "--json", "--pack-destination", folder], {
    cwd: path.join(HOST, "sdk"),
    encoding: "utf8",
    stdio: ["ignore", "pipe", "ignore"],
  });
  const [{ filename, files }] = JSON.parse(packed);
  const names = files.map(({ path: name }) => name);
  for (const name of [
    "dist/index.js",
    "dist/index.d.ts",
    "dist/worker.js",
    "dist/fanlight_bg.wasm",
    "README.md",
    "LICENSE-MIT",
    "LICENSE-APACHE",
  ]) {
    assert.ok(names.includes(name), `${name} is packed`);
  }
  execFileSync("tar", ["-xzf", path.join(folder, filename), "-C", unpacked, "--strip-components=1"]);
  on = await stage(models);
});
after(async () => on?.close());

/** Opens a folder as a site, and waits for what its page found. */
async function works(site, hasGenerated = false) {
  const server = await serve(models, {}, site);
  try {
    const page = await on.browser.newPage();
    const errors = [];
    page.on("pageerror", (error) => errors.push(error.message));
    await page.goto(`http://127.0.0.1:${server.address().port}/`);
    await page.waitForFunction(() => globalThis.architecture, null, { timeout: PATIENCE_MS });
    const found = await page.evaluate(() => [globalThis.architecture, globalThis.ids?.length > 0]);
    assert.deepEqual(found, ["llama", hasGenerated]);
    assert.deepEqual(errors, []);
    await page.close();
  } finally {
    server.close();
    server.closeAllConnections();
  }
}

function site(name, files) {
  const place = path.join(folder, name);
  fs.mkdirSync(place, { recursive: true });
  for (const [file, text] of Object.entries(files)) fs.writeFileSync(path.join(place, file), text);
  return place;
}

test("plain modules, without a bundler", async () => {
  const place = site("plain", {
    "index.html": html("./page.js"),
    "page.js": script("", "./fanlight/index.js", GENERATE),
  });
  fs.cpSync(path.join(unpacked, "dist"), path.join(place, "fanlight"), { recursive: true });
  await works(place, true);
});

test("vite finds the worker and the module by itself", async () => {
  const place = site("vite", { "index.html": html("./page.js"), "page.js": script("") });
  const { build } = await import(require.resolve("vite").replace("index.cjs", "dist/node/index.js"));
  const output = { target: "es2022", modulePreload: false, assetsInlineLimit: 0 };
  await build({ root: place, configFile: false, logLevel: "error", worker: { format: "es" }, build: output });
  await works(path.join(place, "dist"));
});

test("esbuild bundles the page, and is told where worker and module lie", async () => {
  const options = '{ workerUrl: "/worker.js", wasmUrl: "/fanlight_bg.wasm" }';
  const place = site("esbuild", { "entry.js": script(options) });
  const out = path.join(place, "out");
  const common = { bundle: true, format: "esm", target: "es2022", logLevel: "error", outdir: out };
  const { buildSync } = require("esbuild");
  buildSync({ ...common, entryPoints: { page: path.join(place, "entry.js") } });
  buildSync({ ...common, entryPoints: { worker: path.join(unpacked, "dist/worker.js") } });
  fs.copyFileSync(path.join(unpacked, "dist/fanlight_bg.wasm"), path.join(out, "fanlight_bg.wasm"));
  fs.writeFileSync(path.join(out, "index.html"), html("./page.js"));
  await works(out);
});
