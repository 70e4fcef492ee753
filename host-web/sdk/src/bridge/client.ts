// The other page's end of the developer bridge. This file imports nothing when it runs, so that it can be
// served or pasted alone; what both ends must agree on stands here and nowhere else.
//
// The key is never sent. Every request carries a proof, an HMAC-SHA-256 under the key of the client's name,
// the session that the bridge has opened for it, a number that counts its requests, and the request's text.

import type {
  ChatCompletion,
  ChatCompletionChunk,
  ChatCompletionRequest,
  ChatCompletionStream,
} from "../openai.js";
import type { BridgeRequest, BridgeState, FromBridge, ToBridge, ToldError } from "./protocol.js";

/** Tags every message; ends with different numbers do not hear each other. */
export const BRIDGE_VERSION = 1;
/** The channel of one origin. */
export const BRIDGE_CHANNEL = "fanlight-bridge-1";
/** Chunks of a reply that may be on their way; the reply waits until the client has taken some. */
export const CHUNKS_UNTAKEN_MAX = 16;

/** A greeting is repeated: the page of the engine may still be opening. */
const HELLO_EVERY_MS = 500;
/** Long enough for a page that is opening: its GPU takes seconds on a slow machine. */
const CONNECT_TIMEOUT_MS = 30_000;
/** Between two looks at whether a model has been loaded. */
const MODEL_EVERY_MS = 500;
/** After so long without a word about what was asked, the bridge is asked whether it is still there. */
const SILENT_MS = 10_000;
/** An answer to that comes at once, or the page is gone. */
const ALIVE_TIMEOUT_MS = 10_000;

/** Codes of the bridge itself; the engine's own, such as `prompt-too-long`, come through as they are. */
export type BridgeErrorCode =
  | "not-enabled"
  | "origin-not-allowed"
  | "wrong-key"
  | "key-rotated"
  | "replayed"
  | "malformed"
  | "too-large"
  | "too-many-requests"
  | "too-many-peers"
  | "no-session"
  | "moved"
  | "client-gone"
  | "no-answer"
  | "closed"
  | "cancelled"
  | "no-model"
  | "busy";

/** A failure, told by the bridge or found here. */
export class BridgeError extends Error {
  constructor(
    /** What went wrong; docs/embedding.md says what to do about each. */
    readonly code: BridgeErrorCode | (string & {}),
    /** What was wanted, what was there and what to do. */
    message: string,
    /** With `too-many-requests`, when the next one is taken. */
    readonly retryAfterMs?: number,
  ) {
    super(message);
    this.name = "BridgeError";
  }
}

/** The proof of a request, base64url without padding: 43 characters. */
export async function proofOf(
  key: string,
  of: { client: string; session: string; seq: number; body: string },
): Promise<string> {
  if (!globalThis.crypto?.subtle) {
    throw new BridgeError("closed", "this page was not opened over https or from this computer: open it so");
  }
  const encoder = new TextEncoder();
  const how = { name: "HMAC", hash: "SHA-256" };
  const signer = await crypto.subtle.importKey("raw", encoder.encode(key), how, false, ["sign"]);
  const text = [BRIDGE_CHANNEL, of.client, of.session, of.seq, of.body].join("\n");
  const bytes = new Uint8Array(await crypto.subtle.sign("HMAC", signer, encoder.encode(text)));
  return btoa(String.fromCharCode(...bytes))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replace("=", "");
}

export interface ConnectOptions {
  /** What the settings of the engine's page show: `fl_sk_…`. It stays in this page. */
  key: string;
  /**
   * The window of the engine's page: `frame.contentWindow`, or what `window.open` returned. Without it, a tab
   * of this page's own origin answers.
   */
  window?: Window | null;
  /** With `window`, the exact origin of the engine's page. Nothing is sent to any other. */
  origin?: string;
  /** How long to wait for the first answer, in milliseconds; 30,000. */
  timeoutMs?: number;
}

interface Link {
  post(message: ToBridge): void;
  close(): void;
}

