// The page's side of the worker: asks, listens, and notices when the worker is gone.

import type { Failure, FromWorker, Progress, ReplyEvent, Requests, RequestName, ToWorker }
  from "./protocol.js";
import { LOCK_PREFIX } from "./protocol.js";

/** A failure of the engine, or the end of its worker (kind `worker-died`). */
export class EngineFailure extends Error {
  constructor(readonly kind: Failure["kind"] | "worker-died", message: string) {
    super(message);
    this.name = "EngineFailure";
  }
}

interface Pending {
  answered: (answer: Requests[RequestName]["answer"]) => void;
  failed: (failure: EngineFailure) => void;
  heard: (event: Progress | ReplyEvent) => Promise<void> | void;
}

/** A worker and what it has been asked. */
interface Live {
  worker: Worker;
  isAlive: Promise<void>;
  pending: Map<number, Pending>;
  end: (failure: EngineFailure) => void;
}

/** After such a failure nothing works in that worker any more. */
const ENDS_WORKER: ReadonlySet<string> = new Set(["gpu-lost", "engine-gone"]);

export class EngineClient {
  private live: Live | null = null;
  private lastId = 0;

  /** `onEnd` hears when a worker ended, and with it the model that it held. */
  constructor(private readonly onEnd: (failure: EngineFailure) => void) {}

  /** Asks the worker, a fresh one when there is none. An event is acknowledged once `heard` has ended. */
  async ask<N extends RequestName>(
    name: N,
    fields: Requests[N]["ask"],
    heard: (event: Requests[N]["event"]) => Promise<void> | void = () => {},
  ): Promise<Requests[N]["answer"]> {
    const live = (this.live ??= this.start());
    await live.isAlive;
    const id = ++this.lastId;
    return await new Promise((answered, failed) => {
      // The worker answers a question of one name with the answer of that name.
      live.pending.set(id, { answered, failed, heard } as Pending);
      this.send(live, { type: "ask", id, question: { name, ...fields } } as ToWorker);
    });
  }

  private send(live: Live, message: ToWorker): void {
    live.worker.postMessage(message);
  }

  private start(): Live {
    const name = LOCK_PREFIX + crypto.randomUUID();
    const worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module", name });
    const pending = new Map<number, Pending>();
    let isOver = false;
    let alive = () => {};
    let neverAlive = (_failure: EngineFailure) => {};
    const isAlive = new Promise<void>((resolve, reject) => {
      alive = resolve;
      neverAlive = reject;
    });
    // Whoever asked hears of it; a worker that nobody waits for may end in silence.
    isAlive.catch(() => {});
    const end = (failure: EngineFailure) => {
      if (isOver) return;
      isOver = true;
      worker.terminate();
      if (this.live === live) this.live = null;
      neverAlive(failure);
      for (const { failed } of pending.values()) failed(failure);
      pending.clear();
      this.onEnd(failure);
    };
    const died = (message: string) => end(new EngineFailure("worker-died", message));
    const live: Live = { worker, isAlive, pending, end };
    worker.onerror = (event) => died(event.message || "its script could not be loaded");
    worker.onmessageerror = () => died("a message could not be read");
    worker.onmessage = ({ data }: MessageEvent<FromWorker>) => {
      if (data.type === "crash") died(data.message);
      else if (data.type === "alive") {
        alive();
        // Granted when the worker has ended, be it killed by the browser without a word.
        void navigator.locks.request(data.lock, () => died("the browser ended it"));
      } else this.receive(live, data);
    };
    return live;
  }

  private receive(live: Live, message: Exclude<FromWorker, { type: "alive" | "crash" }>): void {
    const asked = live.pending.get(message.id);
    if (!asked) return;
    switch (message.type) {
      case "event":
        void this.hear(live, message.id, asked, message.event);
        break;
      case "answer":
        live.pending.delete(message.id);
        asked.answered(message.answer);
        break;
      case "failure": {
        live.pending.delete(message.id);
        const failure = new EngineFailure(message.failure.kind, message.failure.message);
        asked.failed(failure);
        if (ENDS_WORKER.has(failure.kind)) live.end(failure);
      }
    }
  }

  private async hear(live: Live, id: number, asked: Pending, event: Progress | ReplyEvent): Promise<void> {
    await asked.heard(event);
    this.send(live, { type: "acknowledge", id });
  }
}
