// The page: puts the views up, opens the GPU and reads what was kept.

import { render } from "preact";

import * as bridge from "./bridge.js";
import * as actions from "./engine.js";
import { shownName } from "./format.js";
import { follow } from "./keeping.js";
import * as state from "./state.js";
import type { NamedSource } from "./state.js";
import { readConversations } from "./store.js";
import { App } from "./views/app.js";

async function begin(): Promise<void> {
  const parameters = new URLSearchParams(location.search);
  const context = Number(parameters.get("context"));
  if (Number.isInteger(context) && context > 0) state.set({ contextLength: context });
  if (location.hash === "#check") state.panel.value = "check";
  follow();
  if (state.settings.value.keeps) state.conversations.value = await readConversations();
  bridge.serve();
  await actions.start();
  const url = parameters.get("model");
  if (url === null || !state.adapter.value) return;
  if (!URL.canParse(url, location.href)) return actions.showFailure(new Error(`${url} is no address of a model`));
  const address = new URL(url, location.href);
  const from = actions.stored(address.href);
  if (address.origin !== location.origin) return askFor(from, address.host);
  if (!actions.wasKilled()) return await actions.load(from);
  const text =
    "The browser may have run out of memory while it loaded: try a smaller model or a shorter context.";
  const retry = { label: `Load ${from.name} again`, run: () => void actions.load(from) };
  state.notice.value = { kind: "error", title: "The last load did not end", text, actions: [retry] };
}

/** A link of any site can name an address: nothing is fetched from elsewhere before the visitor has agreed. */
function askFor(from: NamedSource, host: string): void {
  const text = `The link that opened this page asks it to fetch ${shownName(from.name)} from ${host}.`;
  const action = { label: "Fetch and load it", run: () => void actions.load(from) };
  state.notice.value = { kind: "note", title: "Load this model?", text, actions: [action] };
}

const place = document.getElementById("app");
if (!place) throw new Error("the page has no #app");
// What stands there until the page has started.
place.replaceChildren();
render(<App />, place);
void begin();

if ("serviceWorker" in navigator && import.meta.env.PROD) {
  // A browser that refuses it has no page without a network; nothing else depends on it.
  navigator.serviceWorker
    .register("./sw.js")
    .catch((error: unknown) => console.warn("not kept for offline use:", error));
}
