// A reply as it comes: a stream of events, iterable, or simply its text.

import { FanlightError } from "./errors.js";
import { warningOf } from "./info.js";
import type { Part, ReplyEnd, ReplyEvent, Warning } from "./protocol.js";

/** What a reply has taken so far. */
export interface GenerationStats {
  /** Tokens of the prompt, and those of them that were in the cache. */
  promptTokens: number;
  reusedTokens: number;
  /** Tokens of earlier replies that drafts could be made from. */
  memoryTokens: number;
  /** Prompt tokens in the cache now, the reused ones included. */
  prefilledTokens: number;
  /** Tokens of the reply. */
  tokens: number;
  contextLength: number;
  /** From the question to the first token, in milliseconds; null before it. */
  firstTokenMs: number | null;
  /** Milliseconds of prompt batches; null until the end. */
  prefillMs: number | null;
  /** Tokens after the first per second, as they arrive; at the end, as the GPU took for them. */
  tokensPerSecond: number | null;
  /** Tokens per step of the GPU; null until the end. */
  tokensPerStep: number | null;
  /**
   * Microseconds that choosing a token from its logits takes within each step; null until the end, and for
   * the first reply with such sampling options: it is measured when that is over.
   */
  samplingUs: number | null;
  /** Bytes of keys and values, and of all buffers. */
  kvBytes: number;
  peakGpuBytes: number;
}

export type FinishReason = "stop" | "length" | "cancelled";

/** `seq` counts the events of a reply from 0. */
export type GenerationEvent = { seq: number } & (
  | { type: "token"; ids: number[] }
  /** What the model thinks before it answers, to append; not part of the text. */
  | { type: "reasoning"; delta: string }
  /** Text to append; whole characters only. */
  | { type: "text"; delta: string }
  | { type: "stats"; stats: GenerationStats }
  /** Of a model whose weights stream: pages of the pass at hand that went through the GPU. */
  | { type: "progress"; done: number; total: number }
  | { type: "warning"; warning: Warning }
  /** The reply broke off; reading on throws the error. */
  | { type: "error"; error: FanlightError | DOMException }
  | { type: "done"; reason: FinishReason; stats: GenerationStats }
);

type Body<E = GenerationEvent> = E extends GenerationEvent ? Omit<E, "seq"> : never;

/** Stats are told at most this often while tokens come. */
const STATS_EVERY_MS = 250;

/** What a reply needs of the engine. */
export interface Work {
  contextLength: number;
  kvBytes: number;
  peakGpuBytes: number;
  /** Runs the reply, telling its events; an event counts as taken when the promise has resolved. */
  run(heard: (event: ReplyEvent | { type: "warning"; warning: Warning }) => Promise<void>): Promise<ReplyEnd>;
  /** Stops it; resolves when it is over. */
  stop(): Promise<void>;
  /** Hears what it took. */
  ended(stats: GenerationStats): void;
}

/** Turns the engine's events into those of the stream. Pure but for the clock. */
class Account {
  readonly stats: GenerationStats;
  private readonly startedMs = performance.now();
  private toldMs = 0;
  private firstCount = 0;

  constructor({ contextLength, kvBytes, peakGpuBytes }: Work) {
    this.stats = {
      promptTokens: 0,
      reusedTokens: 0,
      memoryTokens: 0,
      prefilledTokens: 0,
      tokens: 0,
      contextLength,
      firstTokenMs: null,
      prefillMs: null,
      tokensPerSecond: null,
      tokensPerStep: null,
      samplingUs: null,
      kvBytes,
      peakGpuBytes,
    };
  }

  take(event: ReplyEvent | { type: "warning"; warning: Warning }): Body[] {
    const { stats } = this;
    switch (event.type) {
      case "started":
        stats.promptTokens = event.promptTokens;
        stats.reusedTokens = stats.prefilledTokens = event.reusedTokens;
        stats.memoryTokens = event.memoryTokens;
        // As the engine has them now: another tab may have given the model another budget.
        stats.kvBytes = event.kvBytes;
        stats.peakGpuBytes = event.gpuBytes;
        return [this.tell()];
      case "prefilled":
        stats.prefilledTokens = event.done;
        return [this.tell()];
      case "advanced":
        return [{ type: "progress", done: event.done, total: event.total }];
      case "tokens":
        return this.tokens(event.ids, event.parts);
      case "warned":
        return [{ type: "warning", warning: warningOf(event) }];
      case "resumed":
        return [{ type: "warning", warning: resumed(event.sameAdapter) }];
      case "warning":
        return [event];
    }
  }

  private tokens(ids: number[], parts: Part[]): Body[] {
    const { stats } = this;
    const nowMs = performance.now() - this.startedMs;
    if (stats.firstTokenMs === null && ids.length > 0) {
      stats.firstTokenMs = nowMs;
      stats.prefilledTokens = stats.promptTokens;
      this.firstCount = ids.length;
    }
    stats.tokens += ids.length;
    const elapsedMs = nowMs - (stats.firstTokenMs ?? nowMs);
    if (elapsedMs > 0) stats.tokensPerSecond = (1000 * (stats.tokens - this.firstCount)) / elapsedMs;
    const bodies: Body[] = [];
    if (ids.length > 0) bodies.push({ type: "token", ids });
    bodies.push(...parts.map(bodyOf));
    if (nowMs - this.toldMs >= STATS_EVERY_MS) bodies.push(this.tell());
    return bodies;
  }

