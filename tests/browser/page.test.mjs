// What the chat page does without an engine: markdown, conversations and settings that several tabs share.
// Its modules run in blank pages, so no GPU is opened.

import assert from "node:assert/strict";
import path from "node:path";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";

import { temporaryFolder } from "./files.mjs";
import { ROOT, Visit, stage } from "./harness.mjs";

const APP = path.join(ROOT, "host-web/app/src");
const esbuild = createRequire(path.join(ROOT, "host-web/package.json"))("esbuild");
const folder = temporaryFolder();
let on;
let page;

/** Modules of the page as one script that a blank page can take. */
function modules(...names) {
  const contents = names.map((name) => `export * as ${name} from "./${name}.ts";`).join("\n");
  const { outputFiles } = esbuild.buildSync({
    stdin: { contents, resolveDir: APP },
    bundle: true,
    write: false,
    format: "iife",
    globalName: "app",
    logLevel: "error",
  });
  return outputFiles[0].text;
}

/** A blank page with modules of the page in it. */
async function blank(context, ...names) {
  const visit = await Visit.open(on, "pages/blank.html", undefined, context);
  await visit.page.evaluate(`${modules(...names)}; globalThis.app = app;`);
  return visit.page;
}

before(async () => {
  on = await stage(folder);
  page = await blank(on.browser, "markdown", "conversation", "format");
});
after(async () => on?.close());

/** Markdown as HTML. */
const html = (text) =>
  page.evaluate((source) => {
    const place = document.createElement("div");
    place.append(app.markdown.rendered(source));
    return place.innerHTML;
  }, text);

/** Markdown as it is read: its text, and a line for every break. */
const read = (text) =>
  page.evaluate((source) => {
    const place = document.createElement("div");
    place.append(app.markdown.rendered(source));
    for (const br of place.querySelectorAll("br")) br.replaceWith("\n");
    return place.textContent.trim();
  }, text);

const KEEPS_WORDS = [
  "Use the <div> element, a <button>, vector<int>, List<String> and Option<Vec<u8>>.",
  "before\n<section>\ninside\n</section>\nafter",
  "<!-- a note --> and <script>text</script>",
  "[Name]: Ada",
  "\\(x^2\\) and \\[y\\]",
  "Roses are red,\nViolets are blue",
  "Yours,\nThe Keeper\nNorth Point Light",
];

test("A3: nothing that a model writes vanishes: tags, definitions, formulas, line ends", async () => {
  for (const text of KEEPS_WORDS) assert.equal(await read(text), text);
  assert.equal(await html("<kbd>Ctrl</kbd> H<sub>2</sub>O"), "<p><kbd>Ctrl</kbd> H<sub>2</sub>O</p>\n");
});

