// A conversation as a tree: an edited question and a regenerated answer are branches next to what was there.
// Pure.

/** What somebody said. Once it is written down, an entry only grows. */
export interface Entry {
  id: string;
  /** The entry before; null for a first question. */
  parent: string | null;
  role: "user" | "assistant";
  content: string;
  /** Of an answer: how it ended, its measurements in words, and the model that gave it. */
  ending?: Ending;
  note?: string;
  model?: string;
  /** Of an answer: what the model thought before it, which is not sent again, and for how long. */
  thoughts?: string;
  thoughtMs?: number;
}

const ENDINGS = ["stop", "length", "full", "cancelled", "broken"] as const;

export type Ending = (typeof ENDINGS)[number];

export interface Conversation {
  id: string;
  title: string;
  /** Milliseconds since 1970. */
  created: number;
  changed: number;
  entries: Entry[];
  /** The entry at the end of the branch that is shown; null while there is none. */
  leaf: string | null;
  /** Text that answers are based on; empty for none. */
  grounding: string;
  /** Whether the oldest turns are left out when the context is full. */
  dropsOldest: boolean;
}

const TITLE_LENGTH = 60;

/** A random id. Made here, as pages that were not opened securely have no `randomUUID`. */
export function newId(): string {
  return Array.from(crypto.getRandomValues(new Uint32Array(4)), (part) => part.toString(16)).join("-");
}

export function newConversation(now: number): Conversation {
  return {
    id: newId(),
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
  const found = new Set<Entry>();
  let at = leaf === null ? undefined : byId.get(leaf);
  // A file that was tampered with may hold a circle.
  while (at && !found.has(at)) {
    found.add(at);
    at = at.parent === null ? undefined : byId.get(at.parent);
  }
  return [...found].reverse();
}

/** The entries that stand in the place of this one, itself included, oldest first. */
export function siblings(conversation: Conversation, entry: Entry): Entry[] {
  return conversation.entries.filter(({ parent, role }) => parent === entry.parent && role === entry.role);
}

/** The end of the newest branch through an entry. */
export function newestLeaf(conversation: Conversation, id: string): string {
  const seen = new Set<string>();
  for (let at = id; !seen.has(at); ) {
    seen.add(at);
    at = conversation.entries.findLast(({ parent }) => parent === at)?.id ?? at;
  }
  return [...seen].at(-1) ?? id;
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

/** What a change to a conversation can set besides its entries. */
export type Field = "title" | "leaf" | "grounding" | "dropsOldest";

/**
 * Two versions of one conversation as one: the entries of both, and of what else there is `base`'s, but for
 * the fields that `other` has just set.
 */
export function merged(base: Conversation, other: Conversation, fields: readonly Field[]): Conversation {
  const entries = new Map(base.entries.map((entry) => [entry.id, entry]));
  for (const entry of other.entries) {
    const known = entries.get(entry.id);
    // An entry only grows, so the longer one is the newer.
    if (!known || entry.content.length >= known.content.length) entries.set(entry.id, entry);
  }
  const set = Object.fromEntries(fields.map((field) => [field, other[field]])) as Partial<Conversation>;
  const changed = Math.max(base.changed, other.changed);
  return { ...base, ...set, changed, entries: [...entries.values()] };
}

/** The first line of a text, cut where a list has no room. */
export function titleOf(text: string): string {
  const line = text.trim().split("\n")[0] ?? "";
  return line.length <= TITLE_LENGTH ? line : `${line.slice(0, TITLE_LENGTH - 1).trimEnd()}…`;
}

export interface Message {
  role: "system" | "user" | "assistant";
  content: string;
}

/** A branch as turns of a question and its answer. */
export interface Turns {
  system: string;
  /** Text that answers are based on. It stays when turns are dropped. */
  grounding: string;
  turns: Message[];
}

export function turnsOf(conversation: Conversation, system: string, leaf = conversation.leaf): Turns {
  const turns = path(conversation, leaf).map(({ role, content }) => ({ role, content }));
  return { system: system.trim(), grounding: conversation.grounding.trim(), turns };
}

/** What the model is told: instructions, the text that answers are based on, and the turns. */
export function messages({ system, grounding, turns }: Turns): Message[] {
  const [first, ...rest] = turns;
  const told = [...turns];
  if (grounding !== "" && first) {
    const content = `Use this text to answer:\n\n${grounding}\n\n---\n\n${first.content}`;
    told.splice(0, told.length, { ...first, content }, ...rest);
  }
  return system === "" ? told : [{ role: "system", content: system }, ...told];
}

/** The same without the oldest question and its answer; null when nothing can be left out. */
export function withoutOldest(all: Turns): Turns | null {
  const next = all.turns.findIndex(({ role }, at) => at > 0 && role === "user");
  return next < 0 ? null : { ...all, turns: all.turns.slice(next) };
}

function checkedEntry(value: unknown, wrong: (what: string) => never): Entry {
  if (typeof value !== "object" || value === null) return wrong("an entry is no object");
  const from = value as Partial<Record<keyof Entry, unknown>>;
  const { id, parent = null, role, content, ending, note, model, thoughts, thoughtMs } = from;
  if (typeof id !== "string" || (role !== "user" && role !== "assistant") || typeof content !== "string")
    return wrong("an entry has no id, role or text");
  if (parent !== null && typeof parent !== "string") return wrong("an entry's parent is no id");
  const known = ENDINGS.find((name) => name === ending);
  if (ending !== undefined && !known) return wrong("an answer has an unknown ending");
  return {
    id,
    parent,
    role,
    content,
    ...(known ? { ending: known } : {}),
    ...(typeof note === "string" ? { note } : {}),
    ...(typeof model === "string" ? { model } : {}),
    ...(typeof thoughts === "string" ? { thoughts } : {}),
    ...(typeof thoughtMs === "number" ? { thoughtMs } : {}),
  };
}

/** A conversation that was kept or exported. Throws an Error that says what is wrong with it. */
export function checked(value: unknown): Conversation {
  const wrong = (what: string): never => {
    throw new Error(`the file holds no conversation of this page: ${what}`);
  };
  if (typeof value !== "object" || value === null) return wrong("a conversation is no object");
  const from = value as Partial<Record<keyof Conversation, unknown>>;
  if (!Array.isArray(from.entries)) return wrong("entries are missing");
  const entries = from.entries.map((entry) => checkedEntry(entry, wrong));
  const base = newConversation(Date.now());
  const leaf = entries.find(({ id }) => id === from.leaf) ?? entries.at(-1);
  return {
    id: typeof from.id === "string" ? from.id : base.id,
    title: typeof from.title === "string" ? from.title : "Imported",
    created: Number(from.created) || base.created,
    changed: Number(from.changed) || base.changed,
    entries,
    leaf: leaf?.id ?? null,
    grounding: typeof from.grounding === "string" ? from.grounding : "",
    dropsOldest: from.dropsOldest === true,
  };
}
