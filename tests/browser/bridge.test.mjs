// The developer bridge between pages: another tab, a frame in a listed and in a hostile origin, a rotated
// key, two tabs. The code is what the settings offer to copy. One worker computes for all of them.

import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";

import { CHUNKS_UNTAKEN_MAX } from "../../host-web/sdk/dist/bridge/client.js";
import { synthetic, temporaryFolder } from "./files.mjs";
import { ChatVisit, DIST, PATIENCE_MS, ROOT, SdkVisit, Visit, serve, stage } from "./harness.mjs";

const folder = temporaryFolder();
const site = path.join(folder, "site");
const axe = createRequire(path.join(ROOT, "host-web/package.json")).resolve("axe-core/axe.min.js");
/** Bounds for a reply of the code that is copied, so that it is short and always the same. */
const SHORT = "temperature: 0, max_tokens: 8,";
const QUESTION = "Why is the sky blue?";
let on;
let model;
let context;
/** The chat page, whose tab owns the worker. */
let chat;
/** Another page of the same origin. */
let other;
/** Servers of other origins: one that is listed, one that is not. */
let listed;
let hostile;

const originOf = (server) => `http://127.0.0.1:${server.address().port}`;

before(async () => {
  model = `?context=512&model=/models/${path.basename(synthetic(folder, "tiny-llama", "q8_0"))}`;
  fs.mkdirSync(site);
  on = await stage(folder);
  [listed, hostile] = [await serve(folder, {}, site), await serve(folder, {}, site)];
  context = await on.browser.newContext();
  // Without batches of many tokens half of the time for compiling is spared.
  await context.addInitScript(() => localStorage.setItem("fanlight-settings", '{"memory":"lite"}'));
  chat = await ChatVisit.open(on, model, undefined, context);
  await chat.page.locator("#question").waitFor();
});
after(async () => {
  for (const server of [listed, hostile]) {
    server?.close();
    server?.closeAllConnections();
  }
  await on?.close();
});

const shownKey = () => chat.page.locator("#bridge-key").inputValue();

/** The code of a snippet as it is shown. */
const snippet = (id) => chat.page.locator(`#snippet-${id} code`).textContent();

/** Serious findings of axe. */
async function findings(page) {
  await page.evaluate(fs.readFileSync(axe, "utf8"));
  const { violations } = await page.evaluate(() => globalThis.axe.run());
  return violations.filter(({ impact }) => impact === "serious" || impact === "critical").map(({ id }) => id);
}

test("the bridge is off until it is switched on, by keys alone if need be", async () => {
  other = await SdkVisit.open(on, { context });
  await other.run(async (address) => {
    const { connectBridge } = await import("/bridge-client.js");
    globalThis.connect = (key, more) => connectBridge({ key, ...more });
    await engine.load(address, { contextLength: 512, preset: "lite" });
  }, new URLSearchParams(model).get("model"));
  const off = await other.run(() => outcome(connect("fl_sk_x")));
  assert.equal(off.code, "not-enabled");
  const { page } = chat;
  await page.locator("#settings-button").focus();
  await page.keyboard.press("Enter");
  await page.locator("#bridge-on").focus();
  await page.keyboard.press("Space");
  for (const id of ["bridge-key", "bridge-show"]) {
    await page.keyboard.press("Tab");
    assert.equal(await page.evaluate(() => document.activeElement.id), id);
  }
  assert.equal(await page.locator("#bridge-key").getAttribute("type"), "password");
  assert.doesNotMatch(await snippet("same"), /fl_sk_[\w-]{43}/, "hidden in the code too");
  await page.keyboard.press("Enter");
  assert.match(await snippet("same"), /fl_sk_[\w-]{43}/);
  await page.locator("#bridge-status", { hasText: "This tab answers" }).waitFor();
});

test("a page of the same origin gets, in chunks, what the engine says itself", async () => {
  const code = (await snippet("same")).replace("stream: true,", `stream: true, ${SHORT}`);
  const found = await other.run(async ([script, content]) => {
    const request = { messages: [{ role: "user", content }], temperature: 0, max_tokens: 8 };
    const own = await engine.chat.completions.create(request);
    document.body.textContent = "";
    await import(`data:text/javascript,${encodeURIComponent(`${script}\nglobalThis.done = true;`)}`);
    return { own: own.choices[0].message.content, said: document.body.textContent };
  }, [code, QUESTION]);
  assert.ok(found.own.length > 0);
  assert.equal(found.said, found.own);
  const whole = await snippet("whole");
  const tokens = await other.run(async (script) => {
    document.body.textContent = "";
    await import(`data:text/javascript,${encodeURIComponent(script)}`);
    return document.body.textContent;
  }, whole);
  assert.match(tokens, /\(64 tokens\)$/);
  const wrong = await other.run(() => outcome(connect(`fl_sk_${"A".repeat(43)}`)));
  assert.equal(wrong.code, "wrong-key");
});

