// The extension in the browser's own developer tools: its panel attaches to a page with an engine, shows what
// that engine reports, and asks for nothing while another panel is looked at.

import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";

import { DevTools } from "./devtools.mjs";
import { synthetic, temporaryFolder } from "./files.mjs";
import { DIST, ROOT, SdkVisit, Visit, launchWithExtension, serve } from "./harness.mjs";

const folder = temporaryFolder();
const axe = createRequire(path.join(ROOT, "host-web/package.json")).resolve("axe-core/axe.min.js");
let server;
let context;
let visit;
let tools;
let panel;

before(async () => {
  synthetic(folder, "tiny-llama", "q8_0");
  server = await serve(folder);
  context = await launchWithExtension(path.join(DIST, "devtools-extension"));
});
after(async () => {
  await context?.close();
  server?.close();
  server?.closeAllConnections();
});

/** Waits until the panel says this. */
const stateIs = (text) =>
  panel.until((wanted) => document.getElementById("state").textContent.includes(wanted), text);

test("the panel is there, and says so where no engine is", async () => {
  const origin = `http://127.0.0.1:${server.address().port}`;
  visit = await Visit.open.call(SdkVisit, { origin }, "pages/blank.html", undefined, context);
  tools = await DevTools.open(context, visit.page);
  await tools.show("Fanlight");
  panel = await tools.panel("panel.html");
  await panel.run(() => {
    globalThis.shown = () => document.querySelector("fanlight-telemetry").recording.last;
    addEventListener("fanlight-hidden", () => {
      globalThis.isHidden = true;
    });
  });
  await stateIs("No page of Fanlight here");
});

test("it attaches by itself and shows what the engine reports", async () => {
  await visit.begin();
  await visit.load("/models/tiny-llama-q8_0.gguf");
  await visit.reply("the light", { maxTokens: 8 });
  const wanted = await visit.run(() => engine.snapshot());
  assert.equal(wanted.totals.replies, 1);
  await stateIs("Attached");
  await panel.until((tokens) => shown()?.totals.tokens === tokens, wanted.totals.tokens);
  const shown = await panel.run(() => {
    const { samples, lostSamples, nowUs, actors, ...rest } = globalThis.shown();
    return rest;
  });
  const { samples, lostSamples, nowUs, actors, ...rest } = wanted;
  assert.deepEqual(shown, rest, "every number but the time and the mailboxes, which go on");
  const kept = await panel.run(() => document.querySelector("fanlight-telemetry").recording.toFile());
  assert.deepEqual(kept.samples, samples);
  assert.ok(kept.frames.length > 0, "frames of the page");
});

test("nothing is asked of the page while another panel is looked at", async () => {
  await visit.run(() => {
    globalThis.asked = 0;
    const { snapshot } = engine;
    engine.snapshot = (after) => ((globalThis.asked += 1), snapshot.call(engine, after));
  });
  await visit.page.waitForFunction(() => globalThis.asked > 0);
  await tools.show("console");
  await panel.until(() => globalThis.isHidden);
  // What was under way in the page when the panel heard of it is done when this is: it comes behind.
  await panel.run(() => new Promise((done) => chrome.devtools.inspectedWindow.eval("0", done)));
  const before = await visit.run(() => globalThis.asked);
  await visit.page.waitForTimeout(1500);
  assert.equal(await visit.run(() => globalThis.asked), before);
  await tools.show("Fanlight");
  await visit.page.waitForFunction((then) => globalThis.asked > then, before);
});

test("no serious finding of axe, in either theme", async () => {
  for (const value of ["light", "dark"]) {
    await panel.send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value }] });
    await panel.run(fs.readFileSync(axe, "utf8"));
    const violations = await panel.run(async () => (await globalThis.axe.run()).violations);
    const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
    assert.deepEqual(serious.map(({ id }) => id), [], value);
  }
});

test("an engine that is gone is told, and one that does not want to be found is not", async () => {
  await visit.run(async () => {
    engine.dispose();
    globalThis.engine = await sdk.Fanlight.create({ announce: false });
  });
  await stateIs("No page of Fanlight here");
  assert.equal(await visit.run(async () => (await engine.snapshot()).samples.length), 0);
  assert.deepEqual(visit.errors, []);
});
