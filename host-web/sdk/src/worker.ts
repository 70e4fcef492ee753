// The dedicated worker that owns the engine: it turns questions of pages into calls, one at a time, and
// answers into messages.

import { describe } from "./adapter.js";
import init, { Engine, inspectAddress, inspectFiles, prepareWorker } from "./fanlight.js";
import type { InitOutput, ModelCard } from "./fanlight.js";
import { translateInternalErrors } from "./gpu-errors.js";
import { EVENTS_UNACKNOWLEDGED_MAX, QUESTIONS_WAITING_MAX, wallMs } from "./protocol.js";
import type {
  FromWorker,
  Question,
  RequestName,
  Requests,
  ToWorker,
  WireSource,
  WorkerEvent,
  WorkerFailure,
} from "./protocol.js";
import { BrowserRecords } from "./records.js";
import { Storage } from "./storage.js";

type Answer = Requests[RequestName]["answer"];
type Ask = Extract<ToWorker, { type: "ask" }>;

function tell(message: FromWorker): void {
  self.postMessage(message);
}

function crash(message: string): void {
  tell({ type: "crash", message });
}

self.addEventListener("error", (event) => crash(event.message));
self.addEventListener("unhandledrejection", (event) => crash(String(event.reason)));
translateInternalErrors(globalThis as object);

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

  /** Nobody reads any more: whoever waits goes on. */
  open(): void {
    this.underWay = Number.NEGATIVE_INFINITY;
    for (const go of this.waiting.splice(0)) go();
  }
}

/** Room of the replies at hand, by question. */
const rooms = new Map<number, Room>();
const storage = new Storage();
const records = new BrowserRecords();

let wasmUrl: string | null = null;
let module: Promise<InitOutput> | null = null;
let engine: Promise<Engine> | null = null;
/**
 * The model in the engine, by the key that the page gave it. After another budget it has another key, and
 * goes by those that it had too, but for a load.
 */
let loaded: { key: string; former: Set<string>; card: ModelCard } | null = null;
/** Whose conversation the cache holds. */
let scope = "";

/** The module, fetched and compiled once. */
function prepared(): Promise<InitOutput> {
  module ??= init(wasmUrl === null ? undefined : { module_or_path: wasmUrl }).then((output) => {
    prepareWorker(crash);
    return output;
  });
  return module;
}

/** The engine, started by the first question that needs it. After a failure the next question tries again. */
function started(): Promise<Engine> {
  engine ??= prepared()
    .then(() => Engine.open(records))
    .catch((error: unknown) => {
      engine = null;
      throw error;
    });
  return engine;
}

function fail(kind: WorkerFailure["kind"], message: string): never {
  throw { kind, message } as WorkerFailure;
}

async function holding(key: string): Promise<Engine> {
  if (loaded === null) fail("no-model", "no model is loaded: load one first");
  if (loaded.key !== key && !loaded.former.has(key)) {
    fail("model-replaced", "another model was loaded meanwhile, perhaps in another tab: load this one again");
  }
  return await started();
}

async function load(
  source: WireSource,
  question: Extract<Question, { name: "load" }>,
  told: Told,
): Promise<ModelCard> {
  if (loaded?.key === question.key) return loaded.card;
  const running = await started();
  const had = loaded !== null;
  loaded = null;
  const stored = storage.session((message) => {
    told({ type: "warning", warning: { code: "not-stored", message } });
  });
  try {
    const card =
      source.from === "files"
        ? await running.loadFiles(source.files, question.options, told)
        : await running.loadAddress(
            source.address,
            source.isStored ? stored : undefined,
            question.options,
            told,
          );
    loaded = { key: question.key, former: new Set(), card };
    return card;
  } catch (failure) {
    // One that failed early has left the model before where it was, and nobody can use that any more.
    if (had) await running.unload();
    throw failure;
  } finally {
    storage.rest();
  }
}

