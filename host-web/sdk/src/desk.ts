// Serves the questions of one or several tabs with one worker: gives every question an id of its own, brings
// answers back to whoever asked, and starts a worker when there is none.

import { baseUrl } from "./base.js";
import { FanlightError } from "./errors.js";
import type { About, FromWorker, ToWorker } from "./protocol.js";

/** Where the worker's files are, when they do not lie beside this one. */
export interface WorkerPlace {
  workerUrl?: string | URL | undefined;
  wasmUrl?: string | URL | undefined;
}

/** A tab's way to the worker. */
export interface Visitor {
  about(message: About): void;
  /** The worker is gone, and whatever was asked of it. */
  ended(error: FanlightError): void;
}

/** A running worker. */
interface Live {
  worker: Worker;
  /** Sent once the worker has said that it is alive. */
  waiting: ToWorker[] | null;
  end: (error: FanlightError) => void;
}

/** After such a failure nothing works in that worker any more. */
const ENDS_WORKER: ReadonlySet<string> = new Set(["gpu-lost", "engine-gone"]);

export class Desk {
  private live: Live | null = null;
  private lastId = 0;
  /** Questions of all tabs that are not over. */
  private readonly asked = new Map<number, { visitor: Visitor; id: number }>();
  private readonly visitors = new Set<Visitor>();

  constructor(private readonly place: WorkerPlace) {}

  /** Takes a tab's message. */
  receive(visitor: Visitor, message: ToWorker): void {
    this.visitors.add(visitor);
    if (message.type === "ask") {
      const id = ++this.lastId;
      const { question } = message;
      const inner =
        question.name === "cancel"
          ? { ...question, target: this.idOf(visitor, question.target) ?? 0 }
          : question;
      this.asked.set(id, { visitor, id: message.id });
      this.post({ ...message, id, question: inner });
    } else if (message.type === "acknowledge") {
      const id = this.idOf(visitor, message.id);
      if (id !== undefined) this.post({ ...message, id });
    }
  }

  /** A tab is gone: what it asked is stopped. */
  leave(visitor: Visitor): void {
    this.visitors.delete(visitor);
    for (const [id, asked] of this.asked) {
      if (asked.visitor !== visitor) continue;
      this.asked.delete(id);
      if (this.live) {
        const question = { name: "cancel", target: id } as const;
        this.post({ type: "ask", id: ++this.lastId, question, mayWait: true });
      }
    }
  }

  /** Ends the worker; everything that was asked fails. */
  close(error: FanlightError): void {
    this.live?.end(error);
  }

  private idOf(visitor: Visitor, theirs: number): number | undefined {
    for (const [id, asked] of this.asked) {
      if (asked.visitor === visitor && asked.id === theirs) return id;
    }
    return undefined;
  }

  private post(message: ToWorker): void {
    try {
      const live = (this.live ??= this.start());
      if (live.waiting) live.waiting.push(message);
      else live.worker.postMessage(message);
    } catch (error) {
      const advice = "serve the package from this page's origin, or give workerUrl";
      const text = `the engine's worker cannot be started (${String(error)}): ${advice}`;
      this.endAll(new FanlightError("worker-died", text));
    }
  }

  /** Everything that was asked fails. */
  private endAll(error: FanlightError): void {
    this.asked.clear();
    for (const visitor of [...this.visitors]) visitor.ended(error);
  }

  private start(): Live {
    const { workerUrl, wasmUrl } = this.place;
    const worker = workerUrl === undefined ? ownWorker() : new Worker(workerUrl, { type: "module" });
    let isOver = false;
    const end = (error: FanlightError) => {
      if (isOver) return;
      isOver = true;
      worker.terminate();
      if (this.live === live) this.live = null;
      this.endAll(error);
    };
    const live: Live = { worker, waiting: [], end };
    const died = (reason: string) => {
      end(new FanlightError("worker-died", `the engine's worker ended (${reason}): load the model again`));
    };
    worker.onerror = (event) =>
      died(
        event.message ||
          "its script could not be loaded: serve it from this origin, allow it where the page has a policy " +
            "(worker-src 'self'), and with a development server of Vite add " +
            'optimizeDeps: { exclude: ["fanlight"] }',
      );
    worker.onmessageerror = () => died("a message could not be read");
    worker.onmessage = ({ data }: MessageEvent<FromWorker>) => this.hear(live, data, died);
    worker.postMessage({ type: "begin", wasmUrl: wasmUrl === undefined ? null : absolute(wasmUrl) });
    return live;
  }

  private hear(live: Live, data: FromWorker, died: (reason: string) => void): void {
    if (data.type === "crash") died(data.message);
    else if (data.type === "alive") {
      for (const message of live.waiting ?? []) live.worker.postMessage(message);
      live.waiting = null;
      // Granted when the worker has ended, be it killed by the browser without a word.
      if (data.lock !== null) void navigator.locks.request(data.lock, () => died("the browser ended it"));
    } else {
      const asked = this.asked.get(data.id);
      if (data.type !== "event") this.asked.delete(data.id);
      asked?.visitor.about({ ...data, id: asked.id });
      if (data.type === "failure" && ENDS_WORKER.has(data.failure.kind)) {
        live.end(new FanlightError(data.failure.kind, data.failure.message));
      }
    }
  }
}

/** An address as the worker, which lies elsewhere, understands it. */
function absolute(url: string | URL): string {
  return new URL(url, baseUrl()).href;
}

/** The worker next to this file. */
function ownWorker(): Worker {
  const here = import.meta.url;
  if (!here.startsWith("http") || new URL(here).origin === location.origin) {
    // Written out so that bundlers find the file and take it along.
    return new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
  }
  // The package was imported from another origin, and browsers start workers from the page's own only: a
  // script of this origin imports it.
  const script = `import ${JSON.stringify(new URL("./worker.js", here).href)};`;
  const url = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
  return new Worker(url, { type: "module" });
}
