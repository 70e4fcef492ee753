// A conversation as a tree: an edited question and a regenerated answer are branches beside what was there.
// Pure.

/** What somebody said. */
export interface Entry {
  id: string;
  /** The entry before; null for a first question. */
  parent: string | null;
  role: "user" | "assistant";
  content: string;
  /** Of an answer: how it ended, and its measurements in words. */
  ending?: Ending;
  note?: string;
}

export type Ending = "stop" | "length" | "full" | "cancelled" | "broken";

export interface Conversation {
  id: string;
  title: string;
  /** Milliseconds since 1970. */
  created: number;
  changed: number;
  entries: Entry[];
  /** The entry at the end of the branch that is shown; null while there is none. */
  leaf: string | null;
  /** Text that answers are to be grounded on; empty for none. */
  grounding: string;
  /** Whether the oldest turns are left out when the context is full. */
  dropsOldest: boolean;
}

const TITLE_LENGTH = 60;

export function newConversation(now: number): Conversation {
  return {
    id: crypto.randomUUID(),
    title: "New conversation",
    created: now,
    changed: now,
    entries: [],
    leaf: null,
    grounding: "",
    dropsOldest: false,
  };
}

/** The entries of the branch that is shown, oldest first. */
export function path(conversation: Conversation, leaf = conversation.leaf): Entry[] {
  const byId = new Map(conversation.entries.map((entry) => [entry.id, entry]));
  const found: Entry[] = [];
  for (
    let at = leaf === null ? undefined : byId.get(leaf);
    at;
    at = at.parent === null ? undefined : byId.get(at.parent)
  ) {
    // A file that was tampered with may hold a circle.
    if (found.includes(at)) break;
    found.unshift(at);
  }
  return found;
}

/** The entries that stand in the place of this one, itself included, oldest first. */
export function siblings(conversation: Conversation, entry: Entry): Entry[] {
  return conversation.entries.filter(({ parent, role }) => parent === entry.parent && role === entry.role);
}

/** The end of the newest branch through an entry. */
export function newestLeaf(conversation: Conversation, id: string): string {
  const child = conversation.entries.findLast(({ parent }) => parent === id);
  return child ? newestLeaf(conversation, child.id) : id;
}

/** With one more entry, which becomes the leaf. The first question gives the title. */
export function withEntry(conversation: Conversation, entry: Entry, now: number): Conversation {
  const isFirst = conversation.entries.length === 0;
  const title = isFirst ? titleOf(entry.content) : conversation.title;
  return { ...conversation, title, changed: now, entries: [...conversation.entries, entry], leaf: entry.id };
}

/** With an entry changed. */
export function withChange(
  conversation: Conversation,
  id: string,
  change: Partial<Entry>,
  now: number,
): Conversation {
  const entries = conversation.entries.map((entry) => (entry.id === id ? { ...entry, ...change } : entry));
  return { ...conversation, entries, changed: now };
}

/** Without an entry and what follows it; its parent becomes the leaf. */
export function without(conversation: Conversation, id: string): Conversation {
  const gone = new Set([id]);
  for (const { id: child, parent } of conversation.entries)
    if (parent !== null && gone.has(parent)) gone.add(child);
  const parent = conversation.entries.find((entry) => entry.id === id)?.parent ?? null;
  const entries = conversation.entries.filter((entry) => !gone.has(entry.id));
  return { ...conversation, entries, leaf: parent };
}

function titleOf(text: string): string {
  const line = text.trim().split("\n")[0] ?? "";
  return line.length <= TITLE_LENGTH ? line : `${line.slice(0, TITLE_LENGTH - 1).trimEnd()}…`;
}

export interface Message {
  role: "system" | "user" | "assistant";
  content: string;
}

/** What the model is told: instructions, the text to go by, and the branch up to `leaf`. */
export function messages(conversation: Conversation, system: string, leaf = conversation.leaf): Message[] {
  const turns: Message[] = path(conversation, leaf).map(({ role, content }) => ({ role, content }));
  const { grounding } = conversation;
  const first = turns[0];
  if (grounding.trim() !== "" && first) {
    const text = `Use this text to answer:\n\n${grounding.trim()}\n\n---\n\n${first.content}`;
    turns[0] = { ...first, content: text };
  }
  return system.trim() === "" ? turns : [{ role: "system", content: system.trim() }, ...turns];
}

/** The same without the oldest question and its answer; null when nothing can be left out. */
export function withoutOldest(all: Message[]): Message[] | null {
  const start = all[0]?.role === "system" ? 1 : 0;
  const next = all.findIndex(({ role }, at) => at > start && role === "user");
  return next < 0 ? null : [...all.slice(0, start), ...all.slice(next)];
}

/** A conversation read from a file. Throws an Error that says what is wrong with it. */
export function checked(value: unknown): Conversation {
  const wrong = (what: string): never => {
    throw new Error(`the file holds no conversation of this page: ${what}`);
  };
  if (typeof value !== "object" || value === null) return wrong("an entry is no object");
  const from = value as Partial<Conversation>;
  if (!Array.isArray(from.entries)) return wrong("entries are missing");
  const entries = from.entries.map((entry: Partial<Entry>): Entry => {
    const { id, parent = null, role, content, ending, note } = entry;
    if (typeof id !== "string" || (role !== "user" && role !== "assistant") || typeof content !== "string") {
      return wrong("an entry has no id, role or text");
    }
    return {
      id,
      parent,
      role,
      content,
      ...(ending ? { ending } : {}),
      ...(note ? { note: String(note) } : {}),
    };
  });
  const base = newConversation(Date.now());
  const leaf = entries.some(({ id }) => id === from.leaf)
    ? (from.leaf ?? null)
    : (entries.at(-1)?.id ?? null);
  return {
    ...base,
    title: String(from.title ?? "Imported"),
    created: Number(from.created) || base.created,
    changed: Number(from.changed) || base.changed,
    entries,
    leaf,
    grounding: String(from.grounding ?? ""),
    dropsOldest: from.dropsOldest === true,
  };
}
