// Starts headless Chromium on the software adapter and a server of the built page and SDK, and drives both.
//
// A model's first load in a page takes a quarter of a minute here: pipelines are compiled for a processor.
// Later loads on the same device take a moment, so tests share a page where their subject allows.

import { createRequire } from "node:module";
import path from "node:path";
import { fileURLToPath } from "node:url";

import { flawedServer } from "./flaws.mjs";

const HERE = path.dirname(fileURLToPath(import.meta.url));
export const ROOT = path.resolve(HERE, "../..");
export const DIST = path.join(ROOT, "host-web/dist");
export const SDK = path.join(ROOT, "host-web/sdk/dist");
export const DEVTOOLS = path.join(ROOT, "host-web/devtools/dist");

const require = createRequire(path.join(ROOT, "host-web/package.json"));
const { chromium } = require("playwright-core");

/** Pipelines are compiled for a processor here, and two cores do everything. */
export const PATIENCE_MS = 300_000;

/**
 * Tokens of a reply that cannot end while its reader holds still. The engine fills the places of a reply's
 * events (about twenty), those that the worker may leave unacknowledged, and the windows in flight, with at
 * most four tokens each without drafts.
 */
export const LONG_TOKENS = 200;

const PLAIN = [
  "--headless=new",
  "--no-sandbox",
  "--disable-gpu-sandbox",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];
/** Flags that make a processor compute. */
const SOFTWARE = "--enable-unsafe-webgpu --use-webgpu-adapter=swiftshader";

/** What a browser is started with; by default the one of these tests, on the processor. */
function startedWith({ chromium: program, flags } = {}) {
  const chosen = flags ?? process.env.FANLIGHT_BROWSER_FLAGS ?? SOFTWARE;
  return {
    executablePath: program ?? process.env.FANLIGHT_BROWSER ?? "/usr/bin/chromium",
    args: [...PLAIN, ...chosen.split(/\s+/).filter(Boolean)],
  };
}

/** A browser; one that does not start is a failure, never a skipped test. */
export function launch() {
  return chromium.launch(startedWith());
}

/** A browser with a folder of its own for what it keeps, as a visitor has one. */
export function launchLasting(folder, how) {
  return chromium.launchPersistentContext(folder, startedWith(how));
}

/** The browser's own context with an extension in it, which other contexts would not have. */
export function launchWithExtension(extension) {
  const { executablePath, args } = startedWith();
  return chromium.launchPersistentContext("", {
    executablePath,
    args: [...args, `--disable-extensions-except=${extension}`, `--load-extension=${extension}`],
    ignoreDefaultArgs: ["--disable-extensions", "--headless"],
  });
}

/** A server of the page, the SDK and `models` that sends `headers` with everything. */
export function serve(models, headers = {}, root = DIST) {
  const pages = path.join(HERE, "pages");
  const folders = { "/": root, "/sdk/": SDK, "/devtools/": DEVTOOLS, "/pages/": pages, "/files/": models };
  folders["/models/"] = models;
  return flawedServer(folders, headers);
}

/** A browser and a server of the page and of `models`, to be closed after the tests. */
export async function stage(models) {
  const server = await serve(models);
  const browser = await launch();
  const { port } = server.address();
  return {
    browser,
    server,
    origin: `http://127.0.0.1:${port}`,
    close: async () => {
      await browser.close();
      await new Promise((closed) => {
        server.close(closed);
        server.closeAllConnections();
      });
    },
  };
}

/** Puts text before the worker's script of a page or context. */
export function beforeWorker(page, text) {
  return page.route(/\/(sdk|assets)\/worker[^/]*\.js$/, async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, body: text + (await response.text()) });
  });
}

/** An open page, and what went wrong in it or left it. */
export class Visit {
  constructor(page, origin) {
    this.page = page;
    this.origin = origin;
    this.errors = [];
    this.foreign = [];
    page.setDefaultTimeout(PATIENCE_MS);
    page.on("pageerror", (error) => this.errors.push(error.message));
    page.on("request", (request) => {
      const url = request.url();
      if (!url.startsWith(origin) && !/^(data|blob):/.test(url)) this.foreign.push(url);
    });
  }

  static async open(on, address = "", prepare = async () => {}, context = on.browser) {
    const page = await context.newPage();
    const visit = new this(page, on.origin);
    await prepare(page);
    await page.goto(`${on.origin}/${address}`);
    return visit;
  }
}

/** A page with nothing but the SDK: `sdk` is the package, `engine` an engine. */
export class SdkVisit extends Visit {
  /** How models are loaded. Without batches of many tokens half of the time for compiling is spared. */
  how = { contextLength: 512, batchSize: 1 };

