// Asking and answering: what is sent to the model, what comes back, and where it is kept.

import { FanlightError, type GenerateOptions, type Generation } from "fanlight";

import {
  messages,
  newestLeaf,
  newId,
  path,
  siblings,
  turnsOf,
  withChange,
  withEntry,
  without,
  withoutOldest,
  type Conversation,
  type Ending,
  type Entry,
  type Message,
} from "./conversation.js";
import { during, running } from "./engine.js";
import { speedLine } from "./format.js";
import { keep, put, unfinished } from "./keeping.js";
import * as state from "./state.js";
import { begin, type Writer } from "./writer.js";

/** Tokens kept free for an answer when old turns are left out. */
const ANSWER_ROOM = 256;

/** Asks a question at the end of the branch. */
export async function ask(text: string): Promise<void> {
  if (state.activity.value !== "idle" || text.trim() === "") return;
  await askAfter(state.current.value.leaf, text);
}

/** Asks another question in the place of one. */
export async function edit(entry: Entry, text: string): Promise<void> {
  if (state.activity.value !== "idle" || text.trim() === "") return;
  await askAfter(entry.parent, text);
}

async function askAfter(parent: string | null, content: string): Promise<void> {
  const question: Entry = { id: newId(), parent, role: "user", content };
  unfinished.add(question.id);
  put(withEntry(state.current.value, question, Date.now()));
  state.draft.value = "";
  const isAnswered = await answer(question.id);
  unfinished.delete(question.id);
  if (isAnswered || hasAnswer(question.id)) return await keep(state.current.value, ["title", "leaf"]);
  // The question is given back, to be asked again.
  put({ ...without(state.current.value, question.id), leaf: parent });
  state.draft.value = content;
}

function hasAnswer(question: string): boolean {
  return state.current.value.entries.some(({ parent }) => parent === question);
}

/** Answers the question before an answer once more, next to it. */
export async function regenerate(entry: Entry): Promise<void> {
  if (entry.parent !== null) await answerAgain(entry.parent);
}

/** Shows the branch of another sibling. */
export function turnTo(entry: Entry, by: number): void {
  const all = siblings(state.current.value, entry);
  const other = all[all.indexOf(entry) + by];
  if (!other || state.activity.value !== "idle") return;
  put({ ...state.current.value, leaf: newestLeaf(state.current.value, other.id) });
  void keep(state.current.value, ["leaf"]);
}

/** What the model is told, without the oldest turns where that was chosen and is needed. */
async function fitted(conversation: Conversation, leaf: string): Promise<Message[]> {
  let all = turnsOf(conversation, state.settings.value.system, leaf);
  if (!conversation.dropsOldest || running().model?.hasChatTemplate === false) return messages(all);
  const { contextLength } = running().model ?? { contextLength: 0 };
  const room = Math.min(ANSWER_ROOM, Math.floor(contextLength / 4));
  while ((await running().countTokens(messages(all))) > contextLength - room) {
    const shorter = withoutOldest(all);
    if (!shorter) break;
    all = shorter;
  }
  return messages(all);
}

/** Answers a question; the answer becomes the leaf. True when it was not broken off. */
function answer(question: string): Promise<boolean> {
  const offers = () => [
    { label: "Drop the oldest turns and ask again", run: () => void dropAndAnswer(question) },
  ];
  let isFull = false;
  return during(
    "answering",
    async () => {
      const id = newId();
      const model = state.modelName.value;
      const reply: Entry = { id, parent: question, role: "assistant", content: "", model };
      const writer = begin(id);
      unfinished.add(id);
      try {
        const told = await fitted(state.current.value, question);
        const isChat = running().model?.hasChatTemplate !== false;
        // A model without a template continues the text of the branch.
        const prompt = told.map(({ content: said }) => said).join("\n");
        const generation = running().generate(isChat ? told : { prompt }, replyOptions());
        put(withEntry(state.current.value, reply, Date.now()));
        await read(generation, reply.id, writer);
      } catch (failure) {
        isFull = failure instanceof FanlightError && failure.code === "prompt-too-long";
        const ending: Ending = "broken";
        const said = { ...writer.said(), ending };
        put(
          said.content === "" && said.thoughts === undefined
            ? { ...without(state.current.value, reply.id), leaf: question }
            : withChange(state.current.value, reply.id, said, Date.now()),
        );
        throw failure;
      } finally {
        writer.end();
        unfinished.delete(id);
        state.live.value = null;
        state.thoughts.value = null;
        state.pass.value = null;
      }
    },
    () => (isFull ? offers() : []),
  );
}

/** What the setting is called by the engine. */
const THINK = { model: "template", on: true, off: false } as const;

/** What the settings say about answers. */
function replyOptions(): GenerateOptions {
  const { maxTokens, temperature, topP, topK, minP, repeatPenalty, seed } = state.settings.value;
  const { remembers, keeps, thinks } = state.settings.value;
  const chosen = { temperature, topP, topK, minP, repeatPenalty };
  // Where conversations are not kept, answers are not either.
  const memory = remembers === "origin" && !keeps ? "conversation" : remembers;
  const options: GenerateOptions = { maxTokens, ...chosen, memory, think: THINK[thinks] };
  if (seed.trim() !== "") options.seed = Number(seed);
  return options;
}

/** Reads an answer to its end; it is read as fast as it can be shown. */
async function read(generation: Generation, id: string, writer: Writer): Promise<void> {
  for await (const event of generation) {
    if (event.type === "text") await writer.append(event.delta);
    else if (event.type === "reasoning") await writer.think(event.delta);
    else if (event.type === "stats") state.live.value = event.stats;
    else if (event.type === "progress") state.pass.value = event;
    else if (event.type === "warning") {
      state.notice.value = { kind: "note", title: "Please note", text: event.warning.message };
    } else if (event.type === "done") {
      const { stats, reason } = event;
      const isFull = reason === "length" && stats.promptTokens + stats.tokens >= stats.contextLength;
      const change = {
        ...writer.said(),
        ending: isFull ? ("full" as const) : reason,
        note: speedLine(stats),
      };
      put(withChange(state.current.value, id, change, Date.now()));
    }
  }
}

/** Answers a question that has no answer. */
export async function answerAgain(question: string): Promise<void> {
  await answer(question);
  await keep(state.current.value, ["leaf"]);
}

/** Leaves out the oldest turns from now on, and answers a question. */
export async function dropAndAnswer(question: string): Promise<void> {
  put({ ...state.current.value, dropsOldest: true });
  if (!state.current.value.entries.some(({ id }) => id === question)) {
    // The question was given back to the composer.
    await ask(state.draft.value);
  } else await answerAgain(question);
}

/** Goes on after the oldest turns no longer fit. */
export function dropOldest(): void {
  put({ ...state.current.value, dropsOldest: true });
  void keep(state.current.value, ["dropsOldest"]);
}

/** Text that answers are based on. */
export function ground(text: string): void {
  put({ ...state.current.value, grounding: text });
  void keep(state.current.value, ["grounding"]);
}

/** The question at the end of the branch, if it has no answer. */
export function unanswered(): Entry | null {
  const last = path(state.current.value).at(-1);
  return last?.role === "user" ? last : null;
}