function openLink({ window: target, origin }: ConnectOptions, heard: (data: unknown) => void): Link {
  if (target === undefined || target === null) {
    if (origin !== undefined) {
      const message = "an origin was given without a window: give the frame's contentWindow, or neither";
      throw new BridgeError("malformed", message);
    }
    const channel = new BroadcastChannel(BRIDGE_CHANNEL);
    channel.onmessage = ({ data }: MessageEvent<unknown>) => heard(data);
    return { post: (message) => channel.postMessage(message), close: () => channel.close() };
  }
  // Never "*": what is posted is read by that origin or by nobody.
  const exact = URL.canParse(origin ?? "") ? new URL(origin ?? "").origin : "null";
  if (exact === "null") {
    const message = `origin ${String(origin)} was given: with a window, give the engine page's exact origin`;
    throw new BridgeError("malformed", message);
  }
  const listen = ({ source, origin: from, data }: MessageEvent<unknown>) => {
    if (source === target && from === exact) heard(data);
  };
  addEventListener("message", listen);
  return {
    post: (message) => target.postMessage(message, exact),
    close: () => removeEventListener("message", listen),
  };
}

/** How what was asked ends, and what comes before. */
interface About {
  chunk: TakeChunk;
  done(result: unknown): void;
  failed(error: Error): void;
}

/** Something that was asked and is not over. */
interface Waiting {
  session: string;
  chunk(chunk: ChatCompletionChunk): void;
  done(result: unknown): void;
  failed(error: Error): void;
}

/** Gets a chunk, and the way to tell how many were taken. */
type TakeChunk = (chunk: ChatCompletionChunk, take: (count: number) => void) => void;
/** Hears the number that a request was sent with. */
type Begun = (seq: number, session: string) => void;

/** How something is asked. */
export interface How {
  signal?: AbortSignal;
}

function closed(): BridgeError {
  return new BridgeError("closed", "this end of the bridge was closed: connect again");
}

/** Connects to a page of Fanlight; fails with a BridgeError that says why. */
export async function connectBridge(options: ConnectOptions): Promise<BridgeClient> {
  const client = new BridgeClient(options);
  try {
    await client.ping();
    return client;
  } catch (error) {
    client.close();
    throw error;
  }
}

export class BridgeClient {
  /** OpenAI's interface. */
  readonly chat = {
    completions: {
      create: this.create.bind(this) as {
        (request: ChatCompletionRequest & { stream: true }, how?: How): Promise<ChatCompletionStream>;
        (request: ChatCompletionRequest & { stream?: false | null }, how?: How): Promise<ChatCompletion>;
        (request: ChatCompletionRequest, how?: How): Promise<ChatCompletion | ChatCompletionStream>;
      },
    },
  };
  private readonly client = crypto.randomUUID();
  private readonly key: string;
  private readonly timeoutMs: number;
  private readonly link: Link;
  private session: string | null = null;
  private greeting: Promise<string> | null = null;
  private greeted: { ready(session: string): void; failed(error: Error): void } | null = null;
  private lastSeq = 0;
  /** Requests leave one after the other, as their numbers must grow. */
  private posting: Promise<unknown> = Promise.resolve();
  private readonly waiting = new Map<number, Waiting>();
  private heardMs = 0;
  private watch: ReturnType<typeof setInterval> | null = null;
  private isClosed = false;

  constructor(options: ConnectOptions) {
    this.key = options.key;
    this.timeoutMs = options.timeoutMs ?? CONNECT_TIMEOUT_MS;
    this.link = openLink(options, (data) => this.hear(data));
    // A page that is left says so: what it asked for would hold up others.
    globalThis.addEventListener?.("pagehide", this.leave);
  }

  /** Whether the bridge answers and this key is the right one, and which model is loaded. */
  async ping(how: How = {}): Promise<BridgeState> {
    return (await this.call({ method: "ping" }, () => {}, how.signal)) as BridgeState;
  }

  /** Resolves when a model is loaded. */
  async ready(how: How = {}): Promise<BridgeState> {
    for (;;) {
      const state = await this.ping(how);
      if (state.model) return state;
      await new Promise((waited) => setTimeout(waited, MODEL_EVERY_MS));
    }
  }

  /** Ends the connection; what was asked is stopped. */
  close(): void {
    if (this.isClosed) return;
    globalThis.removeEventListener?.("pagehide", this.leave);
    for (const [seq, { session }] of this.waiting) this.cancel(seq, session);
    this.isClosed = true;
    for (const [seq, { failed }] of [...this.waiting]) {
      this.over(seq);
      failed(closed());
    }
    this.greeted?.failed(closed());
    // After the cancels, which are on their way out.
    void this.posting.then(() => this.link.close());
  }

