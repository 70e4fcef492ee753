// The telemetry panel on an engine: it shows what the engine reports, stays small, and costs nothing closed.

import assert from "node:assert/strict";
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { after, before, test } from "node:test";

import { synthetic, temporaryFolder } from "./files.mjs";
import { ChatVisit, LONG_TOKENS, ROOT, SdkVisit, stage } from "./harness.mjs";

const folder = temporaryFolder();
const axe = createRequire(path.join(ROOT, "host-web/package.json")).resolve("axe-core/axe.min.js");
const TOKENS = 24;
let on;
let url;
let visit;
let page;

before(async () => {
  url = `/models/${path.basename(synthetic(folder, "tiny-llama", "q8_0"))}`;
  on = await stage(folder);
  visit = await SdkVisit.open(on, { prepare: countQuestions });
  page = visit.page;
  await visit.run(async () => {
    await import("/devtools/index.js");
    document.body.innerHTML = "<main><h1>A page</h1></main>";
    globalThis.panel = document.createElement("fanlight-telemetry");
    panel.source = engine;
    document.querySelector("main").append(panel);
  });
});
after(async () => on?.close());

/** Notes what the page asks its worker. */
const countQuestions = (to) =>
  to.addInitScript(() => {
    globalThis.asked = [];
    const { postMessage } = Worker.prototype;
    Worker.prototype.postMessage = function noting(message, ...rest) {
      if (message.type === "ask") globalThis.asked.push(message.question.name);
      return postMessage.call(this, message, ...rest);
    };
  });

