// The door for pages of the same origin: one channel that all of them hear, so exactly one tab must answer. A
// lock says which: the tab that loaded a model last, as that model is the one that the engine holds; when it
// is closed, the next one in the line.

import { BRIDGE_CHANNEL, BridgeError } from "./client.js";
import { Source, type BridgeCore } from "./core.js";

const LOCK = "fanlight-bridge";

export class ChannelDoor {
  private channel: BroadcastChannel | null = null;
  private waiting = new AbortController();
  private readonly closing = new AbortController();
  private isSteal = false;
  private source: Source | null = null;

  constructor(
    private readonly core: BridgeCore,
    private readonly locks: Pick<LockManager, "request">,
    /** Hears whether this tab answers. */
    private readonly changed: () => void,
  ) {
    void this.stand();
  }

  /** Whether this tab answers. */
  get isOpen(): boolean {
    return this.channel !== null;
  }

  /** Takes the channel over: a model was loaded here. */
  take(): void {
    if (this.isOpen || this.closing.signal.aborted) return;
    this.isSteal = true;
    this.waiting.abort();
  }

  close(): void {
    this.closing.abort();
    this.waiting.abort();
    this.shut();
  }

  /** Stands in the line, or steals, for as long as this tab lives. */
  private async stand(): Promise<void> {
    while (!this.closing.signal.aborted) {
      this.waiting = new AbortController();
      const how: LockOptions = this.isSteal ? { steal: true } : { signal: this.waiting.signal };
      this.isSteal = false;
      try {
        await this.locks.request(LOCK, how, () => this.hold());
      } catch (error) {
        // Aborted when it was stolen by another tab, or when the line was left to steal. Anything else says
        // that this page may have neither lock nor channel, as in a sandbox: then only windows are served.
        if ((error as DOMException).name !== "AbortError") return this.shut();
      }
      this.shut();
    }
  }

  private hold(): Promise<void> {
    const { signal } = this.closing;
    return new Promise((closed) => {
      if (signal.aborted) return closed();
      this.isSteal = false;
      signal.addEventListener("abort", () => closed(), { once: true });
      const channel = new BroadcastChannel(BRIDGE_CHANNEL);
      const source = new Source((event) => channel.postMessage(event));
      channel.onmessage = ({ data }: MessageEvent<unknown>) => this.core.receive(source, data);
      this.channel = channel;
      this.source = source;
      this.changed();
    });
  }

  private shut(): void {
    const { channel, source } = this;
    if (!channel) return;
    const moved = new BridgeError("moved", "another tab of Fanlight answers by now: ask again");
    this.core.sendAway((other) => other === source, moved);
    channel.close();
    this.channel = null;
    this.source = null;
    this.changed();
  }
}
