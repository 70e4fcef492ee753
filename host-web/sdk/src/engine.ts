// The engine as a page uses it.

import { announce } from "./announce.js";
import { Connection, type Heard } from "./connection.js";
import type { WorkerPlace } from "./desk.js";
import { FanlightError } from "./errors.js";
import { Generation, type GenerationStats } from "./generation.js";
import {
  infoOf,
  inspectionOf,
  whole,
  wireBudget,
  wireOptions,
  type BudgetOptions,
  type Inspection,
  type LoadProgress,
  type ModelInfo,
  type ModelOptions,
} from "./info.js";
import { Completions } from "./openai.js";
import { checkPage } from "./page.js";
import type {
  Adapter,
  LoadOptions as WireOptions,
  RequestName,
  Requests,
  Snapshot,
  StoredModel,
  Verification,
  Warning,
  WireSource,
} from "./protocol.js";
import { wallMs } from "./protocol.js";
import { replyRequest, tokenizeRequest, type GenerateOptions, type PromptInput } from "./requests.js";
import { Sampler } from "./sampler.js";
import { resolve, type ModelSource } from "./sources.js";

export interface CreateOptions extends WorkerPlace {
  /** Whether all tabs of this origin use one engine; true. */
  shared?: boolean;
  /** What a request does while another runs: `queue` waits, `refuse` fails as busy; `queue`. */
  whenBusy?: "queue" | "refuse";
  /** Whether the developer tools of the browser find this engine, to show its snapshots; true. */
  announce?: boolean;
}

/** How a long call is followed and stopped. */
export interface FollowOptions {
  onProgress?: (progress: LoadProgress) => void;
  signal?: AbortSignal;
}

export interface LoadOptions extends ModelOptions, FollowOptions {
  /**
   * MiB of this computer's memory that keep weights which stream, so that a pass need not read them again: 0
   * to 2,048; 0. It is taken as the first passes bring it, and given back when the worker ends.
   */
  cacheMiB?: number;
  /** Where a downloaded model is kept; `opfs`. */
  cache?: "opfs" | "none";
}

/** What happens to an engine beside what was asked of it. */
export type EngineEvent =
  | { type: "model"; model: ModelInfo | null }
  | { type: "warning"; warning: Warning }
  /** The worker ended, and with it the model; the next call loads it again. */
  | { type: "ended"; error: FanlightError }
  /** What can be seen of the engine, for whoever asked for that, with the samples since the one before. */
  | { type: "snapshot"; snapshot: Snapshot };

export interface EngineStats {
  adapter: Adapter;
  model: ModelInfo | null;
  /** Bytes of the engine's own memory, with the weights that it keeps there; the others are on the GPU. */
  wasmBytes: number;
  /**
   * Bytes of weights that streamed, by where passes found them: read from the model's files, or kept in the
   * engine's memory (`cacheMiB`), and how many are kept there now. All 0 where nothing has streamed.
   */
  streamed: { readBytes: number; cachedBytes: number; keptBytes: number };
  /** Of the last reply. */
  lastGeneration: GenerationStats | null;
}

/** Owners that may go while one engine is created: tabs do not close faster than that. */
const OPEN_ATTEMPTS = 4;

/** Stops a question; resolves when it is over. */
type Stop = () => Promise<void>;

/** Questions about the loaded model. */
type AboutModel = "generate" | "tokenize" | "detokenize" | "reset" | "budget";

/** A model that was loaded, and how to load it again. */
interface Loaded {
  info: ModelInfo;
  name: string;
  source: WireSource;
  options: WireOptions;
  /** False once the worker that held it is gone. */
  isThere: boolean;
}

export class Fanlight {
  /** The machine that computes. */
  adapter!: Adapter;
  /** OpenAI's interface: `chat.completions.create`. */
  readonly chat: { readonly completions: Completions };
  /** A `fetch` for clients of that interface. */
  readonly fetch: Completions["fetch"];
  private readonly connection: Connection;
  private readonly listeners = new Set<(event: EngineEvent) => void>();
  private loaded: Loaded | null = null;
  private reloading: Promise<void> | null = null;
  private readonly running = new Set<Stop>();
  private lastGeneration: GenerationStats | null = null;
  /** Takes it off the list that developer tools read. */
  private unlist: () => void = () => {};
  private readonly sampler = new Sampler((after) => this.snapshot(after));