test("A3: lists keep their first number, tables their alignment, tasks their boxes", async () => {
  assert.match(await html("5. fifth\n6. sixth"), /^<ol start="5">/);
  assert.match(await html("text\n\n3. third"), /<ol start="3">/);
  const table = await html("| a | b |\n|:-:|--:|\n| 1 | 2 |");
  assert.match(table, /<td align="center">1<\/td>\n<td align="right">2/);
  assert.equal(await read("- [x] call mum\n- [ ] buy milk"), "☑ call mum\n☐ buy milk");
  const boat = await html("![a boat](https://pics.example/boat.png)");
  assert.match(boat, /<a href="https:\/\/pics.*>a boat<\/a>/);
});

test("B1: an answer has no classes but those of code, and its links say where they lead", async () => {
  const link = '<a class="veil" href="https://evil.example/">x</a>';
  const veil = `<blockquote class="with-sidebar">${link}</blockquote>`;
  assert.doesNotMatch(await html(veil), /<[^>]*class=/);
  assert.match(await html("```c++\nint a;\n```"), /<code class="language-c\+\+">/);
  const named = await html("[Renew now](https://evil.example/pay)");
  assert.match(named, /data-place="evil\.example"/);
  assert.doesNotMatch(await html("[https://ok.example/](https://ok.example/)"), /data-place/);
  assert.doesNotMatch(await html("[x](javascript:alert(1)) <javascript:alert(1)>"), /href/);
});

test("C9: a text that the parser cannot take is shown as it is", async () => {
  const deep = ">".repeat(4000);
  assert.equal(await read(deep), deep);
});

/** Pieces that markdown is made of, put together at random: no word of the text may be lost. */
const PIECES = [
  ..."# ## > - * 1. 7. ``` ~~~ ` ** _ ~~ | || |-|:-:| [ ]( ) ![ ]:".split(" "),
  ..."< > </ /> <div <a <!-- --> & &amp; \\".split(" "),
  ..."https://a.example/x www.b.example <br> <kbd> </kbd> \n \n\n \t".split(" "),
  "\n",
  "\n\n",
  "    ",
  "\n- [x] ",
  "\n| a | b |\n|---|---|\n| ",
];

test("A3: of 2,000 random texts every word is there, and no attribute outside the list", async () => {
  const found = await page.evaluate((pieces) => {
    let seed = 7;
    const random = (below) => {
      seed = (Math.imul(seed, 1_103_515_245) + 12_345) >>> 0;
      return Math.floor((seed / 2 ** 32) * below);
    };
    const faults = [];
    const allowed = new Set(["href", "start", "align", "class", "target", "rel", "data-place"]);
    for (let round = 0; round < 2000; round += 1) {
      const words = [];
      let text = "";
      for (let at = random(30); at >= 0; at -= 1) {
        if (random(2) === 0) text += pieces[random(pieces.length)];
        else {
          words.push(`w${round}x${at}`);
          text += ` ${words.at(-1)} `;
        }
      }
      const place = document.createElement("div");
      place.append(app.markdown.rendered(text));
      // A word may stand in the address of a link, or name the language of code.
      const shown = place.innerHTML;
      for (const word of words.filter((one) => !shown.includes(one)))
        faults.push(`${word} is lost of ${JSON.stringify(text)}`);
      for (const element of place.querySelectorAll("*"))
        for (const { name } of element.attributes)
          if (!allowed.has(name)) faults.push(`${name} on ${element.tagName}`);
    }
    return faults.slice(0, 5);
  }, PIECES);
  assert.deepEqual(found, []);
});

/** A conversation of one question and its answer after another. */
function conversationOf(...texts) {
  const entries = texts.map((content, at) => ({
    id: String(at),
    parent: at === 0 ? null : String(at - 1),
    role: at % 2 === 0 ? "user" : "assistant",
    content,
    ...(at % 2 === 0 ? {} : { ending: "stop" }),
  }));
  const leaf = entries.at(-1).id;
  return { id: "c", title: "t", created: 1, changed: 1, entries, leaf, grounding: "", dropsOldest: false };
}

test("A8: the text that answers are based on stays when the oldest turns are dropped", async () => {
  const told = await page.evaluate((conversation) => {
    const whole = app.conversation.turnsOf(conversation, "Be brief.");
    return app.conversation.messages(app.conversation.withoutOldest(whole));
  }, { ...conversationOf("one", "first", "two"), grounding: "The sea is blue." });
  assert.deepEqual(
    told.map(({ role }) => role),
    ["system", "user"],
  );
  assert.match(told[1].content, /The sea is blue\.[^]*two$/);
});

test("B2: what an imported conversation may say of its entries is checked", async () => {
  const outcome = (change) =>
    page.evaluate((conversation) => {
      try {
        return app.conversation.checked(conversation).entries.at(-1).ending;
      } catch (error) {
        return error.message;
      }
    }, change(conversationOf("one", "first")));
  const ending = (name) => (from) => ({
    ...from,
    entries: [from.entries[0], { ...from.entries[1], ending: name }],
  });
  assert.equal(await outcome(ending("cancelled")), "cancelled");
  for (const name of ["__proto__", "toString", 7, {}])
    assert.match(await outcome(ending(name)), /unknown ending/, String(name));
  const orphan = (from) => ({ ...from, entries: [{ ...from.entries[0], parent: {} }] });
  assert.match(await outcome(orphan), /parent/);
});

test("B10: a name out of a file is one short line without marks of direction", async () => {
  const shown = (name) => page.evaluate((text) => app.format.shownName(text), name);
  assert.equal(await shown("good\u202egnp.exe\n2"), "good gnp.exe 2");
  assert.equal((await shown("x".repeat(3000))).length, 80);
});

test("W01: over plain http the page says why it has no GPU", async () => {
  const insecure = async (to) => {
    await to.addInitScript(() => {
      Object.defineProperty(globalThis, "isSecureContext", { value: false });
      delete Crypto.prototype.randomUUID;
    });
  };
  const visit = await Visit.open(on, "", insecure);
  const text = await visit.page.getByRole("alert").innerText();
  assert.match(text, /No GPU can be used here\s+This page was not opened over https/);
  assert.deepEqual(visit.errors, []);
});

test("D: on a phone the list takes the focus, Escape gives it back, the page behind is inert", async () => {
  const { page: phone } = await Visit.open(on);
  await phone.setViewportSize({ width: 390, height: 700 });
  const button = phone.locator("#menu-button");
  assert.equal(await button.getAttribute("aria-expanded"), "false");
  await button.click();
  const focus = (id) => phone.waitForFunction((wanted) => document.activeElement.id === wanted, id);
  await focus("close-list");
  assert.equal(await button.getAttribute("aria-expanded"), "true");
  assert.ok(await phone.evaluate(() => document.getElementById("main").inert));
  await phone.keyboard.press("Escape");
  await focus("menu-button");
  assert.equal(await button.getAttribute("aria-expanded"), "false");
});

test("B8: a link makes the page fetch nothing from another site before the visitor agrees", async () => {
  const visit = await Visit.open(on, "?model=https://evil.example/x.gguf");
  await visit.page.getByRole("button", { name: "Fetch and load it" }).waitFor();
  assert.match(await visit.page.locator(".notice").innerText(), /fetch x\.gguf from evil\.example/);
  assert.deepEqual(visit.foreign, []);
});

test("W08: until the page starts a sentence stands in its place", async () => {
  const visit = await Visit.open(on, "", (to) => to.route(/assets\/index.*\.js/, (route) => route.abort()));
  await visit.page.getByText("the page was opened as a file").waitFor();
});

test("A6: two tabs in random interleavings lose no turn and no setting", async () => {
  const context = await on.browser.newContext();
  const tabs = [await blank(context, "store", "settings"), await blank(context, "store", "settings")];
  let seed = 11;
  const random = (below) => {
    seed = (Math.imul(seed, 1_103_515_245) + 12_345) >>> 0;
    return Math.floor((seed / 2 ** 32) * below);
  };
  const base = conversationOf("one", "first");
  const mine = [base, base];
  const wanted = new Set(["0", "1"]);
  const settings = {};
  for (let round = 0; round < 60; round += 1) {
    const at = random(2);
    if (random(3) > 0) {
      const id = `${at}-${round}`;
      wanted.add(id);
      // Each tab knows only what it wrote itself.
      const entry = { id, parent: mine[at].leaf, role: "assistant", content: id, ending: "stop" };
      mine[at] = { ...mine[at], entries: [...mine[at].entries, entry], leaf: id };
      await tabs[at].evaluate((whole) => app.store.keepConversation(whole, ["leaf"]), mine[at]);
    } else {
      const name = ["temperature", "topP", "topK", "maxTokens", "minP"][random(5)];
      settings[name] = round + 1;
      await tabs[at].evaluate((change) => app.settings.changeSettings(change), { [name]: round + 1 });
      // The other tab reads what this one wrote once the browser has told it.
      const isRead = ([key, value]) => app.settings.readSettings()[key] === value;
      await tabs[1 - at].waitForFunction(isRead, [name, round + 1]);
    }
  }
  const kept = await tabs[0].evaluate(() => app.store.readConversation("c"));
  assert.deepEqual(new Set(kept.entries.map(({ id }) => id)), wanted);
  const read = await tabs[1].evaluate(() => app.settings.readSettings());
  for (const [name, value] of Object.entries(settings)) assert.equal(read[name], value, name);
  // Where one tab keeps nothing any more, the other writes nothing either.
  await tabs[0].evaluate(() => app.settings.changeSettings({ keeps: false }));
  await tabs[1].waitForFunction(() => !app.settings.readSettings().keeps);
  await tabs[0].evaluate(() => app.store.removeAllConversations());
  assert.equal(await tabs[1].evaluate((whole) => app.store.keepConversation(whole, []), mine[1]), null);
  assert.deepEqual(await tabs[0].evaluate(() => app.store.readConversations()), []);
  await context.close();
});
