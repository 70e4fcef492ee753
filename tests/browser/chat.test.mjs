// The chat page, driven as a visitor would: choose a model, ask, read, stop, branch, keep, export, go
// offline.

import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";

import { changed, synthetic, temporaryFolder } from "./files.mjs";
import { ChatVisit, ROOT, stage } from "./harness.mjs";

const folder = temporaryFolder();
const axe = createRequire(path.join(ROOT, "host-web/package.json")).resolve("axe-core/axe.min.js");
let on;
let model;
let visit;
let page;

before(async () => {
  model = synthetic(folder, "tiny-llama", "q8_0");
  on = await stage(folder);
  visit = await ChatVisit.open(on, "?context=512", keepRequests, await on.browser.newContext());
  page = visit.page;
});
after(async () => on?.close());

/** Keeps what the page asks its worker for, and what it compiles itself. */
const keepRequests = (to) =>
  to.addInitScript(() => {
    globalThis.compiled = [];
    for (const name of ["compile", "compileStreaming", "instantiate", "instantiateStreaming"]) {
      const real = WebAssembly[name];
      WebAssembly[name] = (...all) => {
        globalThis.compiled.push(name);
        return real(...all);
      };
    }
    globalThis.asked = [];
    const { postMessage } = Worker.prototype;
    Worker.prototype.postMessage = function keeping(message, ...rest) {
      // The engine waits for a reader that does not take its events.
      if (globalThis.isHeld && message.type === "acknowledge") return undefined;
      globalThis.asked.push(message);
      return postMessage.call(this, message, ...rest);
    };
  });

/** What the page would write into an exported file. */
async function exported() {
  const waiting = page.waitForEvent("download");
  await page.getByRole("button", { name: "Export" }).click();
  const file = path.join(folder, "exported.json");
  await (await waiting).saveAs(file);
  return JSON.parse(fs.readFileSync(file, "utf8")).conversations;
}

/** Serious findings of axe, on the page as it is. */
async function findings() {
  // Run by the debugger, as the page's own policy forbids scripts from elsewhere.
  await page.evaluate(fs.readFileSync(axe, "utf8"));
  const { violations } = await page.evaluate(() => globalThis.axe.run());
  return violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(
      ({ id, nodes }) =>
        `${id}: ${nodes
          .map(({ html }) => html)
          .join(" ")
          .slice(0, 200)}`,
    );
}

test("a folder is opened and remembered, and models in it are found whatever they are called", async () => {
  // A folder of the origin's own is read like a picked one, and nobody has to click for it.
  await page.evaluate(async (url) => {
    const root = await navigator.storage.getDirectory();
    const library = await root.getDirectoryHandle("library", { create: true });
    const put = async (place, data) => {
      const [name, ...above] = place.split("/").reverse();
      let folder = library;
      for (const part of above.reverse()) folder = await folder.getDirectoryHandle(part, { create: true });
      const file = await (await folder.getFileHandle(name, { create: true })).createWritable();
      await file.write(data);
      await file.close();
    };
    await put(`blobs/sha256-${"ab".repeat(32)}`, await (await fetch(url)).arrayBuffer());
    await put(`blobs/sha256-${"cd".repeat(32)}-partial`, new Uint8Array(1000));
    await put("manifests/registry.example/library/tiny/latest", '{"layers":[]}');
    globalThis.showDirectoryPicker = async () => library;
  }, `/models/${path.basename(model)}`);
  await page.getByRole("button", { name: "Open a folder" }).click();
  const list = page.getByRole("region", { name: "Models in the folder" });
  assert.match(await list.innerText(), /^One model in the folder\s+blobs\/sha256-abab/);
  await list.getByRole("button", { name: /sha256-abab/ }).click();
  assert.match(await page.locator("#card").innerText(), /tiny llama/);
  await page.getByRole("button", { name: "Choose another" }).click();
});

test("an unsupported file is explained, and a good one shows its card before it is loaded", async () => {
  const cut = changed(folder, "cut.gguf", model, (bytes) => bytes.subarray(0, 60_000));
  await page.locator("#files:enabled").setInputFiles(cut);
  await page.locator(".problem, .notice.error").first().waitFor();
  assert.match(await page.locator(".problem, .notice.error").first().innerText(), /cut\.gguf|tensor/i);
  const again = page.getByRole("button", { name: "Choose another" });
  if (await again.isVisible()) await again.click();
  await page.locator("#files:enabled").setInputFiles(model);
  const card = await page.locator("#card").innerText();
  for (const text of [/tiny llama/, /llama/, /Q8_0 \d+ %/, /On the GPU\s+[\d.]+ MB/, /on top/])
    assert.match(card, text);
  await page.locator("#load").click();
  await page.locator("#question").waitFor();
  assert.match(await page.locator("#adapter").innerText(), /swiftshader.*processor/i);
});