  private readonly leave = (): void => {
    const { session } = this;
    if (session !== null && !this.isClosed) this.link.post(this.tagged({ type: "bye", session }));
  };

  private async create(
    request: ChatCompletionRequest,
    { signal }: How = {},
  ): Promise<ChatCompletion | ChatCompletionStream> {
    const body = { method: "chat.completions", request } as const;
    if (request.stream !== true) return (await this.call(body, () => {}, signal)) as ChatCompletion;
    const controller = new AbortController();
    const inbox = new Inbox();
    const both = signal ? AbortSignal.any([signal, controller.signal]) : controller.signal;
    let take: (count: number) => void = () => {};
    this.call(
      body,
      (chunk, taken) => {
        take = taken;
        inbox.push(chunk);
      },
      both,
    ).then(
      () => inbox.end(null),
      (error: unknown) => inbox.end(error),
    );
    await inbox.begun();
    const chunks = inbox.chunks((count) => take(count), controller);
    return { controller, [Symbol.asyncIterator]: () => chunks };
  }

  /** Asks; a session that the bridge has forgotten is opened again, once. */
  private async call(body: BridgeRequest, chunk: TakeChunk, signal?: AbortSignal): Promise<unknown> {
    if (this.isClosed) throw closed();
    try {
      return await this.callOnce(body, chunk, signal);
    } catch (error) {
      // Refused before anything of it was done: another tab answers by now, or the bridge was restarted.
      if (!(error instanceof BridgeError) || error.code !== "no-session") throw error;
      return await this.callOnce(body, chunk, signal);
    }
  }

  private async callOnce(body: BridgeRequest, chunk: TakeChunk, signal?: AbortSignal): Promise<unknown> {
    signal?.throwIfAborted();
    let aborted = () => {};
    try {
      return await new Promise((done, failed) => {
        let cancel = () => {};
        aborted = () => {
          failed(signal?.reason);
          cancel();
        };
        signal?.addEventListener("abort", aborted);
        const begun = (seq: number, session: string) => {
          cancel = () => {
            if (!this.waiting.has(seq)) return;
            this.over(seq);
            this.cancel(seq, session);
          };
          if (signal?.aborted) cancel();
        };
        this.post(body, { done, failed, chunk }, begun).catch(failed);
      });
    } finally {
      signal?.removeEventListener("abort", aborted);
    }
  }

  /** Sends a request after those before it; without `about` nobody waits for its answer. */
  private post(body: BridgeRequest, about: About | null, begun: Begun = () => {}): Promise<void> {
    const mine = this.posting.then(async () => {
      const session = await this.connected();
      const { client } = this;
      const seq = ++this.lastSeq;
      const text = JSON.stringify(body);
      const proof = await proofOf(this.key, { client, session, seq, body: text });
      if (about) this.expect(seq, session, about);
      this.link.post(this.tagged({ type: "ask", session, seq, body: text, proof }));
      begun(seq, session);
    });
    this.posting = mine.catch(() => {});
    return mine;
  }

  private expect(seq: number, session: string, { done, failed, chunk }: About): void {
    if (this.isClosed) throw closed();
    const take = (count: number) => {
      if (this.waiting.has(seq)) this.link.post(this.tagged({ type: "take", session, seq, count }));
    };
    this.waiting.set(seq, { session, done, failed, chunk: (given) => chunk(given, take) });
    this.heardMs = performance.now();
    this.watch ??= setInterval(() => this.look(), SILENT_MS / 2);
  }

  private tagged<T extends object>(message: T): T & { fanlightBridge: number; client: string } {
    return { fanlightBridge: BRIDGE_VERSION, client: this.client, ...message };
  }

  private cancel(target: number, session: string): void {
    // A session that is over has nothing that runs.
    if (session === this.session) this.post({ method: "cancel", target }, null).catch(() => {});
  }

  private connected(): Promise<string> {
    if (this.session !== null) return Promise.resolve(this.session);
    this.greeting ??= this.greet().finally(() => {
      this.greeting = null;
      this.greeted = null;
    });
    return this.greeting;
  }