test("origins are checked as they are typed, and the section has no serious finding of axe", async () => {
  const { page } = chat;
  const input = page.locator("#bridge-origin");
  await input.fill("https://*.example");
  await input.press("Enter");
  await page.getByText(/origins are exact/).waitFor();
  assert.equal(await input.getAttribute("aria-invalid"), "true");
  await input.fill(`${originOf(listed)}/`);
  await input.press("Enter");
  await page.getByText(originOf(listed), { exact: true }).waitFor();
  await page.locator("#snippet-frame summary").click();
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    assert.deepEqual(await findings(page), [], colorScheme);
  }
  await page.setViewportSize({ width: 360, height: 700 });
  const [wanted, there] = await page.locator(".panel").evaluate(({ scrollWidth, clientWidth }) => {
    return [scrollWidth, clientWidth];
  });
  assert.ok(wanted <= there, `${wanted} pixels wide, ${there} are there`);
  await page.setViewportSize({ width: 1200, height: 800 });
});

test("a frame in a listed origin serves its page; in a hostile one it serves nothing", async () => {
  const code = await snippet("frame");
  const framed = code
    .replace(`src="${on.origin}/"`, `src="${on.origin}/${model}"`)
    .replace("stream: true,", `stream: true, ${SHORT}`)
    .replace("window: contentWindow,", `window: contentWindow, timeoutMs: ${PATIENCE_MS},`);
  assert.notEqual(framed, code);
  fs.writeFileSync(path.join(site, "index.html"), framed);
  fs.copyFileSync(path.join(DIST, "bridge-client.js"), path.join(site, "bridge-client.js"));
  // T14: a frame's copy of local storage may lack what a tab wrote; key and origins are read all the same.
  const empty = (to) =>
    to.addInitScript(() => {
      const { getItem } = Storage.prototype;
      Storage.prototype.getItem = function lacking(name) {
        return name === "fanlight-settings" ? getItem.call(this, name) : null;
      };
    });
  const open = (server) => Visit.open({ ...on, origin: originOf(server) }, "", empty, context);
  const own = await other.run(async (content) => {
    const request = { messages: [{ role: "user", content }], temperature: 0, max_tokens: 8 };
    return (await engine.chat.completions.create(request)).choices[0].message.content;
  }, QUESTION);
  const friend = await open(listed);
  const said = () => friend.page.evaluate(() => document.body.textContent);
  while (!(await said()).includes(own) && friend.errors.length === 0) await friend.page.waitForTimeout(50);
  assert.deepEqual(friend.errors, []);
  await friend.page.close();
  const enemy = await open(hostile);
  while (enemy.errors.length === 0) await enemy.page.waitForTimeout(50);
  assert.match(enemy.errors[0], /:\d+ is not in the list of origins/);
  // Nor does a page that knows key and origin, and says that it is another.
  const { key, engineOrigin } = { key: await shownKey(), engineOrigin: on.origin };
  const heard = await enemy.page.evaluate(
    async ([origin, secret]) => {
      const { proofOf } = await import("/bridge-client.js");
      const { contentWindow } = document.querySelector("iframe");
      const all = [];
      addEventListener("message", ({ data }) => all.push(data.error?.code ?? data.type));
      const ask = { client: "x", session: "A".repeat(22), seq: 1, body: '{"method":"ping"}' };
      const proof = await proofOf(secret, ask);
      for (const message of [{ type: "hello", client: "x" }, { type: "ask", ...ask, proof }])
        contentWindow.postMessage({ fanlightBridge: 1, origin, ...message }, origin);
      while (all.length < 2) await new Promise((next) => setTimeout(next, 20));
      return all;
    },
    [engineOrigin, key],
  );
  assert.deepEqual(heard, ["origin-not-allowed", "origin-not-allowed"]);
  await enemy.page.close();
});

