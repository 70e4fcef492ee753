// What the page remembers on this computer: conversations and folders in IndexedDB, settings in local
// storage.

import type { Conversation } from "./conversation.js";

const DATABASE = "fanlight";
const VERSION = 1;

export interface Settings {
  /** Tokens of the context at the next load. */
  contextLength: number;
  /** What the model may take on the GPU: all that it needs, a preset, or as many MiB as `budgetMiB` says. */
  memory: "all" | "fast" | "saver" | "lite" | "custom";
  budgetMiB: number;
  /** MiB of other memory that keep weights which stream. */
  cacheMiB: number;
  /** How tokens are chosen; the seed is a number or empty for another one each time. */
  temperature: number;
  topP: number;
  topK: number;
  minP: number;
  repeatPenalty: number;
  seed: string;
  /** Most tokens of an answer. */
  maxTokens: number;
  /** Which earlier answers drafts are made from. */
  remembers: "off" | "conversation" | "origin";
  /** Instructions to the model. */
  system: string;
  /** Whether conversations are kept on this computer. */
  keeps: boolean;
  theme: Theme;
}

export type Theme = "auto" | "light" | "dark";

export const DEFAULTS: Settings = {
  contextLength: 4096,
  memory: "all",
  budgetMiB: 2048,
  cacheMiB: 0,
  temperature: 0.7,
  topP: 0.95,
  topK: 0,
  minP: 0,
  repeatPenalty: 1,
  seed: "",
  maxTokens: 512,
  remembers: "origin",
  system: "",
  keeps: true,
  theme: "auto",
};

const SETTINGS = "fanlight-settings";

export function readSettings(): Settings {
  try {
    return { ...DEFAULTS, ...(JSON.parse(localStorage.getItem(SETTINGS) ?? "{}") as Partial<Settings>) };
  } catch {
    // Storage that is forbidden, or text that somebody changed.
    return { ...DEFAULTS };
  }
}

export function writeSettings(settings: Settings): void {
  try {
    localStorage.setItem(SETTINGS, JSON.stringify(settings));
  } catch {
    // The settings hold until the page is closed.
  }
}

function done<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error ?? new Error("the browser's database failed"));
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

/** All conversations, the last changed first; none where the browser keeps nothing. */
export async function readConversations(): Promise<Conversation[]> {
  try {
    const all = (await done((await store("conversations", "readonly")).getAll())) as Conversation[];
    return all.sort((a, b) => b.changed - a.changed);
  } catch {
    return [];
  }
}

export async function writeConversation(conversation: Conversation): Promise<void> {
  await done((await store("conversations", "readwrite")).put(conversation));
}

export async function removeConversation(id: string): Promise<void> {
  await done((await store("conversations", "readwrite")).delete(id));
}

export async function removeAllConversations(): Promise<void> {
  await done((await store("conversations", "readwrite")).clear());
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
