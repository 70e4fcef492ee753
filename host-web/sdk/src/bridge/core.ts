// The bridge itself: sessions, proofs, limits and requests. It knows neither channels nor windows: doors hand
// it messages with the source they came from, and it answers to that source alone.

import { FanlightError } from "../errors.js";
import type { ChatCompletion, ChatCompletionRequest, ChatCompletionStream } from "../openai.js";
import { TokenBucket } from "./bucket.js";
import { BRIDGE_VERSION, BridgeError, CHUNKS_UNTAKEN_MAX, proofOf } from "./client.js";
import { base64url, isSame } from "./key.js";
import {
  CLIENT_SILENT_MS,
  PEERS_MAX,
  QUEUED_CHARS_MAX,
  REQUESTS_BURST,
  REQUESTS_IN_FLIGHT_MAX,
  REQUESTS_PER_SECOND,
  TAKE_TIMEOUT_MS,
  WORDS_BURST,
  WORDS_PER_SECOND,
} from "./limits.js";
import type { BridgeState, FromBridge, ToBridge, ToldError } from "./protocol.js";
import { readMessage, readRequest } from "./wire.js";

/** What of the engine the bridge uses. */
export interface BridgeEngine {
  readonly model: { name: string; contextLength: number } | null;
  readonly chat: {
    readonly completions: {
      create(
        request: ChatCompletionRequest,
        options: { signal: AbortSignal; scope: string },
      ): Promise<ChatCompletion | ChatCompletionStream>;
    };
  };
}

/** Where messages come from, and the only place that answers to them go. */
export class Source {
  /** Greetings and refusals that may still be said to it. */
  readonly words: TokenBucket;
  /** Characters of its requests that wait to be looked at. */
  queuedChars = 0;

  constructor(
    readonly post: (event: FromBridge) => void,
    nowMs: () => number = () => performance.now(),
  ) {
    this.words = new TokenBucket(WORDS_BURST, WORDS_PER_SECOND, nowMs);
  }
}

/** A request that is not over. */
interface Running {
  controller: AbortController;
  sent: number;
  taken: number;
  /** Called when chunks were taken, or when it is over. */
  wake: () => void;
  isOver: boolean;
}

/** A client that has said hello. */
interface Peer {
  client: string;
  session: string;
  source: Source;
  /** Whether it has shown that it knows the key. */
  isProven: boolean;
  lastSeq: number;
  lastMs: number;
  rate: TokenBucket;
  running: Map<number, Running>;
  /** Its messages are looked at one after the other, as their numbers grow. */
  turn: Promise<void>;
  /** Why it has been sent away. */
  gone: BridgeError | null;
}

/** Where the bridge stands. */
export interface CoreStatus {
  /** Clients that have shown the key. */
  clients: number;
  running: number;
}

export class BridgeCore {
  /** By session. */
  private readonly peers = new Map<string, Peer>();
  /** Looks after clients while anything runs. */
  private watch: ReturnType<typeof setInterval> | null = null;

  /** `onStatus` hears when the status may have changed. */
  constructor(
    private readonly engine: BridgeEngine,
    private key: string | null,
    private readonly onStatus: () => void = () => {},
    private readonly nowMs: () => number = () => performance.now(),
  ) {}

  get status(): CoreStatus {
    const all = [...this.peers.values()];
    return {
      clients: all.filter(({ isProven }) => isProven).length,
      running: all.reduce((sum, { running }) => sum + running.size, 0),
    };
  }

  /** Another key, or none: the one before stops at once, for what runs too. */
  setKey(key: string | null): void {
    if (key === this.key) return;
    this.key = key;
    const error =
      key === null
        ? notEnabled()
        : new BridgeError("key-rotated", "the key was replaced: ask with the new one");
    this.sendAway(() => true, error);
  }

  /** Ends the sessions of sources, and what they asked. */
  sendAway(isMeant: (source: Source) => boolean, error: BridgeError): void {
    for (const peer of [...this.peers.values()]) if (isMeant(peer.source)) this.end(peer, error);
  }

  /** Takes a message. */
  receive(source: Source, data: unknown): void {
    const message = readMessage(data);
    if (message === null) return;
    if (message.type === "unusable") return this.refuse(source, message.client, message.seq, message.error);
    if (message.type === "hello") return this.greet(source, message.client);
    const peer = this.peers.get(message.session);
    if (!peer || peer.source !== source || peer.client !== message.client) {
      // A take of a reply that has ended needs no answer.
      if (message.type === "ask") this.refuse(source, message.client, message.seq, noSession());
      return;
    }
    if (message.type === "take") return this.taken(peer, message.seq, message.count);
    if (message.type === "bye") return this.end(peer, clientGone("it was closed"));
    const waitMs = peer.rate.take();
    if (waitMs > 0) return this.refuse(source, peer.client, message.seq, tooMany(waitMs));
    const chars = message.body.length;
    if (source.queuedChars > 0 && source.queuedChars + chars > QUEUED_CHARS_MAX) {
      const text = "requests came faster than they can be looked at: wait for an answer";
      return this.refuse(source, peer.client, message.seq, new BridgeError("too-many-requests", text));
    }
    source.queuedChars += chars;
    const admitted = () => this.admit(peer, message);
    peer.turn = peer.turn.then(admitted).finally(() => {
      source.queuedChars -= chars;
    });
  }