test("an answer grows on the page, at most once per frame, and its line tells the speed", async () => {
  // The most likely tokens, so that every run says the same.
  await visit.setting("temperature", 0);
  await visit.setting("tokens", 40);
  await page.evaluate(() => {
    globalThis.frames = 0;
    globalThis.changes = [];
    const count = () => {
      globalThis.frames += 1;
      requestAnimationFrame(count);
    };
    requestAnimationFrame(count);
    new MutationObserver(() => {
      const { length } = document.querySelector(".answer[aria-busy=true] .text")?.textContent ?? "";
      if (length !== globalThis.changes.at(-1)?.length)
        globalThis.changes.push({ length, frame: globalThis.frames });
    }).observe(document.getElementById("log"), { childList: true, subtree: true, characterData: true });
  });
  const { note } = await visit.ask("the light of the house");
  const changes = await page.evaluate(() => globalThis.changes);
  assert.ok(changes.length >= 4, `${changes.length} changes`);
  const busiest = Math.max(
    ...changes.map(({ frame }) => changes.filter((other) => other.frame === frame).length),
  );
  assert.ok(busiest <= 2, `${busiest} changes between two frames`);
  assert.match(note, /[\d.]+ tokens\/s/);
  assert.match(note, /Cut off at the longest answer/);
  assert.equal(await page.locator("#log").getAttribute("aria-live"), "polite");
  assert.deepEqual(await page.evaluate(() => globalThis.compiled), [], "the engine runs in its worker only");
});

test("e08: stopped by button and by key, an answer keeps its text, and the next one comes", async () => {
  await visit.setting("tokens", 400);
  for (const stop of [() => page.locator("#stop").click(), () => page.keyboard.press("Escape")]) {
    await visit.send("the light");
    // Looked at with every frame, and as soon as it is there the answer comes to a halt.
    await page.waitForFunction(() => {
      globalThis.isHeld = /tokens\/s/.test(document.getElementById("live")?.textContent ?? "");
      return globalThis.isHeld;
    });
    // On a phone the line of its speed is cut, and the button beside it stays in reach.
    await page.setViewportSize({ width: 360, height: 700 });
    const edge = await page.locator("#stop").evaluate((button) => button.getBoundingClientRect().right);
    assert.ok(edge <= 360, `the button ends at ${edge} of 360 pixels`);
    await page.setViewportSize({ width: 1280, height: 720 });
    await stop();
    assert.match((await visit.answer()).note, /Stopped/);
    await page.evaluate(() => {
      globalThis.isHeld = false;
    });
  }
  await visit.setting("tokens", 4);
  await visit.ask("and then");
  const [conversation] = await exported();
  const said = conversation.entries.filter(({ role }) => role === "assistant");
  assert.deepEqual(
    said.map(({ ending }) => ending),
    ["length", "cancelled", "cancelled", "length"],
  );
  assert.ok(said.every(({ content }) => content.length > 0));
});

test("answers are made again and questions edited as branches", async () => {
  const last = page.locator(".answer").last();
  await last.getByRole("button", { name: "Answer again" }).click();
  await last.getByText("2 of 2", { exact: true }).waitFor();
  await visit.answer();
  const question = page.locator(".question").last();
  await question.hover();
  await question.getByRole("button", { name: "Edit and ask again" }).click();
  await page.locator(".editor textarea").fill("something else");
  await page.getByRole("button", { name: "Ask this instead" }).click();
  await page.locator(".question").last().getByText("2 of 2", { exact: true }).waitFor();
  await visit.answer();
  assert.equal(await page.locator(".question .said").last().innerText(), "something else");
  await page.locator(".question").last().getByRole("button", { name: "The version before" }).click();
  assert.equal(await page.locator(".question .said").last().innerText(), "and then");
  await page.locator(".answer").last().getByText("2 of 2", { exact: true }).waitFor();
});

test("f07, f10: what is too long is given back, or goes on without its oldest turns", async () => {
  await page.locator("#new").click();
  await visit.ask("first ".repeat(40));
  await visit.send("second ".repeat(60));
  await page.getByRole("button", { name: "Drop the oldest turns and ask again" }).waitFor();
  assert.match(await page.locator(".notice.error").innerText(), /has \d+ tokens, the context holds 512/);
  assert.equal(await page.locator("#question").inputValue(), "second ".repeat(60));
  assert.equal(await page.locator(".question").count(), 1);
  await page.getByRole("button", { name: "Drop the oldest turns and ask again" }).click();
  await page.locator(".answer").nth(1).waitFor();
  assert.ok((await visit.answer()).text.length > 0);
});

