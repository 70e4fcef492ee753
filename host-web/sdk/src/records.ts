// What the engine keeps from one visit to the next, as small records in IndexedDB: replies that drafts are
// made from, and what steps cost. The engine knows what is in them, and refuses what is damaged.

import type { RecordKind, Records } from "./fanlight.js";

const DATABASE = "fanlight-engine";
const VERSION = 1;
/** Records of a kind; beyond, the one that was written longest ago goes. A memory has at most 0.4 MB. */
const RECORDS_MAX: Readonly<Record<RecordKind, number>> = { memory: 16, costs: 64 };
/** Who changes a record holds this lock, over all engines of the origin. */
const LOCK = "fanlight-records";
/** Another engine changes a record in milliseconds; one that does not end is not waited for. */
const LOCK_WAIT_MS = 2000;

interface Kept {
  name: string;
  bytes: Uint8Array;
  /** When it was written, in milliseconds since 1970. */
  changed: number;
}

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

export class BrowserRecords implements Records {
  private database: Promise<IDBDatabase> | null = null;

  private open(): Promise<IDBDatabase> {
    this.database ??= this.opened().catch((error: unknown) => {
      this.database = null;
      throw error;
    });
    return this.database;
  }

  private async opened(): Promise<IDBDatabase> {
    const request = indexedDB.open(DATABASE, VERSION);
    request.onupgradeneeded = () => {
      for (const kind of Object.keys(RECORDS_MAX)) {
        request.result.createObjectStore(kind, { keyPath: "name" }).createIndex("changed", "changed");
      }
    };
    const database = await done(request);
    // Somebody clears what the origin keeps, or a later version wants the database for itself.
    database.onversionchange = database.onclose = () => {
      database.close();
      this.database = null;
    };
    return database;
  }

  async read(kind: RecordKind, name: string): Promise<unknown> {
    const store = (await this.open()).transaction(kind, "readonly").objectStore(kind);
    const kept = (await done(store.get(name))) as Partial<Kept> | undefined;
    // A record without bytes is none of ours, which is for the engine to say.
    return kept === undefined ? undefined : (kept.bytes ?? null);
  }

  async write(kind: RecordKind, name: string, bytes: Uint8Array): Promise<void> {
    const transaction = (await this.open()).transaction(kind, "readwrite");
    const over = committed(transaction);
    const store = transaction.objectStore(kind);
    const kept: Kept = { name, bytes, changed: Date.now() };
    store.put(kept);
    const count = store.count();
    count.onsuccess = () => {
      let surplus = count.result - RECORDS_MAX[kind];
      if (surplus <= 0) return;
      const oldest = store.index("changed").openCursor();
      oldest.onsuccess = () => {
        const cursor = oldest.result;
        if (!cursor || surplus-- <= 0) return;
        cursor.delete();
        cursor.continue();
      };
    };
    await over;
  }

  async names(kind: RecordKind): Promise<string[]> {
    const store = (await this.open()).transaction(kind, "readonly").objectStore(kind);
    return (await done(store.getAllKeys())).map(String);
  }

  async lock(): Promise<() => void> {
    return await new Promise((granted, failed) => {
      const signal = AbortSignal.timeout(LOCK_WAIT_MS);
      const held = () => new Promise<void>((over) => granted(over));
      navigator.locks.request(LOCK, { signal }, held).catch((error: unknown) => {
        failed(signal.aborted ? new Error("another page has been changing it for too long") : error);
      });
    });
  }
}