async function setBudget(
  { key, newKey, options }: Extract<Question, { name: "budget" }>,
  told: Told,
): Promise<ModelCard> {
  const running = await holding(key);
  const before = loaded;
  try {
    const card = await running.setBudget(options, told);
    const former = new Set(before?.former).add(before?.key ?? key);
    former.delete(newKey);
    loaded = { key: newKey, former, card };
    return card;
  } finally {
    if (!running.holdsModel()) loaded = null;
    storage.rest();
  }
}

async function inspect({ source, options }: Extract<Question, { name: "inspect" }>): Promise<Answer> {
  await prepared();
  if (source.from === "files") return await inspectFiles(source.files, options);
  try {
    // What is kept needs no server; a look keeps nothing.
    return await inspectAddress(source.address, storage.reader(), options);
  } finally {
    storage.rest();
  }
}

async function generate(
  id: number,
  question: Extract<Question, { name: "generate" }>,
  told: Told,
): Promise<Answer> {
  const running = await holding(question.key);
  if (question.scope !== scope) await running.reset();
  scope = question.scope;
  const room = new Room();
  rooms.set(id, room);
  const queuedUs = Math.max(0, Math.round((wallMs() - question.askedAtMs) * 1000));
  try {
    return await running.generate({ ...question.request, queuedUs }, (event) => {
      current?.begin();
      told(event);
      return room.take();
    });
  } finally {
    rooms.delete(id);
    // A device that did not come back took the model with it.
    if (!running.holdsModel()) loaded = null;
  }
}

type Told = (event: WorkerEvent) => void;

/** Answers a question that has the engine to itself. */
async function answer(id: number, question: Question): Promise<Answer> {
  const told = (event: WorkerEvent) => tell({ type: "event", id, event });
  switch (question.name) {
    case "open":
      return await describe((await started()).adapter());
    case "load":
      return await load(question.source, question, told);
    case "generate":
      return await generate(id, question, told);
    case "tokenize":
      return await (await holding(question.key)).tokenize(question.request);
    case "detokenize":
      return await (await holding(question.key)).detokenize(question.ids);
    case "reset":
      await (await holding(question.key)).reset();
      return null;
    case "budget":
      return await setBudget(question, told);
    case "forget-memory":
      await (await started()).forgetMemory();
      return null;
    case "unload":
      if (loaded?.key !== question.key && !loaded?.former.has(question.key)) return null;
      loaded = null;
      await (await started()).unload();
      return null;
    case "verify":
      return await (await started()).verify(question.scope, told);
    default:
      return await aside(question);
  }
}

/** Answers a question that needs no engine to itself. */
async function aside(question: Question): Promise<Answer> {
  switch (question.name) {
    case "inspect":
      return await inspect(question);
    case "cancel":
      await cancel(question.target);
      return null;
    case "memory":
      return (await prepared()).memory.buffer.byteLength;
    case "snapshot":
      return engine === null ? null : await (await engine).snapshot(question.after);
    case "stored":
      return await storage.list();
    case "forget":
      await storage.remove(question.url);
      return null;
    default:
      return fail("request", `there is no question ${(question as { name: string }).name}`);
  }
}

const ASIDE: ReadonlySet<RequestName> = new Set([
  "inspect",
  "cancel",
  "memory",
  "snapshot",
  "stored",
  "forget",
]);

/** Questions that wait for the engine, in order, and the one that has it. */
const waiting: Ask[] = [];
let current: Current | null = null;
/** Another budget for the model that generates the reply at hand. */
let resizing: { id: number; over: Promise<void>; isCancelled: boolean } | null = null;

interface Current {
  id: number;
  name: RequestName;
  over: Promise<void>;
  /** Resolves with the first event of a reply, or when it is over. */
  begun: Promise<void>;
  begin: () => void;
}

async function cancel(target: number): Promise<void> {
  const place = waiting.findIndex(({ id }) => id === target);
  if (place >= 0) {
    waiting.splice(place, 1);
    const failure = { kind: "cancelled", message: "it was cancelled before it began" } as const;
    tell({ type: "failure", id: target, failure });
  } else if (resizing?.id === target) {
    // Broken off it leaves no model to go on with: the reply ends with it.
    resizing.isCancelled = true;
    const over = [resizing.over, current?.over];
    if (current) rooms.get(current.id)?.open();
    await (await started()).cancel();
    await Promise.all(over);
  } else if (current?.id === target) {
    const { over } = current;
    rooms.get(target)?.open();
    // The end of a reply must not break off a budget, and with it the model.
    await resizing?.over;
    if (current?.id === target) await (await started()).cancel();
    await over;
  }
}