test("a page that has opened the engine's page is served if its origin is listed", async () => {
  const asked = async (server) => {
    const there = { ...on, origin: originOf(server) };
    const opener = await Visit.open(there, "pages/blank.html", undefined, context);
    const said = await opener.page.evaluate(
      async ([address, key, timeoutMs, content]) => {
        const { connectBridge } = await import("/bridge-client.js");
        const opened = window.open(address);
        try {
          const { origin } = new URL(address);
          const bridge = await connectBridge({ key, window: opened, origin, timeoutMs });
          await bridge.ready();
          const request = { messages: [{ role: "user", content }], temperature: 0, max_tokens: 8 };
          return (await bridge.chat.completions.create(request)).choices[0].message.content;
        } catch (error) {
          return error.code;
        } finally {
          opened.close();
        }
      },
      [`${on.origin}/${model}`, await shownKey(), PATIENCE_MS, QUESTION],
    );
    await opener.page.close();
    return said;
  };
  const own = await other.run(async (content) => {
    const request = { messages: [{ role: "user", content }], temperature: 0, max_tokens: 8 };
    return (await engine.chat.completions.create(request)).choices[0].message.content;
  }, QUESTION);
  assert.deepEqual([await asked(listed), await asked(hostile)], [own, "origin-not-allowed"]);
  await chat.page.locator("#bridge-status", { hasText: "This tab answers" }).waitFor();
});

test("a rotated key stops the old one in the middle of a reply", async () => {
  const old = await shownKey();
  await other.run(async (key) => {
    globalThis.bridge = await connect(key);
    // The most likely tokens, many times more than what the bridge sends ahead to a reader that holds still.
    const bounds = { stream: true, temperature: 0, max_tokens: 400 };
    const request = { messages: [{ role: "user", content: "the light" }], ...bounds };
    globalThis.chunks = (await bridge.chat.completions.create(request))[Symbol.asyncIterator]();
    for (let taken = 0; taken < 3; taken += 1) await chunks.next();
  }, old);
  await chat.page.locator("#bridge-rotate").click();
  const found = await other.run(async () => {
    let count = 3;
    const readOn = async () => {
      for (; !(await chunks.next()).done; count += 1);
    };
    return { codes: [(await outcome(readOn())).code, (await outcome(bridge.ping())).code], count };
  });
  assert.deepEqual(found.codes, ["key-rotated", "wrong-key"]);
  assert.ok(found.count <= 3 + CHUNKS_UNTAKEN_MAX, `${found.count} chunks came`);
  const fresh = await shownKey();
  assert.notEqual(fresh, old);
  const state = await other.run((key) => outcome(connect(key).then((bridge) => bridge.ping())), fresh);
  assert.equal(state.value.model.name, "tiny llama");
});

test("of two tabs exactly one answers: the one that loaded last, then the other", async () => {
  const answers = () =>
    other.run(async () => {
      const channel = new BroadcastChannel("fanlight-bridge-1");
      // A tab gives a client that greets again the session of before.
      const sessions = new Set();
      const client = crypto.randomUUID();
      channel.onmessage = ({ data }) => {
        if (data.client === client && data.type === "ready") sessions.add(data.session);
      };
      const pause = () => new Promise((waited) => setTimeout(waited, 300));
      while (sessions.size === 0) {
        // While one tab takes over from another, neither may hear.
        channel.postMessage({ fanlightBridge: 1, type: "hello", client });
        await pause();
      }
      // One more that answers has had as long as the first.
      await pause();
      channel.close();
      return sessions.size;
    });
  assert.equal(await answers(), 1);
  const second = await ChatVisit.open(on, model, undefined, context);
  await second.page.locator("#question").waitFor();
  await chat.page.locator("#bridge-status", { hasText: "Another tab answers" }).waitFor();
  assert.equal(await answers(), 1);
  // A key that this tab replaces is the other's too.
  await chat.page.locator("#bridge-rotate").click();
  const key = await shownKey();
  await second.page.locator("#settings-button").click();
  await second.page.waitForFunction((fresh) => document.getElementById("bridge-key")?.value === fresh, key);
  const bridged = await other.run((fresh) => outcome(connect(fresh).then((bridge) => bridge.ping())), key);
  assert.equal(bridged.value?.model.name, "tiny llama", bridged.message);
  await second.page.close();
  await chat.page.locator("#bridge-status", { hasText: "This tab answers" }).waitFor();
  assert.equal(await answers(), 1);
  await chat.page.locator("#bridge-on").uncheck();
  assert.equal((await other.run((fresh) => outcome(connect(fresh)), key)).code, "not-enabled");
  for (const visit of [chat, other, second]) assert.deepEqual(visit.errors, []);
  for (const visit of [chat, other, second]) assert.deepEqual(visit.foreign, []);
});
