// The door for other origins: the page that frames this one, and the page that opened it. Both what was sent
// by whom and where an answer goes are checked by the browser's own word, never by what a message says.

import { BridgeError } from "./client.js";
import { Source, type BridgeCore } from "./core.js";
import type { FromBridge } from "./protocol.js";
import { readMessage } from "./wire.js";

/** What is used of a window; the page's own. */
export interface HostWindow {
  readonly parent: unknown;
  readonly opener: unknown;
  addEventListener(type: "message", listener: (event: MessageEvent) => void): void;
  removeEventListener(type: "message", listener: (event: MessageEvent) => void): void;
}

/** A window that has sent something, with the origin that it had then. */
interface Known {
  window: Window;
  origin: string;
  source: Source;
}

export class WindowDoor {
  /** The framing page and the opener: two at most. */
  private known: Known[] = [];

  constructor(
    private readonly core: BridgeCore,
    private origins: ReadonlySet<string>,
    private readonly host: HostWindow,
  ) {
    host.addEventListener("message", this.listen);
  }

  setOrigins(origins: ReadonlySet<string>): void {
    this.origins = origins;
    const isOut = (source: Source) =>
      this.known.some((known) => known.source === source && !origins.has(known.origin));
    this.core.sendAway(isOut, notAllowed("this page"));
  }

  close(): void {
    this.host.removeEventListener("message", this.listen);
  }

  private readonly listen = (event: MessageEvent<unknown>): void => {
    const { data, origin, source: from } = event;
    const { parent, opener } = this.host;
    if (from === null || from === this.host || (from !== parent && from !== opener)) return;
    const message = readMessage(data);
    if (message === null || origin === "null") return;
    const { source } = this.knownAs(from as Window, origin);
    if (this.origins.has(origin)) this.core.receive(source, data);
    else {
      const seq = "seq" in message ? message.seq : null;
      this.core.refuse(source, message.client, seq, notAllowed(origin));
    }
  };

  /** The source of a window; another one when the window shows another origin by now. */
  private knownAs(window: Window, origin: string): Known {
    const before = this.known.find((known) => known.window === window);
    if (before?.origin === origin) return before;
    if (before) {
      this.known = this.known.filter((known) => known !== before);
      const left = new BridgeError("closed", "the page that asked has gone to another origin");
      this.core.sendAway((source) => source === before.source, left);
    }
    // The browser drops an answer when the window shows another origin than this.
    const source = new Source((event: FromBridge) => window.postMessage(event, origin));
    const known = { window, origin, source };
    this.known.push(known);
    return known;
  }
}

function notAllowed(origin: string): BridgeError {
  const message = `${origin} is not in the list of origins of Fanlight's page: add it there`;
  return new BridgeError("origin-not-allowed", message);
}