  /** Tells a failure, as long as its source has not been told too many. */
  refuse(source: Source, client: string, seq: number | null, error: BridgeError): void {
    if (source.words.take() === 0) this.tell(source, client, seq, error);
  }

  private tell(source: Source, client: string, seq: number | null, error: BridgeError): void {
    const { code, message, retryAfterMs } = error;
    const told: ToldError = retryAfterMs === undefined ? { code, message } : { code, message, retryAfterMs };
    source.post({ fanlightBridge: BRIDGE_VERSION, client, type: "error", seq, error: told });
  }

  private greet(source: Source, client: string): void {
    if (source.words.take() > 0) return;
    if (this.key === null) return this.tell(source, client, null, notEnabled());
    // A client that greets again before the answer has come gets the same one.
    const isAgain = (peer: Peer) => peer.client === client && peer.source === source && !peer.isProven;
    const peer = [...this.peers.values()].find(isAgain) ?? this.admitPeer(source, client);
    if (peer === null) {
      const message = `${PEERS_MAX} clients have requests that run, as many as there can be: try again later`;
      return this.tell(source, client, null, new BridgeError("too-many-peers", message));
    }
    const { session } = peer;
    source.post({ fanlightBridge: BRIDGE_VERSION, client, type: "ready", session });
  }

  /** A session for a client; the one that was idle for longest makes room. Null when all have work. */
  private admitPeer(source: Source, client: string): Peer | null {
    if (this.peers.size >= PEERS_MAX) {
      const idle = [...this.peers.values()].filter(({ running }) => running.size === 0);
      idle.sort((a, b) => Number(a.isProven) - Number(b.isProven) || a.lastMs - b.lastMs);
      if (!idle[0]) return null;
      this.end(idle[0], noSession());
    }
    const session = base64url(crypto.getRandomValues(new Uint8Array(16)));
    const rate = new TokenBucket(REQUESTS_BURST, REQUESTS_PER_SECOND, this.nowMs);
    const peer: Peer = {
      client,
      session,
      source,
      isProven: false,
      lastSeq: 0,
      lastMs: this.nowMs(),
      rate,
      running: new Map(),
      turn: Promise.resolve(),
      gone: null,
    };
    this.peers.set(session, peer);
    return peer;
  }

  /** Checks proof and number of a request and begins it. */
  private async admit(peer: Peer, message: Extract<ToBridge, { type: "ask" }>): Promise<void> {
    const { client, source } = peer;
    const { seq, body, proof, session } = message;
    const fail = (error: BridgeError) => this.tell(source, client, seq, error);
    if (peer.gone) return fail(peer.gone);
    const wanted = this.key === null ? "" : await proofOf(this.key, { client, session, seq, body });
    // The key may have been replaced meanwhile; then the peer was sent away.
    if (peer.gone) return fail(peer.gone);
    if (!isSame(wanted, proof)) {
      const text = "the key is not the one in the settings of Fanlight's page: copy it from there";
      return this.refuse(source, client, seq, new BridgeError("wrong-key", text));
    }
    if (seq <= peer.lastSeq) {
      // Told about no request, as the one with this number may still run.
      const text = `request ${seq} was sent before: every request needs a number of its own`;
      return this.refuse(source, client, null, new BridgeError("replayed", text));
    }
    peer.lastSeq = seq;
    peer.lastMs = this.nowMs();
    peer.isProven = true;
    try {
      this.begin(peer, seq, body);
    } catch (error) {
      fail(told(error));
    }
    this.changed();
  }

  private begin(peer: Peer, seq: number, body: string): void {
    const asked = readRequest(body);
    if (asked.method === "ping") return this.done(peer, seq, this.state());
    if (asked.method === "cancel") {
      const running = peer.running.get(asked.target);
      if (running) this.stop(peer, asked.target, running, cancelled());
      return this.done(peer, seq, { cancelled: running !== undefined });
    }
    if (peer.running.size >= REQUESTS_IN_FLIGHT_MAX) {
      const text = `${REQUESTS_IN_FLIGHT_MAX} requests of this client run, as many as may: wait for one`;
      throw new BridgeError("too-many-requests", text);
    }
    if (!this.engine.model) {
      throw new BridgeError("no-model", "no model is loaded in Fanlight's page: load one there");
    }
    const controller = new AbortController();
    const running: Running = { controller, sent: 0, taken: 0, wake: () => {}, isOver: false };
    peer.running.set(seq, running);
    void this.run(peer, seq, running, asked.request);
  }

