// A visitor picks a model, asks, reads, stops and asks again.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { nativeReply, synthetic, temporaryFolder } from "./files.mjs";
import { stage, Visit } from "./harness.mjs";
import { split } from "./split.mjs";

const folder = temporaryFolder();
const PROMPT = "the light of the house";
let on;
let model;

before(async () => {
  model = synthetic(folder, "tiny-llama", "q8_0");
  on = await stage(folder);
});
after(async () => on?.close());

test("a picked model answers with the ids of the command line", async () => {
  const visit = await Visit.open(on);
  const { card } = await visit.pick(model);
  assert.match(card, /tiny llama/);
  assert.match(card, /llama\n/);
  assert.match(card, /Q8_0 \d+ %/);
  assert.match(card, /On the GPU\s+[\d.]+ [kM]B/);
  await visit.setting("tokens", 24);
  await visit.setting("plain", true);
  const answer = await visit.ask(PROMPT);
  const native = nativeReply(model, PROMPT, { tokens: 24, raw: true });
  assert.deepEqual(answer.ids, native.output_ids);
  assert.equal(answer.text, native.text);
  assert.match(answer.note, /prompt [\d.]+ tok\/s .* answer [\d.]+ tok\/s .*software, no GPU/);
  assert.match(await visit.page.locator("#adapter").innerText(), /swiftshader.*processor/i);
  assert.deepEqual(visit.errors, []);
  assert.deepEqual(visit.foreign, [], "nothing leaves the page");
});

test("an answer grows on the page before it is complete", async () => {
  const visit = await Visit.open(on);
  await visit.pick(model);
  await visit.setting("tokens", 64);
  await visit.page.evaluate(() => {
    const log = document.getElementById("log");
    globalThis.lengths = [];
    new MutationObserver(() => {
      const { length } = log.querySelector(".answer .text")?.textContent ?? "";
      if (length !== globalThis.lengths.at(-1)) globalThis.lengths.push(length);
    }).observe(log, { childList: true, subtree: true, characterData: true });
  });
  const { text } = await visit.ask(PROMPT);
  const lengths = await visit.page.evaluate(() => globalThis.lengths);
  assert.ok(lengths.length >= 4, `lengths seen: ${lengths}`);
  assert.equal(lengths.at(-1), text.length);
  assert.equal(await visit.page.locator("#log").getAttribute("aria-live"), "polite");
});

test("nothing is wider than a phone, in either theme", async () => {
  for (const colorScheme of ["light", "dark"]) {
    const context = await on.browser.newContext({ viewport: { width: 360, height: 700 }, colorScheme });
    const page = await context.newPage();
    await page.goto(`${on.origin}/`);
    await page.locator("#files:enabled").waitFor();
    await page.locator("#settings summary").click();
    const [wanted, there] = await page.evaluate(() => {
      const { scrollWidth, clientWidth } = document.documentElement;
      return [scrollWidth, clientWidth];
    });
    assert.ok(wanted <= there, `${wanted} pixels wide, ${there} are there`);
    await context.close();
  }
});

test("e08: a stopped answer keeps its text, and the next question reuses the beginning", async () => {
  const visit = await Visit.open(on);
  await visit.pick(model);
  await visit.setting("tokens", 4000);
  await visit.send(PROMPT);
  await visit.page.locator(".answer[data-token-ids]").waitFor();
  await visit.page.locator("#stop").click();
  const stopped = await visit.answer();
  assert.match(stopped.note, /^stopped/);
  assert.ok(stopped.ids.length > 0 && stopped.ids.length < 3900, `${stopped.ids.length} ids`);
  await visit.setting("tokens", 4);
  const second = await visit.ask("and then");
  assert.ok(second.ids.length > 0, "an answer after a stop");
  const reused = Number(/(\d+) reused/.exec(second.note)?.[1]);
  assert.ok(reused > 10, second.note);
});

test("e08: stop with the keyboard while the prompt is read, twice, then ask again", async () => {
  const visit = await Visit.open(on);
  await visit.pick(model);
  await visit.setting("tokens", 2000);
  for (let round = 0; round < 2; round += 1) {
    await visit.send(`${PROMPT} ${"and again ".repeat(100)}`);
    await visit.page.locator("#stop").waitFor();
    await visit.page.keyboard.press("Escape");
    await visit.page.keyboard.press("Escape");
    await visit.page.locator("#send:enabled").waitFor();
  }
  await visit.setting("tokens", 4);
  assert.ok((await visit.ask(PROMPT)).ids.length > 0);
  assert.deepEqual(visit.errors, []);
});

test("f07: a prompt longer than the context is refused with both numbers and given back", async () => {
  const visit = await Visit.open(on, "?context=256");
  const { card } = await visit.pick(model);
  assert.match(card, /256 tokens/);
  const long = "lighthouse ".repeat(400).trim();
  await visit.send(long);
  assert.match(await visit.alert(), /prompt has \d+ tokens, the context holds 256/);
  assert.equal(await visit.page.locator("#question").inputValue(), long);
  await visit.setting("tokens", 4);
  assert.ok((await visit.ask(PROMPT)).ids.length > 0);
});

test("a12: the parts of a split model in any order, as one file", async () => {
  const visit = await Visit.open(on);
  const [first, second, third] = split(model, folder, "parts", 3);
  const { card, alert } = await visit.pick(third, first, second);
  assert.match(card ?? alert, /tiny llama/);
  await visit.setting("tokens", 8);
  await visit.setting("plain", true);
  const { ids } = await visit.ask(PROMPT);
  assert.deepEqual(ids, nativeReply(model, PROMPT, { tokens: 8, raw: true }).output_ids);
});

test("a second model takes the place of the first", async () => {
  const visit = await Visit.open(on);
  await visit.pick(model);
  const { card } = await visit.pick(synthetic(folder, "tiny-qwen2", "q4_0"));
  assert.match(card, /tiny qwen2/);
  await visit.setting("tokens", 4);
  assert.ok((await visit.ask(PROMPT)).ids.length > 0);
});
