// One record that all tabs of this origin share: read, changed and written in one transaction of the
// browser's database, so that no tab writes back a stale copy.

const STORE = "record";
const KEY = "value";

function done<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error ?? new Error("the browser's database failed"));
  });
}

export class SharedRecord<T> {
  private database: Promise<IDBDatabase> | null = null;
  private readonly channel: BroadcastChannel;

  /** `checked` makes a value of what is stored, which may be nothing, or anything. */
  constructor(
    private readonly name: string,
    private readonly checked: (stored: unknown) => T,
  ) {
    this.channel = new BroadcastChannel(`${name}-record`);
  }

  /** Hears when another tab has changed it. */
  onChange(heard: () => void): void {
    this.channel.onmessage = heard;
  }

  async read(): Promise<T> {
    const store = (await this.open()).transaction(STORE, "readonly").objectStore(STORE);
    return this.checked(await done(store.get(KEY)));
  }

  /** Changes what is stored at that moment, whoever stored it; what is stored then. */
  async change(apply: (value: T) => T): Promise<T> {
    const transaction = (await this.open()).transaction(STORE, "readwrite");
    const store = transaction.objectStore(STORE);
    const value = apply(this.checked(await done(store.get(KEY))));
    await done(store.put(value, KEY));
    this.channel.postMessage(null);
    return value;
  }

  private open(): Promise<IDBDatabase> {
    this.database ??= (() => {
      const request = indexedDB.open(this.name, 1);
      request.onupgradeneeded = () => request.result.createObjectStore(STORE);
      return done(request);
    })();
    return this.database;
  }
}
