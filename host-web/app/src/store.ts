// What the page remembers on this computer: conversations and folders in IndexedDB, settings in local
// storage. Other tabs write to the same places: every change is read, changed and written in one go.

import { checked, merged, type Conversation, type Field } from "./conversation.js";
import { readSettings } from "./settings.js";

const DATABASE = "fanlight";
const VERSION = 1;
/** Tabs tell each other here what they have changed. */
const CHANNEL = "fanlight-conversations";

function done<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error ?? new Error("the browser's database failed"));
  });
}

function committed(transaction: IDBTransaction): Promise<void> {
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve();
    transaction.onabort = () => reject(transaction.error ?? new Error("the browser's database gave up"));
  });
}

let database: Promise<IDBDatabase> | null = null;

function open(): Promise<IDBDatabase> {
  database ??= (() => {
    const request = indexedDB.open(DATABASE, VERSION);
    request.onupgradeneeded = () => {
      request.result.createObjectStore("conversations", { keyPath: "id" });
      request.result.createObjectStore("folders", { keyPath: "name" });
    };
    return done(request);
  })();
  return database;
}

async function store(name: "conversations" | "folders", mode: IDBTransactionMode): Promise<IDBObjectStore> {
  return (await open()).transaction(name, mode).objectStore(name);
}

/** Which conversations another tab has changed; null for all of them. */
type Letter = { ids: string[] | null };

let channel: BroadcastChannel | null = null;

/** Hears of the changes that other tabs make. */
export function onChange(heard: (ids: string[] | null) => void): void {
  channel = new BroadcastChannel(CHANNEL);
  channel.onmessage = ({ data }: MessageEvent<Letter>) => heard(data.ids);
}

function tell(ids: string[] | null): void {
  channel?.postMessage({ ids } satisfies Letter);
}

/** What was kept, if it is a conversation: another version of the page may have written something else. */
function read(value: unknown): Conversation | null {
  try {
    return checked(value);
  } catch {
    return null;
  }
}

/** All conversations, the last changed first; none where the browser keeps nothing. */
export async function readConversations(): Promise<Conversation[]> {
  try {
    const all = (await done((await store("conversations", "readonly")).getAll())) as unknown[];
    const known = all.map(read).filter((conversation) => conversation !== null);
    return known.sort((a, b) => b.changed - a.changed);
  } catch {
    return [];
  }
}

/** One conversation; null when it is not kept. */
export async function readConversation(id: string): Promise<Conversation | null> {
  return read(await done((await store("conversations", "readonly")).get(id)));
}

/**
 * Adds a conversation's entries to what is kept of it, with the fields that were just set, and returns what
 * is kept then. Nothing is written, and null returned, where the visitor wants nothing kept: any tab may have
 * said so.
 */
export async function keepConversation(
  mine: Conversation,
  fields: readonly Field[],
): Promise<Conversation | null> {
  const place = await store("conversations", "readwrite");
  if (!readSettings().keeps) return null;
  const over = committed(place.transaction);
  let whole = mine;
  const request = place.get(mine.id) as IDBRequest<unknown>;
  request.onsuccess = () => {
    const kept = read(request.result);
    if (kept) whole = merged(kept, mine, fields);
    place.put(whole);
  };
  await over;
  tell([mine.id]);
  return whole;
}

export async function removeConversation(id: string): Promise<void> {
  await done((await store("conversations", "readwrite")).delete(id));
  tell([id]);
}

export async function removeAllConversations(): Promise<void> {
  await done((await store("conversations", "readwrite")).clear());
  tell(null);
}

/** Folders that were opened before; the browser asks again before they are read. */
export async function readFolders(): Promise<FileSystemDirectoryHandle[]> {
  try {
    const all = (await done((await store("folders", "readonly")).getAll())) as {
      handle: FileSystemDirectoryHandle;
    }[];
    return all.map(({ handle }) => handle);
  } catch {
    return [];
  }
}

export async function rememberFolder(handle: FileSystemDirectoryHandle): Promise<void> {
  await done((await store("folders", "readwrite")).put({ name: handle.name, handle }));
}
