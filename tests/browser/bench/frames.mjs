// Measures the engine in a page: load, prompt, decoding, the first token of a second visit, how long frames
// of the page take while the model decodes, and with --panel what the telemetry panel costs.
//
//   node tests/browser/bench/frames.mjs --model FILE [--json] [--chromium PATH] [--flags "…"]
//     [--seconds N] [--tokens N] [--prompt-tokens N] [--context N] [--budget-mib N] [--by url|file]
//     [--no-frames] [--panel]
//
// Needs what `make web` has built in host-web/sdk/dist, and host-web/node_modules/playwright-core. Without
// --flags (or FANLIGHT_BROWSER_FLAGS) the processor computes.

import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

import { pageServer } from "../../../host-web/serve.mjs";
import { DEVTOOLS, launchLasting, PATIENCE_MS, SDK } from "../harness.mjs";

const HERE = path.dirname(fileURLToPath(import.meta.url));
/** Replies with the panel, and as many without. */
const PANEL_ROUNDS = 7;
/** Repeated until a prompt is long enough; harmless to every tokenizer. */
const SENTENCE = "The keeper of the lighthouse wrote a letter to the sea, and the sea answered. ";

const { values: options } = parseArgs({
  options: {
    model: { type: "string" },
    json: { type: "boolean", default: false },
    chromium: { type: "string" },
    flags: { type: "string" },
    seconds: { type: "string", default: "5" },
    tokens: { type: "string", default: "128" },
    // A batch of the engine's.
    "prompt-tokens": { type: "string", default: "512" },
    context: { type: "string", default: "4096" },
    "budget-mib": { type: "string" },
    by: { type: "string", default: "url" },
    "no-frames": { type: "boolean", default: false },
    panel: { type: "boolean", default: false },
  },
});

/** A whole number of the command line. */
function whole(name) {
  const value = Number(options[name]);
  if (Number.isInteger(value) && value > 0) return value;
  throw new Error(`--${name} ${options[name]}: give a whole number above 0`);
}

async function serving() {
  const models = path.dirname(options.model);
  const server = pageServer({ "/sdk/": SDK, "/": HERE, "/devtools/": DEVTOOLS, "/models/": models });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  return server;
}

/** What decodes while frames are drawn: windows of so many steps, then as the engine chooses. */
const CASES = [
  ["no model at work", null],
  ["windows of 1 step", { width: "off", windowSteps: 1 }],
  ["windows of 2 steps", { width: "off", windowSteps: 2 }],
  ["windows of 4 steps", { width: "off", windowSteps: 4 }],
  ["as the engine chooses", {}],
  ["frame budget 8 ms", { frameBudgetMs: 8 }],
  ["frame budget 4 ms", { frameBudgetMs: 4 }],
];

/** A prompt of about so many tokens. */
async function promptOf(page, tokens) {
  const each = await page.evaluate((text) => bench.countTokens(text), SENTENCE.repeat(10));
  return SENTENCE.repeat(Math.max(1, Math.floor((10 * tokens) / each)));
}

async function measure(context, origin) {
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  await page.goto(`${origin}/page.html`);
  await page.waitForFunction(() => globalThis.bench !== undefined);
  const machine = await page.evaluate(() => bench.open());
  const url = options.by === "url" ? `/models/${encodeURIComponent(path.basename(options.model))}` : null;
  if (url === null) await page.locator("input").setInputFiles(options.model);
  const budget = options["budget-mib"] === undefined ? {} : { budgetMiB: whole("budget-mib") };
  const how = { contextLength: whole("context"), ...budget, cache: "none" };
  const { info, seconds, phases } = await page.evaluate(([from, by]) => bench.load(from, by), [url, how]);
  const reply = (prompt, by) => page.evaluate(([text, how]) => bench.reply(text, how), [prompt, by]);
  const long = await promptOf(page, Math.min(whole("prompt-tokens"), whole("context") / 2));
  const tokens = whole("tokens");
  // Once for what is compiled on the way, once to be timed.
  await reply("The sea", { maxTokens: 2 });
  const { prefillMs, promptTokens, reusedTokens } = await reply(long, { maxTokens: 1 });
  const decode = {};
  for (const width of ["off", "auto"]) {
    const { tokensPerSecond, tokensPerStep, firstTokenMs } =
      await reply(SENTENCE, { maxTokens: tokens, width });
    decode[width] = { tokensPerSecond, tokensPerStep, firstTokenMs };
  }
  const frames = [];
  for (const [name, by] of options["no-frames"] ? [] : CASES) {
    const decoding = by && { ...by, maxTokens: whole("context") - 512 };
    const args = [decoding, SENTENCE, whole("seconds")];
    frames.push({ name, ...(await page.evaluate((all) => bench.frames(...all), args)) });
  }
  const panel = options.panel ? await panelCost(page, reply, tokens) : null;
  await page.close();
  const prefill = { tokens: promptTokens - reusedTokens, ms: prefillMs };
  const uploadMibPerSecond = info.readBytes / 2 ** 20 / (phases.weights ?? seconds);
  const loaded = { seconds, phases, uploadMibPerSecond };
  return { machine, model: info, load: loaded, prefill, decode, frames, panel };
}