test("instructions and a text to go by reach the model", async () => {
  await page.locator("#new").click();
  await visit.setting("system", "Be brief.");
  await page.getByRole("button", { name: "Add a text" }).click();
  await page.locator("#grounding").fill("The keeper wrote to the sea.");
  await page.locator("#grounding").blur();
  await visit.ask("what?");
  const turns = await page.evaluate(
    () =>
      globalThis.asked.findLast(({ question }) => question?.name === "generate").question.request.prompt
        .turns,
  );
  assert.deepEqual(turns[0], { role: "system", content: "Be brief." });
  assert.match(turns[1].content, /The keeper wrote to the sea\.[^]*what\?$/);
  await visit.setting("system", "");
  const [{ grounding }] = await exported();
  assert.equal(grounding, "The keeper wrote to the sea.");
});

test("hostile markdown does nothing, and code can be copied", async () => {
  const text =
    '# Title\n\n<img src=x onerror="globalThis.hit = 1"><script>globalThis.hit = 1</script>\n\n' +
    "[bad](javascript:globalThis.hit=1) [good](https://example.org/)\n\n" +
    "```js\nlet a = 1;\n```\n\n| a |\n|---|\n| b |";
  const conversation = {
    id: "x",
    title: "Hostile",
    created: 1,
    changed: 1,
    leaf: "2",
    grounding: "",
    entries: [
      { id: "1", parent: null, role: "user", content: "<b>hi</b>" },
      { id: "2", parent: "1", role: "assistant", content: text, ending: "stop" },
    ],
  };
  const file = path.join(folder, "hostile.json");
  fs.writeFileSync(
    file,
    JSON.stringify({ format: "fanlight-conversations", version: 1, conversations: [conversation] }),
  );
  await page.locator("#import").setInputFiles(file);
  const answer = page.locator(".answer .text");
  await answer.getByRole("heading", { name: "Title" }).waitFor();
  assert.equal(await answer.locator("img, script, [onerror]").count(), 0);
  assert.equal(await answer.locator("a[href^=javascript]").count(), 0);
  assert.match(await answer.locator("a", { hasText: "good" }).getAttribute("rel"), /noopener/);
  assert.equal(await page.locator(".said").innerText(), "<b>hi</b>");
  await answer.locator(".code").getByRole("button", { name: "Copy" }).waitFor();
  assert.equal(await page.evaluate(() => globalThis.hit), undefined);
  fs.writeFileSync(file, "{}");
  await page.locator("#import").setInputFiles(file);
  assert.match(await page.locator(".notice.error").innerText(), /holds no conversations of this page/);
  await page.locator(".notice .icon-button").click();
});

test("no serious finding of axe, and nothing wider than a phone, in either theme", async () => {
  const check = async (what) => assert.deepEqual(await findings(), [], what);
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize({ width: 360, height: 700 });
    const [wanted, there] = await page.evaluate(() => {
      const { scrollWidth, clientWidth } = document.documentElement;
      return [scrollWidth, clientWidth];
    });
    assert.ok(wanted <= there, `${wanted} pixels wide, ${there} are there`);
    await check(`chat, phone, ${colorScheme}`);
    await page.setViewportSize({ width: 1200, height: 800 });
    await check(`chat, desktop, ${colorScheme}`);
    for (const button of ["#model-button", "#settings-button"]) {
      await page.locator(button).click();
      await page.locator(".panel").waitFor();
      await check(`${button}, ${colorScheme}`);
      await page.keyboard.press("Escape");
      await page.locator(".panel").waitFor({ state: "detached" });
    }
  }
});

test("a model over its budget streams, and another amount of memory needs no other load", async () => {
  await page.locator("#new").click();
  await page.locator("#model-button").click();
  // Its weights take a good MiB, so that some whole number of MiB holds a part of them.
  await page.locator("#files:enabled").setInputFiles(synthetic(folder, "tiny-llama", "f32", 7));
  const card = page.locator("#card");
  await card.locator("#memory").selectOption("custom");
  const [, megabytes] = /On the GPU\s+([\d.]+) MB/.exec(await card.innerText());
  // A little less, as the card rounds.
  await card.locator("#budget").fill(String(Math.floor((1e6 * megabytes) / 2 ** 20 - 0.06)));
  await card.locator("#budget").blur();
  await card.filter({ hasText: "stream through" }).waitFor();
  await card.locator("#cache").fill("16");
  await card.locator("#cache").blur();
  await page.locator("#load:enabled").click();
  await page.locator(".panel").waitFor({ state: "detached" });
  await visit.setting("tokens", 6);
  const streamed = await visit.ask("the light");
  await page.locator("#model-button").click();
  // Short batches, which spares the reload of the next test half of the time for compiling.
  await page.locator("#memory").selectOption("lite");
  await page.locator("#resize").click();
  const loaded = page.getByRole("region", { name: "The loaded model" });
  await loaded.filter({ hasNotText: "stream through" }).waitFor();
  await page.keyboard.press("Escape");
  await page.locator(".panel").waitFor({ state: "detached" });
  const load = await page.evaluate(() => {
    return globalThis.asked.findLast(({ question }) => question?.name === "load").question.options;
  });
  assert.equal(load.cacheMib, 16);
  const asks = await page.evaluate(() => globalThis.asked.map(({ question }) => question?.name));
  assert.equal(asks.findLast((name) => name === "load" || name === "budget"), "budget");
  await page.getByRole("button", { name: "Answer again" }).click();
  await page.getByText("2 of 2", { exact: true }).waitFor();
  assert.equal((await visit.answer()).text, streamed.text, "the conversation is there, and the same is said");
});