/** Serious findings of axe. */
async function findings(where) {
  await where.evaluate(fs.readFileSync(axe, "utf8"));
  const { violations } = await where.evaluate(() => globalThis.axe.run());
  const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  return serious.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 100)).join(" ")}`);
}

const pause = (ms) => new Promise((over) => setTimeout(over, ms));
/** The text of a tile of the panel. */
const tile = (name) => page.locator(".tile", { hasText: name }).locator("dd").first().innerText();
const card = (name) => page.getByRole("region", { name, exact: true });

test("the panel shows what the engine reports", async () => {
  const { value: loaded } = await visit.load(url);
  const sentMs = performance.now();
  const { last } = await visit.reply("the light of the house", { maxTokens: TOKENS, width: "off" });
  const wholeMs = performance.now() - sentMs;
  assert.equal(last.type, "done");
  const snapshot = await visit.run(() => engine.snapshot());
  assert.equal(snapshot.version, 2);
  assert.equal(snapshot.totals.tokens, TOKENS);
  assert.deepEqual(snapshot.quarantined, []);
  assert.equal(snapshot.model.ledger.total, loaded.gpuBytes, "the ledger is what was taken");
  assert.match(snapshot.adapter.name + snapshot.adapter.backend, /gpu/i);
  const pieces = snapshot.samples.filter(({ kind }) => kind === "piece");
  const windows = pieces.filter(({ what }) => what === "window");
  // The prompt's last batch chooses the first token.
  assert.equal(
    windows.reduce((sum, { tokens }) => sum + tokens, 0),
    TOKENS - 1,
  );
  const { phases } = snapshot;
  const parts = ["queueUs", "tokeniseUs", "recallUs", "compileUs", "prefillUs", "showUs"];
  assert.equal(
    parts.reduce((sum, part) => sum + phases[part], 0),
    phases.totalUs,
  );
  // The page's own clock measured the same and the way back to it; clocks are coarse to a part of a ms.
  const { firstTokenMs } = last.stats;
  const measured = [phases.totalUs / 1000 - 1, firstTokenMs, wholeMs];
  assert.deepEqual(measured.toSorted((a, b) => a - b), measured);

  const shown = await visit.run(
    async (next) => {
      while ((panel.recording.last?.next ?? 0) < next) await new Promise((over) => setTimeout(over, 50));
      return panel.recording.toFile();
    },
    snapshot.next,
  );
  assert.deepEqual(shown.samples, snapshot.samples, "the panel has every sample, once");
  assert.equal(shown.missed, 0);
  await page.getByLabel("Time shown").selectOption("60");
  // The panel draws twice a second.
  const timeline = card("Timeline").filter({ hasText: new RegExp(`Timeline\\s*${pieces.length} pieces`) });
  await timeline.waitFor();
  const gpuMiB = Number.parseFloat(await tile("On the device"));
  // Three digits are shown.
  assert.ok(Math.abs(gpuMiB / (loaded.gpuBytes / 2 ** 20) - 1) < 0.005, `${gpuMiB} MiB`);
  const first = await tile("First token");
  const firstMs = Number.parseFloat(first) * (first.endsWith(" s") ? 1000 : 1);
  assert.ok(Math.abs(firstMs - phases.totalUs / 1000) < 10, `${first} for ${phases.totalUs} us`);
  // Cards are drawn when they are seen.
  await card("Pages").scrollIntoViewIfNeeded();
  await card("Pages").getByText("all weights stay").waitFor();
  await card("Actors").scrollIntoViewIfNeeded();
  for (const { name } of snapshot.actors) await card("Actors").getByText(name, { exact: true }).waitFor();
});

test("a snapshot is answered while a reply runs, and what is to be seen has no serious flaw", async () => {
  const found = await visit.run(async (maxTokens) => {
    let tokens = 0;
    let during = null;
    for await (const event of engine.generate({ prompt: "the sea" }, { maxTokens, width: "off" })) {
      if (event.type !== "token") continue;
      tokens += event.ids.length;
      // While this reader holds still, the reply cannot end.
      during ??= await engine.snapshot(Number.MAX_SAFE_INTEGER);
    }
    return { tokens, samples: during.samples.length, replies: during.totals.replies };
  }, LONG_TOKENS);
  assert.deepEqual(found, { tokens: LONG_TOKENS, samples: 0, replies: 1 }, "one reply was over, the first");
  // The panel hears of the reply with its next snapshot.
  await page.waitForFunction(() => globalThis.panel.recording.last?.totals.replies == 2);
  await page.getByRole("button", { name: "Bug report" }).click();
  const report = await page.getByLabel("Report", { exact: true }).inputValue();
  assert.match(report, new RegExp(`replies: 2, ${TOKENS + LONG_TOKENS} tokens`));
  assert.ok(!/tiny|gguf|the light|the sea/.test(report), report);
  await page.getByText("As a table").click();
  for (const scheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme: scheme });
    await visit.run((value) => panel.setAttribute("theme", value), scheme);
    await pause(400);
    assert.deepEqual(await findings(page), []);
  }
  await page.getByRole("button", { name: "Close" }).click();
});

test("it asks ten times a second at most, and not at all when it is closed", async () => {
  const asks = () =>
    visit.run(() => [asked.filter((name) => name === "snapshot").length, performance.now() / 1000]);
  /** Asks per second, from one to the tenth after it. */
  const rate = async () => {
    const [before, sinceS] = await asks();
    await page.waitForFunction(
      (count) => asked.filter((name) => name === "snapshot").length >= count,
      before + 10,
    );
    const [now, untilS] = await asks();
    return (now - before) / (untilS - sinceS);
  };
  // One more may fall into the time than its end says.
  const most = 11;
  assert.ok((await rate()) <= most);
  await visit.run(() => panel.remove());
  const [closed] = await asks();
  await pause(1000);
  assert.equal((await asks())[0], closed);
  await visit.run(() => {
    const second = document.createElement("fanlight-telemetry");
    second.source = engine;
    document.querySelector("main").append(panel, second);
  });
  assert.ok((await rate()) <= most, "two panels are no more than one");
  await visit.run(() => document.querySelectorAll("fanlight-telemetry").forEach((shown) => shown.remove()));
});

test("a recording is exported, read again and scrubbed through; another file is refused", async () => {
  await visit.run(() => document.querySelector("main").append(panel));
  const waiting = page.waitForEvent("download");
  await page.getByRole("button", { name: "Export", exact: true }).click();
  const file = path.join(folder, "recording.json");
  await (await waiting).saveAs(file);
  const input = page.locator('input[type="file"]');
  await input.setInputFiles({ name: "x.json", mimeType: "application/json", buffer: Buffer.from("{}") });
  assert.match(await page.getByRole("alert").innerText(), /no recording that can be shown/);
  await input.setInputFiles(file);
  const slider = page.getByLabel("Moment");
  await slider.waitFor();
  const found = await visit.run(() => JSON.stringify(panel.recording.toFile()));
  assert.equal(found, fs.readFileSync(file, "utf8"));
  const before = await card("Timeline").innerText();
  await page.getByLabel("Time shown").selectOption("1");
  await slider.evaluate((range) => {
    range.value = String((Number(range.min) + Number(range.max)) / 2);
    range.dispatchEvent(new Event("input"));
  });
  await card("Timeline").filter({ hasNotText: before }).waitFor();
  assert.match(await slider.getAttribute("aria-valuetext"), /before the end/);
  await page.getByRole("button", { name: "Back to live" }).click();
  assert.match(await page.locator(".mode").innerText(), /live/);
});

test("100,000 samples and more take no more room, in memory or on the page", async () => {
  const push = (snapshots) =>
    visit.run(async (count) => {
      for (let left = count; left > 0; left -= 1) {
        const { next, sample } = globalThis.pushed;
        const samples = Array.from({ length: 1000 }, (_, at) => {
          const beganUs = 1000 * (next + at);
          return { ...sample, submittedUs: beganUs, beganUs, completedUs: beganUs + 900 };
        });
        globalThis.pushed.next += 1000;
        const nowUs = 1000 * globalThis.pushed.next;
        const more = { samples, lostSamples: 0, next: globalThis.pushed.next, nowUs };
        globalThis.feed({ type: "snapshot", snapshot: { ...globalThis.pushed.state, ...more } });
        if (left % 10 === 0) await new Promise((drawn) => requestAnimationFrame(drawn));
      }
      return {
        samples: panel.recording.samples.length,
        nodes: panel.shadowRoot.querySelectorAll("*").length,
        forgotten: panel.recording.forgotten,
      };
    }, snapshots);
  const heap = async () => {
    await page.requestGC();
    return await visit.run(() => performance.memory.usedJSHeapSize);
  };
  await visit.run(async () => {
    const snapshot = await engine.snapshot();
    const sample = snapshot.samples.find(({ kind }) => kind === "piece");
    globalThis.pushed = { state: { ...snapshot }, sample: { ...sample, what: "window" }, next: 0 };
    panel.source = {
      subscribe: (heard) => {
        globalThis.feed = heard;
        return () => {};
      },
    };
  });
  const first = await push(100);
  const heapBefore = await heap();
  const second = await push(100);
  const grown = (await heap()) - heapBefore;
  assert.deepEqual([first.samples, second.samples], [20_000, 20_000]);
  assert.deepEqual([first.forgotten, second.forgotten], [80_000, 180_000]);
  assert.equal(first.nodes, second.nodes);
  assert.ok(grown < 4 << 20, `${grown} bytes more after another 100,000`);
  assert.deepEqual(visit.errors, []);
});

test("the chat page opens it behind one button, under its own policy", async () => {
  const chat = await ChatVisit.open(on);
  await chat.page.locator("#telemetry-button:enabled").click();
  await chat.page.locator("fanlight-telemetry").getByRole("button", { name: "Bug report" }).waitFor();
  assert.deepEqual(await findings(chat.page), []);
  await chat.page.locator("#telemetry").getByRole("button", { name: "Close" }).click();
  assert.equal(await chat.page.locator("fanlight-telemetry").count(), 0);
  assert.deepEqual([chat.errors, chat.foreign], [[], []]);
});