/** Replies with the panel closed and open in turn: the median speed of each, and the main thread's part. */
async function panelCost(page, reply, tokens) {
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable");
  const used = async () => {
    const { metrics } = await session.send("Performance.getMetrics");
    const of = (name) => metrics.find((metric) => metric.name === name).value;
    return { at: of("Timestamp"), busy: of("TaskDuration") };
  };
  const rounds = { closed: [], open: [] };
  for (let round = 0; round < PANEL_ROUNDS; round += 1) {
    for (const [name, isShown] of [["closed", false], ["open", true]]) {
      await page.evaluate((shown) => bench.panel(shown), isShown);
      const before = await used();
      const { tokensPerSecond } = await reply(SENTENCE, { maxTokens: tokens, width: "off" });
      const after = await used();
      rounds[name].push({ tokensPerSecond, busy: (after.busy - before.busy) / (after.at - before.at) });
    }
  }
  const median = (values) => values.sort((a, b) => a - b)[values.length >> 1];
  const of = (each) => ({
    tokensPerSecond: median(each.map((round) => round.tokensPerSecond)),
    busy: median(each.map((round) => round.busy)),
  });
  return { closed: of(rounds.closed), open: of(rounds.open) };
}

/** A second visit: the model is kept, and so is whatever else the browser keeps of the first. */
async function warmStart(context, origin) {
  const visit = async () => {
    const page = await context.newPage();
    page.setDefaultTimeout(PATIENCE_MS);
    await page.goto(`${origin}/page.html`);
    await page.waitForFunction(() => globalThis.bench !== undefined);
    const url = `/models/${encodeURIComponent(path.basename(options.model))}`;
    const how = { contextLength: whole("context") };
    const found = await page.evaluate((all) => bench.warmStart(...all), [url, SENTENCE, how]);
    await page.close();
    return found;
  };
  await visit();
  return await visit();
}

function show({ machine, model, load, prefill, decode, frames, panel, warm }) {
  const of = (value) => (value === null ? "" : value.toFixed(1)).padStart(9);
  const mib = (model.gpuBytes / 2 ** 20).toFixed(1);
  console.log(`${machine.name}; ${machine.userAgent}`);
  console.log(`${model.name}: ${mib} MiB on the GPU${model.plan.isStreamed ? ", streamed" : ""}`);
  console.log(`load ${load.seconds.toFixed(2)} s ${JSON.stringify(load.phases)}`);
  console.log(`weights ${load.uploadMibPerSecond.toFixed(1)} MiB/s`);
  console.log(`prompt ${prefill.tokens} tokens in ${prefill.ms.toFixed(1)} ms`);
  for (const [width, { tokensPerSecond, tokensPerStep }] of Object.entries(decode)) {
    const perStep = tokensPerStep.toFixed(2);
    console.log(`decode, width ${width}: ${tokensPerSecond.toFixed(1)} tokens/s, ${perStep} a step`);
  }
  if (warm) {
    console.log(`first token of a second visit: ${warm.tokenMs.toFixed(0)} ms ${JSON.stringify(warm)}`);
  }
  if (panel) {
    const speed = (100 * panel.open.tokensPerSecond) / panel.closed.tokensPerSecond;
    const thread = 100 * (panel.open.busy - panel.closed.busy);
    const more = `${thread.toFixed(2)} % of the main thread more`;
    console.log(`panel open: ${speed.toFixed(1)} % of the speed, ${more}`);
  }
  console.log(`\n${"frames beside".padEnd(24)}   p50 ms   p99 ms   max ms  frames  missed tokens/s`);
  for (const { name, frames: drawn, missed, p50Ms, p99Ms, maxMs, tokensPerSecond } of frames) {
    const counts = `${String(drawn).padStart(8)}${String(missed).padStart(8)}`;
    console.log(`${name.padEnd(24)}${of(p50Ms)}${of(p99Ms)}${of(maxMs)}${counts}${of(tokensPerSecond)}`);
  }
}

if (!options.model) throw new Error("--model FILE is missing");
const profile = fs.mkdtempSync(path.join(os.tmpdir(), "fanlight-bench-"));
const server = await serving();
const context = await launchLasting(profile, options);
try {
  const origin = `http://127.0.0.1:${server.address().port}`;
  const found = await measure(context, origin);
  // A streamed model is not kept: there the second visit is like the first.
  if (!options["budget-mib"]) found.warm = await warmStart(context, origin);
  if (options.json) console.log(JSON.stringify(found));
  else show(found);
} finally {
  await context.close();
  server.close();
  server.closeAllConnections();
  fs.rmSync(profile, { recursive: true, force: true });
}