  private constructor({ workerUrl, wasmUrl, shared = true, whenBusy = "queue" }: CreateOptions) {
    const place = { workerUrl, wasmUrl, isShared: shared, mayWait: whenBusy === "queue" };
    this.connection = new Connection(place, (error) => this.lost(error));
    const completions = new Completions({
      modelName: () => this.needed().info.name || "fanlight",
      generate: (messages, options) => this.generate(messages, options),
    });
    this.chat = { completions };
    this.fetch = completions.fetch;
  }

  /**
   * Starts an engine and opens the GPU.
   *
   * Throws a FanlightError with code `no-gpu` when there is none that can be used, and says what is missing.
   */
  static async create(options: CreateOptions = {}): Promise<Fanlight> {
    checkPage();
    const engine = new Fanlight(options);
    try {
      engine.adapter = await engine.opened();
      if (options.announce ?? true) engine.unlist = announce((after) => engine.snapshot(after));
      return engine;
    } catch (error) {
      engine.connection.close();
      throw error;
    }
  }

  /** Opens the GPU; an owner that is disposed of meanwhile, as React's strict mode does, is no failure. */
  private async opened(): Promise<Adapter> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await this.connection.ask("open", {}).answer;
      } catch (error) {
        const isGone = error instanceof FanlightError && error.code === "owner-gone";
        if (!isGone || attempt === OPEN_ATTEMPTS) throw error;
      }
    }
  }

  /** The model in use. */
  get model(): ModelInfo | null {
    return this.loaded?.info ?? null;
  }

  /** Looks into a model: reads its header and plans its memory. */
  async inspect(source: ModelSource, options: ModelOptions = {}): Promise<Inspection> {
    const { wire, sha256 } = await resolve(source, false);
    const wired = wireOptions(options, sha256);
    return inspectionOf(await this.connection.ask("inspect", { source: wire, options: wired }).answer);
  }

  /** Loads a model in place of the one before. A model that another tab has loaded is not loaded again. */
  async load(source: ModelSource, options: LoadOptions = {}): Promise<ModelInfo> {
    const isStored = (options.cache ?? "opfs") === "opfs";
    const { wire, sha256, key: name } = await resolve(source, isStored);
    const wired = wireOptions(options, sha256);
    if (options.cacheMiB !== undefined) wired.cacheMib = whole("cacheMiB", options.cacheMiB);
    if (isStored && wire.from === "address") await keepStored();
    this.setLoaded(null);
    const what = { name, source: wire, options: wired };
    const info = await this.bring(what, this.following(options), options.signal);
    this.setLoaded({ ...what, info, isThere: true });
    this.warnOf(info);
    return info;
  }

  /**
   * Gives the loaded model another budget, or all that it needs. Conversations go on; a budget that is too
   * small leaves it as it was. While a reply is generated it takes effect after the pass under way and the
   * reply goes on, with the same text; stopping it by `signal` then stops the reply too.
   */
  async setBudget(options: BudgetOptions & FollowOptions = {}): Promise<ModelInfo> {
    const loaded = this.needed();
    const wired = wireBudget(options);
    const { preset, budgetMib, batchTokens, ...kept } = loaded.options;
    const changed = { ...kept, ...wired };
    const fields = { options: wired, newKey: keyOf(loaded.name, changed) };
    const card = await this.askModel("budget", fields, this.following(options), options.signal);
    loaded.info = infoOf(card);
    loaded.options = changed;
    if (this.loaded === loaded) this.emit({ type: "model", model: loaded.info });
    this.warnOf(loaded.info);
    return loaded.info;
  }

  private async bring(
    { name, source, options }: Pick<Loaded, "name" | "source" | "options">,
    heard: Heard,
    signal?: AbortSignal,
  ): Promise<ModelInfo> {
    const key = keyOf(name, options);
    return infoOf(await this.track("load", { source, options, key }, heard, signal));
  }

  /** Passes progress and warnings of a long call on. */
  private following({ onProgress }: FollowOptions): Heard {
    return (event) => {
      if ("phase" in event) onProgress?.(event);
      else if (event.type === "warning") this.emit(event);
    };
  }

  private warnOf({ wasReduced, quarantined }: ModelInfo): void {
    const warn = (code: Warning["code"], message: string) =>
      this.emit({ type: "warning", warning: { code, message } });
    if (wasReduced) {
      warn(
        "reduced",
        "the GPU could not hold the whole model: its weights stream through, which is slower",
      );
    }
    if (quarantined !== null) warn("quarantined", quarantined);
  }

  /** Asks; the question can be stopped by `stop` and by the signal. `begun` is told how. */
  private async track<N extends RequestName>(
    name: N,
    fields: Requests[N]["ask"],
    heard: Heard,
    signal?: AbortSignal,
    begun: (stop: Stop) => void = () => {},
  ): Promise<Requests[N]["answer"]> {
    signal?.throwIfAborted();
    const asked = this.connection.ask(name, fields, heard);
    const stop = () => asked.cancel();
    const aborted = () => void stop().catch(() => {});
    this.running.add(stop);
    begun(stop);
    signal?.addEventListener("abort", aborted, { once: true });
    try {
      return await asked.answer;
    } catch (error) {
      throw signal?.aborted ? signal.reason : error;
    } finally {
      this.running.delete(stop);
      signal?.removeEventListener("abort", aborted);
    }
  }

  /** Asks something of the loaded model; loads it again first, once, when the worker that held it is gone. */
  private async askModel<N extends AboutModel>(
    name: N,
    fields: Omit<Requests[N]["ask"], "key">,
    heard: Heard = () => {},
    signal?: AbortSignal,
    begun?: (stop: Stop) => void,
  ): Promise<Requests[N]["answer"]> {
    const loaded = this.needed();
    const wasThere = loaded.isThere;
    if (!wasThere) await this.reload(loaded);
    const ask = () => {
      const key = keyOf(loaded.name, loaded.options);
      const keyed = { ...fields, key } as unknown as Requests[N]["ask"];
      return this.track(name, keyed, heard, signal, begun);
    };
    try {
      return await ask();
    } catch (error) {
      // The worker was started again and this page did not hear of it.
      const isFresh = error instanceof FanlightError && error.code === "no-model" && wasThere;
      if (!isFresh || this.loaded !== loaded) throw error;
      await this.reload(loaded);
      return await ask();
    }
  }

  private async reload(loaded: Loaded): Promise<void> {
    this.reloading ??= (async () => {
      const message = "the engine's worker was started again: the model is loaded once more";
      this.emit({ type: "warning", warning: { code: "reloaded", message } });
      loaded.info = await this.bring(loaded, () => {});
      loaded.isThere = true;
    })().finally(() => {
      this.reloading = null;
    });
    await this.reloading;
  }

  private needed(): Loaded {
    if (this.loaded) return this.loaded;
    throw new FanlightError("no-model", "no model is loaded: load one first");
  }

  /**
   * Generates a reply to a conversation, a text being its only question, or continues plain text. It begins
   * at once; every failure, also that
   * of an impossible request, is told by the reply.
   */
  generate(input: string | PromptInput, options: GenerateOptions = {}): Generation {
    const { loaded } = this;
    const askedAtMs = wallMs();
    let isStopped = false;
    let stopAsked: Stop | null = null;
    return new Generation(
      {
        contextLength: loaded?.info.contextLength ?? 0,
        kvBytes: loaded?.info.plan.kvBytes ?? 0,
        peakGpuBytes: loaded?.info.gpuBytes ?? 0,
        run: async (heard) => {
          this.needed();
          const request = replyRequest(input, options);
          if (isStopped) throw new FanlightError("cancelled", "the reply was stopped before it began");
          return await this.askModel(
            "generate",
            { request, askedAtMs, scope: options.scope ?? "" },
            (event) => ("phase" in event ? undefined : heard(event)),
            undefined,
            (stop) => {
              stopAsked = stop;
              if (isStopped) void stop();
            },
          );
        },
        stop: async () => {
          isStopped = true;
          await stopAsked?.();
        },
        ended: (stats) => {
          this.lastGeneration = stats;
        },
      },
      options.signal,
    );
  }

  /** The ids of a text, or of a conversation as a reply would continue it. */
  async tokenize(
    input: string | PromptInput,
    options: { parseSpecial?: boolean; addBegin?: boolean } = {},
  ): Promise<Uint32Array> {
    return await this.askModel("tokenize", { request: tokenizeRequest(input, options) });
  }

  /** The text of ids, as a continuation; control tokens are left out. */
  async detokenize(ids: Iterable<number>): Promise<string> {
    return await this.askModel("detokenize", { ids: Uint32Array.from(ids) });
  }

  /** How many tokens a text has, or a conversation as a reply would continue it. */
  async countTokens(input: string | PromptInput): Promise<number> {
    return (await this.tokenize(input)).length;
  }

  /** Evaluates the beginning of conversations ahead, so that the next reply that begins so starts sooner. */
  async prewarm(input: string | PromptInput): Promise<void> {
    await this.generate(input, { maxTokens: 1 }).text();
  }

  /** Stops what this page has asked: replies end as cancelled, loads fail as cancelled. */
  async stop(): Promise<void> {
    await Promise.all([...this.running].map((stop) => stop()));
  }

  /** Forgets the conversation in the cache; the next prompt is evaluated from its first token. */
  async reset(): Promise<void> {
    await this.askModel("reset", {});
  }

  /** Forgets every reply that drafts could be made from, those that the browser keeps too. */
  async forgetMemory(): Promise<void> {
    await this.connection.ask("forget-memory", {}).answer;
  }

  /** Frees the model. */
  async unload(): Promise<void> {
    const { loaded } = this;
    if (!loaded) return;
    await this.stop();
    this.setLoaded(null);
    const key = keyOf(loaded.name, loaded.options);
    if (loaded.isThere) await this.connection.ask("unload", { key }).answer;
  }

  /** Ends the engine; everything that was asked fails. Another tab that uses it starts it again. */
  dispose(): void {
    this.loaded = null;
    this.listeners.clear();
    this.sampler.clear();
    this.unlist();
    this.connection.close();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  /** What the engine holds and how it did. */
  async stats(): Promise<EngineStats> {
    const { adapter, model, lastGeneration } = this;
    const [wasmBytes, snapshot] = await Promise.all([
      this.connection.ask("memory", {}).answer,
      this.snapshot(Number.MAX_SAFE_INTEGER),
    ]);
    const { readBytes = 0, cachedBytes = 0, keptBytes = 0 } = snapshot?.passes ?? {};
    return { adapter, model, wasmBytes, streamed: { readBytes, cachedBytes, keptBytes }, lastGeneration };
  }

  /** Compares kernels that must agree in every bit on this GPU. */
  async verify(
    scope: "whole" | "cover" = "whole",
    onProgress?: (progress: LoadProgress) => void,
  ): Promise<Verification> {
    return await this.track("verify", { scope }, (event) => {
      if ("phase" in event) onProgress?.(event);
    });
  }

  /** Downloaded models that the browser keeps for this origin. */
  async stored(): Promise<StoredModel[]> {
    return await this.connection.ask("stored", {}).answer;
  }

  /** Removes a downloaded model from what the browser keeps. */
  async forget(url: string): Promise<void> {
    await this.connection.ask("forget", { url }).answer;
  }

  /**
   * What can be seen of the engine now, also while it generates: where time and bytes go. Of samples those
   * from number `after` on, which is `next` of the snapshot before. Null before an engine was started.
   */
  async snapshot(after = 0): Promise<Snapshot | null> {
    return await this.connection.ask("snapshot", { after }).answer;
  }

  /**
   * Hears what happens to the engine; the returned function ends that. With `hz` snapshots are among it, at
   * most ten per second; all who ask for some hear them at the fastest rate that was asked for.
   */
  subscribe(listener: (event: EngineEvent) => void, { hz }: { hz?: number } = {}): () => void {
    const heard = (snapshot: Snapshot) => listener({ type: "snapshot", snapshot });
    const end = hz === undefined ? () => {} : this.sampler.add(heard, hz);
    this.listeners.add(listener);
    return () => {
      end();
      this.listeners.delete(listener);
    };
  }

  private emit(event: EngineEvent): void {
    for (const listener of [...this.listeners]) listener(event);
  }

  private setLoaded(loaded: Loaded | null): void {
    if (this.loaded === loaded) return;
    this.loaded = loaded;
    this.emit({ type: "model", model: loaded?.info ?? null });
  }

  private lost(error: FanlightError): void {
    if (this.loaded) this.loaded.isThere = false;
    this.emit({ type: "ended", error });
  }
}

/** What a model is called between page and worker: source and options, the latter in any order. */
function keyOf(name: string, options: WireOptions): string {
  return `${name} ${JSON.stringify(Object.entries(options).sort())}`;
}

/**
 * Asks the browser not to clear what this origin keeps; a browser that refuses keeps it all the same for now.
 */
async function keepStored(): Promise<void> {
  try {
    await navigator.storage?.persist?.();
  } catch {
    // A page without the right to ask.
  }
}