test("a killed worker is told, and the next question loads the model once more", async () => {
  await page.locator("#new").click();
  const [worker] = page.workers();
  await worker.evaluate(() => {
    setTimeout(() => {
      throw new Error("struck by lightning");
    });
  });
  assert.match(await page.locator(".notice.error").innerText(), /struck by lightning/);
  assert.ok((await visit.ask("the light")).text.length > 0);
});

test("A7, B4: a deleted conversation can be brought back, and answers are forgotten with it", async () => {
  const before = await page.locator(".conversation").count();
  const title = await page.locator(".conversation").first().innerText();
  await page.getByRole("button", { name: `Delete “${title}”` }).first().click();
  await page.getByRole("button", { name: "Undo" }).waitFor();
  assert.equal(await page.locator(".conversation").count(), before - 1);
  const asked = await page.evaluate(() => globalThis.asked.map(({ question }) => question?.name));
  assert.ok(asked.includes("forget-memory"));
  await page.getByRole("button", { name: "Undo" }).click();
  assert.equal(await page.locator(".conversation").count(), before);
});

test("A1, A2: without a network conversations are read, a kept model is looked into and loaded", async () => {
  const before = (await exported()).length;
  // A model from an address, which is kept.
  const address = `/models/${path.basename(model)}`;
  await page.locator("#model-button").click();
  await page.locator("#address").fill(address);
  await page.getByRole("button", { name: "Look it up" }).click();
  await page.locator("#card #memory").selectOption("lite");
  await page.locator("#load:enabled").click();
  await page.locator(".panel").waitFor({ state: "detached" });
  await page.evaluate(() => navigator.serviceWorker.ready);
  await page.context().setOffline(true);
  await page.reload();
  await page.locator("#files:enabled").waitFor();
  assert.equal((await exported()).length, before);
  const kept = page.locator(".sources").getByRole("button", { name: path.basename(model) }).first();
  await kept.click();
  await page.locator("#card", { hasText: "tiny llama" }).waitFor();
  await page.locator("#load:enabled").click();
  await page.locator("#question").waitFor();
  await page.reload();
  await page.locator("#last-model:enabled").waitFor();
  // The folder of before is a click away.
  await page.getByRole("button", { name: "library", exact: true }).click();
  assert.match(await page.getByRole("region", { name: "Models in the folder" }).innerText(), /One model/);
  await page.getByRole("button", { name: "Close the folder" }).click();
  // A2: without a model there is nothing to ask, but what was said can be read.
  await page.locator(".conversation").nth(1).click();
  await page.locator(".said").first().waitFor();
  await page.getByText("Load a model to go on").waitFor();
  // A7: nothing is deleted by one click.
  await page.locator("#settings-button").click();
  await page.locator("#keeps").click();
  await page.getByRole("alertdialog").getByRole("button", { name: "Cancel" }).click();
  assert.ok(await page.locator("#keeps").isChecked());
  await page.locator("#keeps").click();
  await page.locator("#end-keeping").click();
  await page.locator(".panel-head button").click();
  await page.reload();
  await page.locator("#files:enabled").waitFor();
  assert.equal(await page.locator(".conversation").count(), 0);
  await page.context().setOffline(false);
  assert.deepEqual(visit.foreign, []);
  assert.deepEqual(visit.errors, []);
});

test("d08: a browser without WebGPU gets a page that says what to do", async () => {
  const noGpu = (to) => to.addInitScript(() => delete Navigator.prototype.gpu);
  const other = await ChatVisit.open(on, "", noGpu);
  const text = await other.page.getByRole("alert").innerText();
  assert.match(text, /No GPU can be used here\s+This browser has no WebGPU: use /);
  assert.deepEqual(other.errors, []);
});

test("e10: after a load that never ended, the page does not try again by itself", async () => {
  const marked = (to) => to.addInitScript(() => sessionStorage.setItem("fanlight-unfinished-load", "x"));
  const other = await ChatVisit.open(on, `?model=/models/${path.basename(model)}`, marked);
  assert.match(await other.page.locator(".notice.error").innerText(), /The last load did not end/);
  await other.page.getByRole("button", { name: /Load .* again/ }).waitFor();
});