  static async open(on, { create = {}, prepare, context, address = "pages/blank.html" } = {}) {
    const visit = await super.open(on, address, prepare, context ?? on.browser);
    await visit.begin(create);
    return visit;
  }

  /** Takes the SDK into the page and creates an engine. */
  async begin(create = {}) {
    await this.run(async (options) => {
      globalThis.sdk = await import("/sdk/index.js");
      globalThis.engine = await sdk.Fanlight.create(options);
      /** What a promise comes to: its value, or code and text of its failure. */
      globalThis.outcome = async (promise) => {
        try {
          return { value: await promise };
        } catch (error) {
          const code = typeof error.code === "string" ? error.code : error.name;
          return { code, message: error.message };
        }
      };
      globalThis.events = async (generation) => {
        const all = [];
        for await (const event of generation) all.push(event);
        return all;
      };
    }, create);
  }

  /** Runs a function in the page. */
  run(work, argument) {
    return this.page.evaluate(work, argument);
  }

  /** Puts files of this computer into the page: `picked` are then File objects. */
  async pick(...paths) {
    await this.run(() => {
      document.body.innerHTML = '<input type="file" multiple>';
    });
    await this.page.locator("input").setInputFiles(paths);
    await this.run(() => {
      globalThis.picked = [...document.querySelector("input").files];
    });
  }

  /**
   * Begins a reply of `LONG_TOKENS` or more and reads to its first token. Nothing is read until `readOn`, so
   * whatever is done before happens in the middle of the reply, on a machine of any speed.
   */
  hold(prompt, options = {}) {
    return this.run(
      async ([text, how]) => {
        globalThis.seen = [];
        globalThis.reader = engine.generate({ prompt: text, parseSpecial: true }, how).getReader();
        while (seen.at(-1)?.type !== "token") seen.push((await reader.read()).value);
      },
      [prompt, { maxTokens: LONG_TOKENS, ...options }],
    );
  }

  /** Reads the reply that was held to its end: ids, codes of warnings, type of the last event, failure. */
  readOn() {
    return this.run(async () => {
      const failure = await outcome(
        (async () => {
          for (let read = await reader.read(); !read.done; read = await reader.read()) seen.push(read.value);
        })(),
      );
      return {
        ...failure,
        ids: seen.filter(({ type }) => type === "token").flatMap(({ ids }) => ids),
        warned: seen.filter(({ type }) => type === "warning").map(({ warning }) => warning.code),
        last: seen.at(-1).type,
      };
    });
  }

  /** Loads an address; the outcome. */
  load(url, options = {}) {
    return this.run(
      ([from, how]) => outcome(engine.load(from, how)),
      [url, { ...this.how, ...options }],
    );
  }

  /** Replies to a plain prompt: ids, text, and the last event. */
  reply(prompt, options = {}) {
    return this.run(
      async ([text, how]) => {
        const all = await events(engine.generate({ prompt: text, parseSpecial: true }, how));
        const of = (type) => all.filter((event) => event.type === type);
        return {
          ids: of("token").flatMap(({ ids }) => ids),
          text: of("text")
            .map(({ delta }) => delta)
            .join(""),
          last: all.at(-1),
          seqs: all.map(({ seq }) => seq),
        };
      },
      [prompt, options],
    );
  }
}

/** The chat page, driven as a visitor would: real file input, real keys, what is to be read on the screen. */
export class ChatVisit extends Visit {
  /** Opens a model file and loads it. */
  async load(...paths) {
    await this.page.locator("#files:enabled").setInputFiles(paths);
    await this.page.locator("#load:enabled").click();
    await this.page.locator("#question").waitFor();
  }

  async setting(name, value) {
    await this.page.locator("#settings-button").click();
    const input = this.page.locator(`#${name}`);
    if (typeof value === "boolean") await input.setChecked(value);
    else {
      await input.fill(String(value));
      await input.blur();
    }
    await this.page.locator(".panel-head button").click();
  }

  /** Types a question and sends it. */
  async send(text) {
    await this.page.locator("#question").fill(text);
    await this.page.locator("#send:enabled").waitFor();
    await this.page.locator("#question").press("Enter");
  }

  /** Waits for the end of the last answer. */
  async answer() {
    const last = this.page.locator(".answer").last();
    await last.and(this.page.locator("[aria-busy=false]")).waitFor();
    return { text: await last.locator(".text").innerText(), note: await last.innerText() };
  }

  async ask(text) {
    const before = await this.page.locator(".answer").count();
    await this.send(text);
    await this.page.locator(".answer").nth(before).waitFor();
    return await this.answer();
  }
}
