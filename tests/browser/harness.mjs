// Starts headless Chromium on the software adapter and a server of the built page, and drives the page as a
// visitor would: real file input, real keys, what is to be read on the screen.

import { createRequire } from "node:module";
import path from "node:path";
import { fileURLToPath } from "node:url";

import { flawedServer } from "./flaws.mjs";

const HERE = path.dirname(fileURLToPath(import.meta.url));
export const ROOT = path.resolve(HERE, "../..");
export const DIST = path.join(ROOT, "host-web/dist");
export const SDK = path.join(ROOT, "host-web/sdk/dist");

const require = createRequire(path.join(ROOT, "host-web/package.json"));
const { chromium } = require("playwright-core");

/** Pipelines are compiled for a processor here, and two cores do everything. */
export const PATIENCE_MS = 300_000;

const FLAGS = [
  "--headless=new", "--no-sandbox", "--disable-gpu-sandbox", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync",
  "--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader",
];

/** A browser; one that does not start is a failure, never a skipped test. */
export function launch() {
  return chromium.launch({
    executablePath: process.env.FANLIGHT_BROWSER ?? "/usr/bin/chromium",
    args: FLAGS,
  });
}

/** A browser and a server of the page and of `models`, to be closed after the tests. */
export async function stage(models) {
  const pages = path.join(HERE, "pages");
  const server = await flawedServer({ "/": DIST, "/sdk/": SDK, "/pages/": pages, "/models/": models });
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
      if (!url.startsWith(origin) && !url.startsWith("data:")) this.foreign.push(url);
    });
  }

  static async open(on, query = "", prepare = async () => {}) {
    const page = await on.browser.newPage();
    const visit = new Visit(page, on.origin);
    await prepare(page);
    await page.goto(`${on.origin}/${query}`);
    return visit;
  }

  /** Chooses files in the page's own input and waits for the outcome. */
  async pick(...paths) {
    await this.page.locator("#files:enabled").waitFor();
    await this.page.locator("#files").setInputFiles(paths);
    return await this.outcome();
  }

  /** Waits until a load has ended: what the card or the alert says. */
  async outcome() {
    await this.page.locator("#card:visible, #alert:visible").first().waitFor();
    await this.page.locator("#files:enabled").waitFor();
    if (await this.page.locator("#alert").isVisible()) return { alert: await this.alert() };
    return { card: await this.page.locator("#card").innerText() };
  }

  /** The alert's text; waits for it. */
  async alert() {
    await this.page.locator("#alert").waitFor();
    return await this.page.locator("#alert").innerText();
  }

  async setting(name, value) {
    await this.page.locator("#settings").evaluate((settings) => { settings.open = true; });
    const input = this.page.locator(`#${name}`);
    if (typeof value === "boolean") await input.setChecked(value);
    else await input.fill(String(value));
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
    const ids = (await last.getAttribute("data-token-ids")) ?? "";
    return {
      text: await last.locator(".text").evaluate((element) => element.textContent),
      ids: ids === "" ? [] : ids.split(" ").map(Number),
      note: await last.locator(".note").innerText(),
    };
  }

  async ask(text) {
    const before = await this.page.locator(".answer").count();
    await this.send(text);
    await this.page.locator(".answer").nth(before).waitFor();
    return await this.answer();
  }
}
