// The conversations of this tab and what is kept of them, which other tabs change too.

import {
  checked,
  merged,
  newConversation,
  path,
  type Conversation,
  type Field,
} from "./conversation.js";
import { forgetAnswers, showFailure } from "./engine.js";
import * as state from "./state.js";
import * as store from "./store.js";

/** Entries that may be taken back: an answer that is being written, and a question without one. */
export const unfinished = new Set<string>();

/** A conversation without what may be taken back. */
function finished(conversation: Conversation): Conversation {
  const { leaf } = conversation;
  const entries = conversation.entries.filter(({ id }) => !unfinished.has(id));
  const end = path(conversation).findLast(({ id }) => !unfinished.has(id));
  return { ...conversation, entries, leaf: end?.id ?? (entries.length === 0 ? null : leaf) };
}

/** Shows a version of a conversation in the list, and as the one at hand if it is that. */
function show(conversation: Conversation): void {
  const { value: all } = state.conversations;
  const isKnown = all.some(({ id }) => id === conversation.id);
  state.conversations.value = isKnown
    ? all.map((other) => (other.id === conversation.id ? conversation : other))
    : [conversation, ...all];
  if (state.current.value.id === conversation.id) state.current.value = conversation;
}

/** Changes the conversation at hand, here only. */
export function put(conversation: Conversation): void {
  state.current.value = conversation;
  const others = state.conversations.value.filter(({ id }) => id !== conversation.id);
  state.conversations.value = [conversation, ...others];
}

/** Writes a conversation down, if the visitor wants that: its entries, and the fields that were set. */
export async function keep(whole: Conversation, fields: readonly Field[]): Promise<void> {
  const conversation = finished(whole);
  if (conversation.entries.length === 0) return;
  try {
    const kept = await store.keepConversation(conversation, fields);
    // What was written meanwhile, here, stays.
    const now = find(conversation.id);
    if (kept && now) show(merged(kept, now, ["leaf", ...fields]));
  } catch (failure) {
    showFailure(
      new Error(`the conversation could not be kept on this computer (${String(failure)}): export it`),
    );
  }
}

function find(id: string): Conversation | undefined {
  const { value: at } = state.current;
  return at.id === id ? at : state.conversations.value.find((other) => other.id === id);
}

/** Follows what other tabs do. */
export function follow(): void {
  store.onChange((ids) => {
    // Where nothing is kept any more, what is open here stays until the page is closed.
    for (const id of ids ?? []) void reread(id).catch(showFailure);
  });
}

async function reread(id: string): Promise<void> {
  const kept = await store.readConversation(id);
  const mine = find(id);
  if (kept) {
    // An answer that is being written here stays the end of the branch.
    const isWriting = state.activity.value === "answering" && state.current.value.id === id;
    show(mine ? merged(kept, mine, isWriting ? ["leaf"] : []) : kept);
  } else if (mine && state.activity.value !== "answering") drop(mine);
}

function drop({ id }: Conversation): void {
  state.conversations.value = state.conversations.value.filter((other) => other.id !== id);
  if (state.current.value.id === id) startNew();
}

/** Begins another conversation. */
export function startNew(): void {
  if (state.activity.value === "answering") return;
  state.current.value = newConversation(Date.now());
  state.isSidebarOpen.value = false;
}

/** Opens a conversation. */
export function open(conversation: Conversation): void {
  if (state.activity.value === "answering") return;
  state.current.value = conversation;
  state.isSidebarOpen.value = false;
}

/**
 * Removes a conversation, and the answers that drafts could be made from: they may be its own. It can be
 * brought back as long as the message about it is there.
 */
export async function remove(conversation: Conversation): Promise<void> {
  const isOpen = state.current.value.id === conversation.id;
  drop(conversation);
  try {
    await store.removeConversation(conversation.id);
    await forgetAnswers();
  } catch (failure) {
    return showFailure(failure);
  }
  const restore = () => {
    show(conversation);
    if (isOpen) open(conversation);
    void keep(conversation, ["title", "leaf", "grounding", "dropsOldest"]);
  };
  state.notice.value = {
    kind: "note",
    title: "Conversation deleted",
    text: `“${conversation.title}” is gone from this computer.`,
    actions: [{ label: "Undo", run: restore }],
  };
}

/** Keeps conversations from now on, with those that are open. */
export async function beginKeeping(): Promise<void> {
  state.set({ keeps: true });
  for (const conversation of state.conversations.value) await keep(conversation, []);
}

/** Keeps nothing from now on and removes what is kept; what is open here stays until the page is closed. */
export async function endKeeping(): Promise<void> {
  state.set({ keeps: false });
  try {
    await store.removeAllConversations();
    await forgetAnswers();
  } catch (failure) {
    showFailure(failure);
  }
}

/** The form of a file of conversations. */
const FORMAT = "fanlight-conversations";

/** All conversations as a file. */
export function exported(): File {
  const conversations = state.conversations.value.filter(({ entries }) => entries.length > 0);
  const text = JSON.stringify({ format: FORMAT, version: 1, conversations }, null, 2);
  return new File([text], `${FORMAT}.json`, { type: "application/json" });
}

/** Adds the conversations of a file; those that are there already get what the file has more. */
export async function imported(file: File): Promise<void> {
  try {
    const { format, conversations } = JSON.parse(await file.text()) as {
      format?: string;
      conversations?: unknown[];
    };
    if (format !== FORMAT || !Array.isArray(conversations)) {
      throw new Error(`${file.name} holds no conversations of this page: choose a file that it exported`);
    }
    const read = conversations.map(checked);
    for (const conversation of read) {
      const mine = find(conversation.id);
      show(mine ? merged(mine, conversation, []) : conversation);
      await keep(conversation, []);
    }
    const first = read[0] && find(read[0].id);
    if (first) open(first);
  } catch (failure) {
    showFailure(
      failure instanceof SyntaxError
        ? new Error(`${file.name} is no JSON: choose a file that this page exported`)
        : failure,
    );
  }
}