  private state(): BridgeState {
    const { model } = this.engine;
    const known = model && { name: model.name, contextLength: model.contextLength };
    return { version: BRIDGE_VERSION, model: known };
  }

  private async run(
    peer: Peer,
    seq: number,
    running: Running,
    request: ChatCompletionRequest,
  ): Promise<void> {
    try {
      const { signal } = running.controller;
      // No client can measure what another one, or the page itself, has asked before.
      const completion = await this.engine.chat.completions.create(request, { signal, scope: peer.session });
      if ("controller" in completion) await this.stream(peer, seq, running, completion);
      else if (!running.isOver) this.done(peer, seq, completion);
    } catch (error) {
      if (!running.isOver) this.tell(peer.source, peer.client, seq, told(error));
    }
    running.isOver = true;
    peer.running.delete(seq);
    this.changed();
  }

  private async stream(
    peer: Peer,
    seq: number,
    running: Running,
    completion: ChatCompletionStream,
  ): Promise<void> {
    const { client, source } = peer;
    for await (const chunk of completion) {
      if (!running.isOver) await this.room(peer, seq, running);
      if (running.isOver) return;
      running.sent += 1;
      source.post({ fanlightBridge: BRIDGE_VERSION, client, type: "chunk", seq, chunk });
    }
    if (!running.isOver) this.done(peer, seq, null);
  }

  /** Waits while too many chunks have not been taken; a client that takes none is gone. */
  private async room(peer: Peer, seq: number, running: Running): Promise<void> {
    while (!running.isOver && running.sent - running.taken >= CHUNKS_UNTAKEN_MAX) {
      const before = running.taken;
      await new Promise<void>((woken) => {
        const timer = setTimeout(woken, TAKE_TIMEOUT_MS);
        running.wake = () => {
          clearTimeout(timer);
          woken();
        };
      });
      if (running.isOver || running.taken > before) continue;
      const text = `no chunk of the reply was taken for ${TAKE_TIMEOUT_MS} ms: read it, or ask again`;
      this.stop(peer, seq, running, new BridgeError("client-gone", text));
    }
  }

  private taken(peer: Peer, seq: number, count: number): void {
    peer.lastMs = this.nowMs();
    const running = peer.running.get(seq);
    if (!running || count <= running.taken || count > running.sent) return;
    running.taken = count;
    running.wake();
  }

  private done(peer: Peer, seq: number, result: unknown): void {
    const { client } = peer;
    peer.source.post({ fanlightBridge: BRIDGE_VERSION, client, type: "done", seq, result });
  }

  /** Tells at once that a request has failed, and then ends it. */
  private stop(peer: Peer, seq: number, running: Running, error: BridgeError): void {
    if (running.isOver) return;
    running.isOver = true;
    peer.running.delete(seq);
    this.tell(peer.source, peer.client, seq, error);
    running.controller.abort(error);
    running.wake();
  }

  /** Hears that what runs may have changed. */
  private changed(): void {
    const isRunning = this.status.running > 0;
    if (isRunning) this.watch ??= setInterval(() => this.look(), CLIENT_SILENT_MS / 4);
    else if (this.watch !== null) {
      clearInterval(this.watch);
      this.watch = null;
    }
    this.onStatus();
  }

  /** Ends clients that have work and say nothing: a request whose tab is gone would hold up all others. */
  private look(): void {
    const since = this.nowMs() - CLIENT_SILENT_MS;
    for (const peer of [...this.peers.values()]) {
      if (peer.running.size > 0 && peer.lastMs <= since)
        this.end(peer, clientGone(`nothing was heard of it for ${CLIENT_SILENT_MS / 1000} s`));
    }
  }

  private end(peer: Peer, error: BridgeError): void {
    peer.gone = error;
    this.peers.delete(peer.session);
    for (const [seq, running] of [...peer.running]) this.stop(peer, seq, running, error);
    this.changed();
  }
}

function notEnabled(): BridgeError {
  const message = "the developer bridge is switched off: switch it on in the settings of Fanlight's page";
  return new BridgeError("not-enabled", message);
}

function clientGone(why: string): BridgeError {
  return new BridgeError("client-gone", `the page that asked is gone (${why}): connect again`);
}

function noSession(): BridgeError {
  return new BridgeError("no-session", "this session is not known, or no longer: say hello again");
}

function cancelled(): BridgeError {
  return new BridgeError("cancelled", "the request was cancelled");
}

function tooMany(retryAfterMs: number): BridgeError {
  const limits = `${REQUESTS_BURST} at once and ${REQUESTS_PER_SECOND} per second are taken`;
  const message = `too many requests were sent, ${limits}: wait ${retryAfterMs} ms`;
  return new BridgeError("too-many-requests", message, retryAfterMs);
}

/** A failure of the engine keeps its code. */
function told(error: unknown): BridgeError {
  if (error instanceof BridgeError) return error;
  if (error instanceof FanlightError) return new BridgeError(error.code, error.message);
  return new BridgeError("other", String(error));
}