  private async greet(): Promise<string> {
    const hello = () => this.link.post(this.tagged({ type: "hello" }));
    let timers: ReturnType<typeof setTimeout>[] = [];
    try {
      return await new Promise((ready, failed) => {
        this.greeted = { ready, failed };
        const nobody = new BridgeError(
          "no-answer",
          `no page of Fanlight answered within ${this.timeoutMs} ms: open it, switch its developer ` +
            "bridge on, and give its exact origin",
        );
        timers = [setInterval(hello, HELLO_EVERY_MS), setTimeout(() => failed(nobody), this.timeoutMs)];
        hello();
      });
    } finally {
      for (const timer of timers) clearTimeout(timer);
    }
  }

  private hear(data: unknown): void {
    const message = data as FromBridge | null;
    if (typeof message !== "object" || message?.fanlightBridge !== BRIDGE_VERSION) return;
    if (message.client !== this.client) return;
    this.heardMs = performance.now();
    if (message.type === "ready") {
      if (!this.greeted) return;
      this.session = message.session;
      this.greeted.ready(message.session);
    } else if (message.type === "error") this.refused(message.seq, message.error);
    else if (message.type === "chunk") this.waiting.get(message.seq)?.chunk(message.chunk);
    else if (message.type === "done") {
      const asked = this.waiting.get(message.seq);
      this.over(message.seq);
      asked?.done(message.result);
    }
  }

  private refused(seq: number | null, { code, message, retryAfterMs }: ToldError): void {
    const error = new BridgeError(code, message, retryAfterMs);
    if (seq === null) {
      // A bridge that is asked too often to greet will greet later.
      if (code !== "too-many-requests") this.greeted?.failed(error);
      return;
    }
    const asked = this.waiting.get(seq);
    if (code === "no-session" && asked?.session === this.session) this.session = null;
    this.over(seq);
    asked?.failed(error);
  }

  private over(seq: number): void {
    this.waiting.delete(seq);
    if (this.waiting.size > 0 || this.watch === null) return;
    clearInterval(this.watch);
    this.watch = null;
  }

  /** Asks a bridge that has been silent whether it is there; if not, nothing that waits will come. */
  private look(): void {
    if (performance.now() - this.heardMs < SILENT_MS) return;
    const before = [...this.waiting.keys()];
    this.callOnce({ method: "ping" }, () => {}, AbortSignal.timeout(ALIVE_TIMEOUT_MS)).catch(
      (failure: unknown) => {
        const code = failure instanceof BridgeError ? failure.code : "no-answer";
        // Any other refusal shows that it is there.
        if (code !== "no-answer" && code !== "no-session") return;
        if (this.isClosed) return;
        const message = "the page that answered is gone, and this request with it: ask again";
        for (const seq of before) {
          const asked = this.waiting.get(seq);
          this.over(seq);
          asked?.failed(new BridgeError("no-answer", message));
        }
        this.session = null;
      },
    );
  }
}

/** Chunks between the bridge, which sends a few at most, and the reader. */
class Inbox {
  private readonly all: ChatCompletionChunk[] = [];
  private wake: () => void = () => {};
  private isOver = false;
  private failure: unknown = null;

  push(chunk: ChatCompletionChunk): void {
    this.all.push(chunk);
    this.wake();
  }

  end(failure: unknown): void {
    this.isOver = true;
    this.failure = failure;
    this.wake();
  }

  /** Resolves when the first chunk is there; fails when the reply never began. */
  async begun(): Promise<void> {
    while (this.all.length === 0 && !this.isOver) await this.change();
    if (this.all.length === 0 && this.failure !== null) throw this.failure;
  }

  /** Leaving the loop stops the reply. */
  async *chunks(
    take: (count: number) => void,
    controller: AbortController,
  ): AsyncGenerator<ChatCompletionChunk, undefined, undefined> {
    try {
      for (let count = 1; ; count += 1) {
        while (this.all.length === 0 && !this.isOver) await this.change();
        const chunk = this.all.shift();
        if (chunk === undefined) break;
        take(count);
        yield chunk;
      }
      if (this.failure !== null) throw this.failure;
      return undefined;
    } finally {
      if (!this.isOver) controller.abort();
    }
  }

  private change(): Promise<void> {
    return new Promise((changed) => {
      this.wake = changed;
    });
  }
}