  private tell(): Body {
    this.toldMs = performance.now() - this.startedMs;
    return { type: "stats", stats: { ...this.stats } };
  }

  /** Of a reply that was stopped before it had the engine. */
  unbegun(): Body[] {
    return [{ type: "done", reason: "cancelled", stats: { ...this.stats } }];
  }

  end(end: ReplyEnd): Body[] {
    const { stats } = this;
    stats.tokens = end.tokens;
    stats.prefillMs = end.prefillUs / 1000;
    if (end.decodeUs > 0) stats.tokensPerSecond = (1e6 * end.decodeTokens) / end.decodeUs;
    if (end.steps > 0) stats.tokensPerStep = end.decodeTokens / end.steps;
    if (end.choiceNs !== undefined) stats.samplingUs = end.choiceNs / 1000;
    const warnings = end.quarantined.map(
      (message): Body => ({ type: "warning", warning: { code: "quarantined", message } }),
    );
    return [...end.parts.map(bodyOf), ...warnings, { type: "done", reason: end.reason, stats: { ...stats } }];
  }
}

function bodyOf({ kind, text }: Part): Body {
  return kind === "reasoning" ? { type: "reasoning", delta: text } : { type: "text", delta: text };
}

function resumed(isSame: boolean): Warning {
  return isSame
    ? { code: "resumed", message: "the GPU was lost and is back: the reply goes on where it was" }
    : {
        code: "resumed-elsewhere",
        message: "the GPU was lost: the reply goes on with another, and may differ",
      };
}

/** A reply that is being generated. As long as it is not read, only a few windows of tokens are computed. */
export class Generation extends ReadableStream<GenerationEvent> {
  private readonly work: Work;

  constructor(work: Work, signal?: AbortSignal) {
    let controller!: ReadableStreamDefaultController<GenerationEvent>;
    let roomMade: (() => void) | null = null;
    /** Thrown at who reads on after the event that told of it. */
    let failure: unknown;
    super({
      start: (given) => {
        controller = given;
      },
      pull: () => {
        if (failure !== undefined) controller.error(failure);
        roomMade?.();
        roomMade = null;
      },
      cancel: async () => {
        isOver = true;
        roomMade?.();
        await work.stop();
      },
    });
    this.work = work;
    let isOver = false;
    let seq = 0;
    const account = new Account(work);
    const push = async (bodies: Body[]): Promise<void> => {
      for (const body of bodies) if (!isOver) controller.enqueue({ seq: seq++, ...body } as GenerationEvent);
      if (!isOver && (controller.desiredSize ?? 0) <= 0)
        await new Promise<void>((made) => {
          roomMade = made;
        });
    };
    const aborted = () => {
      roomMade?.();
      void work.stop();
    };
    const run = async (): Promise<void> => {
      signal?.throwIfAborted();
      signal?.addEventListener("abort", aborted, { once: true });
      const end = await work.run((event) => push(account.take(event)));
      signal?.throwIfAborted();
      finish(account.end(end));
    };
    const finish = (bodies: Body[]) => {
      work.ended({ ...account.stats });
      if (isOver) return;
      for (const body of bodies) controller.enqueue({ seq: seq++, ...body } as GenerationEvent);
      controller.close();
    };
    run()
      .catch((error: unknown) => {
        if (isOver) return;
        const isStopped = error instanceof FanlightError && error.code === "cancelled" && !signal?.aborted;
        if (isStopped) return finish(account.unbegun());
        failure = signal?.aborted ? signal.reason : error;
        controller.enqueue({ seq: seq++, type: "error", error: failure as FanlightError });
      })
      .finally(() => signal?.removeEventListener("abort", aborted));
  }

  /** Stops it; what was generated can be read, and the last event is `done` with reason `cancelled`. */
  stop(): Promise<void> {
    return this.work.stop();
  }

  /** The whole text; rejects when the reply breaks off. */
  async text(): Promise<string> {
    let text = "";
    for await (const event of this) if (event.type === "text") text += event.delta;
    return text;
  }

  /** Leaving the loop stops the reply. Written out for browsers whose streams cannot be iterated. */
  override async *[Symbol.asyncIterator](): AsyncGenerator<GenerationEvent, undefined, undefined> {
    const reader = this.getReader();
    let isDone = false;
    try {
      for (;;) {
        const { done, value } = await reader.read();
        if (done) {
          isDone = true;
          return undefined;
        }
        yield value;
      }
    } catch (error) {
      isDone = true;
      throw error;
    } finally {
      if (!isDone) await reader.cancel();
      reader.releaseLock();
    }
  }
}
