// The browser's own developer tools, opened for one page and driven over the debugging protocol: playwright
// does not show them.

import { setTimeout as pause } from "node:timers/promises";

import { PATIENCE_MS } from "./harness.mjs";

/** Between two looks at what the browser has opened. */
const LOOK_MS = 100;
/** A page that is just being replaced may leave a question without an answer: then it is asked again. */
const ANSWER_MS = 10_000;

/** What `look` finds, as soon as it finds something. */
async function sought(what, look) {
  const since = performance.now();
  for (;;) {
    const found = await look();
    if (found) return found;
    if (performance.now() - since > PATIENCE_MS) throw new Error(`${what} has not come in ${PATIENCE_MS} ms`);
    await pause(LOOK_MS);
  }
}

/** A target of the browser that playwright has no page for. */
class Target {
  static async attach(session, targetId) {
    // Not flat, as playwright would not hand on the messages of a session that it does not know.
    const { sessionId } = await session.send("Target.attachToTarget", { targetId, flatten: false });
    return new Target(session, sessionId);
  }

  lastId = 0;
  waiting = new Map();

  constructor(session, sessionId) {
    this.session = session;
    this.sessionId = sessionId;
    session.on("Target.receivedMessageFromTarget", ({ sessionId: from, message }) => {
      const answer = JSON.parse(message);
      if (from !== sessionId || !this.waiting.has(answer.id)) return;
      this.waiting.get(answer.id)(answer);
      this.waiting.delete(answer.id);
    });
  }

  /** Sends a command and returns its result. */
  async send(method, params = {}) {
    const id = ++this.lastId;
    const answer = new Promise((answered) => this.waiting.set(id, answered));
    const message = JSON.stringify({ id, method, params });
    await this.session.send("Target.sendMessageToTarget", { sessionId: this.sessionId, message });
    const { result, error } = await answer;
    if (error) throw new Error(`${method}: ${error.message}`);
    return result;
  }

  /** Runs a function there, waits for it, and returns its value. */
  async run(work, argument) {
    const expression = typeof work === "string" ? work : `(${work})(${JSON.stringify(argument)})`;
    const params = { expression, awaitPromise: true, returnByValue: true };
    const { result, exceptionDetails } = await this.send("Runtime.evaluate", params);
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value;
  }

  /** Waits until a function is true there. */
  async until(work, argument) {
    const look = () => Promise.race([this.run(work, argument), pause(ANSWER_MS, undefined, { ref: false })]);
    await sought(`what was waited for (${work})`, look);
  }
}

export class DevTools {
  /** Opens the developer tools for a page of a persistent context. */
  static async open(context, page) {
    const session = await context.browser().newBrowserCDPSession();
    const tools = new DevTools(session);
    const isPage = ({ type, url }) => type === "page" && url === page.url();
    const { targetId } = (await tools.targets()).find(isPage);
    await session.send("Target.openDevTools", { targetId });
    tools.front = await tools.attach(({ type, url }) => type === "page" && url.startsWith("devtools://"));
    return tools;
  }

  constructor(session) {
    this.session = session;
  }

  async targets() {
    return (await this.session.send("Target.getTargets", { filter: [{}] })).targetInfos;
  }

  /** Attaches to the first target that is like this, as soon as there is one. */
  async attach(isMeant) {
    const look = async () => (await this.targets()).find(isMeant);
    const { targetId } = await sought(`a target that is meant (${isMeant})`, look);
    return await Target.attach(this.session, targetId);
  }

  /** Turns to a panel: one of the browser's by its name, or one of an extension by its title. */
  async show(name) {
    await this.front.until(async (wanted) => {
      const ui = await import("./ui/legacy/legacy.js");
      const tabs = ui.InspectorView?.InspectorView.instance().tabbedPane.tabIds() ?? [];
      const isOurs = (tab) => tab.startsWith("chrome-extension:") && tab.endsWith(wanted);
      const id = tabs.find((tab) => tab === wanted || isOurs(tab));
      if (id) await ui.ViewManager.ViewManager.instance().showView(id);
      return id !== undefined;
    }, name);
  }

  /** The page of an extension's panel. */
  panel(file) {
    return this.attach(({ url }) => url.startsWith("chrome-extension://") && url.endsWith(file));
  }
}