function isFailure(thrown: unknown): thrown is WorkerFailure {
  return typeof thrown === "object" && thrown !== null && "kind" in thrown && "message" in thrown;
}

/** Why something broke that is no failure of the engine; a policy is told with what to change about it. */
function reasonOf(thrown: unknown): string {
  const text = String(thrown);
  const isForbidden = /content security policy/i.test(text) && !text.includes("wasm-unsafe-eval");
  return isForbidden
    ? `${text}; add 'wasm-unsafe-eval' to script-src in the policy sent with the worker`
    : text;
}

async function serve(id: number, answering: Promise<Answer>): Promise<void> {
  try {
    tell({ type: "answer", id, answer: await answering });
  } catch (thrown) {
    // What is no failure of the engine is a trap, or a module that could not be fetched or compiled.
    if (isFailure(thrown)) tell({ type: "failure", id, failure: thrown });
    else crash(reasonOf(thrown));
  }
}

/** Gives the engine to one question after the other. */
async function work(): Promise<void> {
  for (let next = waiting.shift(); next; next = waiting.shift()) {
    const { id, question } = next;
    let begin = () => {};
    const begun = new Promise<void>((resolve) => {
      begin = resolve;
    });
    const over = serve(id, answer(id, question));
    current = { id, name: question.name, over, begun, begin };
    await over;
    begin();
    await resizing?.over;
    current = null;
  }
}

/** Gives the model another budget while it generates a reply, which goes on. */
async function resize(id: number, question: Question, reply: Current): Promise<void> {
  const resized = async (): Promise<Answer> => {
    // The engine would refuse a reply that comes while the budget is set.
    await reply.begun;
    try {
      return await answer(id, question);
    } catch (thrown) {
      // At its ends a reply cannot be paused: then the budget comes after it.
      if (!isFailure(thrown) || thrown.kind !== "busy") throw thrown;
      await reply.over;
      if (resizing?.isCancelled) fail("cancelled", "it was cancelled before it began");
      return await answer(id, question);
    }
  };
  const over = serve(id, resized());
  resizing = { id, over, isCancelled: false };
  await over;
  resizing = null;
}

function ask(message: Ask): void {
  const { id, question, mayWait } = message;
  if (ASIDE.has(question.name)) {
    void serve(id, aside(question));
  } else if (question.name === "budget" && current?.name === "generate" && resizing === null) {
    void resize(id, question, current);
  } else if (current !== null && (!mayWait || waiting.length >= QUESTIONS_WAITING_MAX)) {
    const message = mayWait
      ? `${QUESTIONS_WAITING_MAX} requests wait already: let some end first`
      : "the engine is busy with another request: wait for it or cancel it";
    tell({ type: "failure", id, failure: { kind: "busy", message } });
  } else {
    waiting.push(message);
    if (current === null && waiting.length === 1) void work();
  }
}

self.addEventListener("message", ({ data }: MessageEvent<ToWorker>) => {
  if (data.type === "ask") ask(data);
  else if (data.type === "acknowledge") rooms.get(data.id)?.giveBack();
  else wasmUrl = data.wasmUrl;
});

/** Says that this worker lives, and how the page hears of its end. */
async function begin(): Promise<void> {
  // Held until this worker ends, however it ends: the page waits for the same lock and so hears of the end.
  const name = `fanlight-worker-${crypto.randomUUID()}`;
  const isHeld = await new Promise<boolean>((held) => {
    const hold = () => {
      held(true);
      return new Promise<void>(() => {});
    };
    // A page without site data, as in a sandbox, may have no locks.
    if (navigator.locks) navigator.locks.request(name, hold).catch(() => held(false));
    else held(false);
  });
  tell({ type: "alive", lock: isHeld ? name : null });
}

void begin();
