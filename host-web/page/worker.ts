// The dedicated worker that owns the engine: it turns questions of the page into calls, and answers into
// messages.

import { describe } from "./adapter.js";
import init, { Engine, prepareWorker } from "./fanlight.js";
import type { Failure, FromWorker, Progress, Question, ReplyEvent, Requests, RequestName, ToWorker }
  from "./protocol.js";
import { EVENTS_UNACKNOWLEDGED_MAX } from "./protocol.js";

function tell(message: FromWorker): void {
  self.postMessage(message);
}

function crash(message: string): void {
  tell({ type: "crash", message });
}

self.addEventListener("error", (event) => crash(event.message));
self.addEventListener("unhandledrejection", (event) => crash(String(event.reason)));

/** Counts events on their way to the page and lets their sender wait for room. */
class Room {
  private underWay = 0;
  private waiting: (() => void)[] = [];

  async take(): Promise<void> {
    this.underWay += 1;
    if (this.underWay >= EVENTS_UNACKNOWLEDGED_MAX) {
      await new Promise<void>((resolve) => this.waiting.push(resolve));
    }
  }

  giveBack(): void {
    this.underWay -= 1;
    this.waiting.shift()?.();
  }
}

/** Room of the replies at hand, by question. */
const rooms = new Map<number, Room>();

let engine: Promise<Engine> | null = null;

/** The engine, started by the first question. After a failure the next question tries again. */
function started(): Promise<Engine> {
  engine ??= start().catch((error: unknown) => {
    engine = null;
    throw error;
  });
  return engine;
}

let prepared: Promise<void> | null = null;

async function start(): Promise<Engine> {
  prepared ??= init().then(() => prepareWorker(crash));
  await prepared;
  return await Engine.open();
}

async function answer(id: number, question: Question): Promise<Requests[RequestName]["answer"]> {
  const progress = (event: Progress) => tell({ type: "event", id, event });
  const running = await started();
  switch (question.name) {
    case "open":
      return await describe(running.adapter());
    case "loadFiles":
      return await running.loadFiles(question.files, question.options, progress);
    case "loadUrl":
      return await running.loadUrl(question.url, question.options, progress);
    case "generate": {
      const room = new Room();
      rooms.set(id, room);
      const show = (event: ReplyEvent) => {
        tell({ type: "event", id, event });
        return room.take();
      };
      try {
        const { name: _, ...request } = question;
        return await running.generate(request, show);
      } finally {
        rooms.delete(id);
      }
    }
    case "cancel":
      await running.cancel();
      return null;
    case "verify":
      return await running.verify(question.scope, progress);
  }
}

function isFailure(thrown: unknown): thrown is Failure {
  return typeof thrown === "object" && thrown !== null && "kind" in thrown && "message" in thrown;
}

async function serve(id: number, question: Question): Promise<void> {
  try {
    tell({ type: "answer", id, answer: await answer(id, question) });
  } catch (thrown) {
    // What is no failure of the engine is a trap, or a module that could not be fetched or compiled.
    if (isFailure(thrown)) tell({ type: "failure", id, failure: thrown });
    else crash(String(thrown));
  }
}

self.addEventListener("message", ({ data }: MessageEvent<ToWorker>) => {
  if (data.type === "ask") void serve(data.id, data.question);
  else rooms.get(data.id)?.giveBack();
});

// Held until this worker ends, however it ends: the page waits for the same lock and so hears of the end.
await new Promise<void>((granted) => {
  void navigator.locks.request(self.name, () => {
    granted();
    return new Promise(() => {});
  });
});
tell({ type: "alive", lock: self.name });
