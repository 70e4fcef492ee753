// Downloaded files in the origin's private file system: chunks with a hash each, and a mark that is written
// last. Runs in the worker, where files have synchronous handles.
//
// A file of the server's is a folder named by the hash of its address, with `about` (JSON: address, length,
// version), `data` (the chunks at their places), `hashes` (32 bytes per chunk, zeros for one that is not
// there) and `complete`. A hash is written after its chunk, so whatever an interruption leaves is either used
// or fetched again.

import type { ModelStorage, StoredFile } from "./fanlight.js";
import type { StoredModel } from "./protocol.js";

/** The functions of a synchronous handle; the library of types has them for workers only. */
interface SyncHandle {
  read(buffer: Uint8Array, options: { at: number }): number;
  write(buffer: Uint8Array, options: { at: number }): number;
  flush(): void;
  getSize(): number;
  close(): void;
}

/** The open files of what is kept. */
interface Handles {
  data: SyncHandle;
  hashes: SyncHandle;
}

interface FileHandle extends FileSystemFileHandle {
  createSyncAccessHandle(): Promise<SyncHandle>;
}

/** What is known of a file that is kept. */
interface About {
  url: string;
  length: number;
  etag: string;
  chunkBytes: number;
}

const HASH_BYTES = 32;
/** Kept free beside a file, so that conversations can still be written. */
const SPARE_BYTES = 16 << 20;

async function sha256(bytes: Uint8Array): Promise<Uint8Array> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes as BufferSource));
}

async function nameOf(url: string): Promise<string> {
  const hash = await sha256(new TextEncoder().encode(url));
  return [...hash].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

async function base(): Promise<FileSystemDirectoryHandle> {
  const root = await navigator.storage.getDirectory();
  return await root.getDirectoryHandle("fanlight-models", { create: true });
}

async function readAbout(folder: FileSystemDirectoryHandle): Promise<About | undefined> {
  try {
    const file = await (await folder.getFileHandle("about")).getFile();
    const about = JSON.parse(await file.text()) as About;
    return Number.isSafeInteger(about.length) && about.chunkBytes > 0 ? about : undefined;
  } catch {
    // No such file, or one that was not written to its end.
    return undefined;
  }
}

async function hasFile(folder: FileSystemDirectoryHandle, name: string): Promise<boolean> {
  return await folder.getFileHandle(name).then(
    () => true,
    () => false,
  );
}

async function handle(folder: FileSystemDirectoryHandle, name: string): Promise<SyncHandle> {
  const file = await folder.getFileHandle(name, { create: true });
  return await (file as FileHandle).createSyncAccessHandle();
}

async function writeWhole(folder: FileSystemDirectoryHandle, name: string, text: string): Promise<void> {
  const file = await handle(folder, name);
  try {
    file.write(new TextEncoder().encode(text), { at: 0 });
    file.flush();
  } finally {
    file.close();
  }
}

/** A file that is kept, or a part of one. */
class Kept implements StoredFile {
  isComplete = false;
  private open: Handles | null = null;
  /** The opening under way: a second handle of a file is refused, so everyone waits for the one. */
  private opening: Promise<Handles> | null = null;
  private present = new Set<number>();
  /** False once it could not be written. */
  private isWritable = true;

  constructor(
    private readonly folder: FileSystemDirectoryHandle,
    readonly about: About,
    private readonly onRefusal: (error: unknown) => Promise<void>,
  ) {}

  get length(): number {
    return this.about.length;
  }

  get etag(): string {
    return this.about.etag;
  }

  get chunkBytes(): number {
    return this.about.chunkBytes;
  }

  private get chunkCount(): number {
    return Math.ceil(this.about.length / this.about.chunkBytes);
  }

  /** Bytes that are there. */
  get keptBytes(): number {
    let bytes = 0;
    for (const index of this.present) bytes += this.sizeOf(index);
    return bytes;
  }

  private sizeOf(index: number): number {
    return Math.min(this.about.chunkBytes, this.about.length - index * this.about.chunkBytes);
  }

  /** Opens the files, if they are not open, and learns which chunks are there. */
  async wake(): Promise<Handles> {
    if (this.open) return this.open;
    this.opening ??= this.openFiles().finally(() => {
      this.opening = null;
    });
    return await this.opening;
  }

  private async openFiles(): Promise<Handles> {
    const data = await handle(this.folder, "data");
    const hashes = await handle(this.folder, "hashes").catch((error: unknown) => {
      data.close();
      throw error;
    });
    this.open = { data, hashes };
    const all = new Uint8Array(this.chunkCount * HASH_BYTES);
    hashes.read(all, { at: 0 });
    this.present = new Set();
    for (let index = 0; index < this.chunkCount; index += 1) {
      const hash = all.subarray(index * HASH_BYTES, (index + 1) * HASH_BYTES);
      if (hash.some((byte) => byte !== 0)) this.present.add(index);
    }
    const isMarked = await hasFile(this.folder, "complete");
    this.isComplete =
      isMarked && this.present.size === this.chunkCount && data.getSize() === this.about.length;
    return { data, hashes };
  }

  /** Closes the files: others may open them. */
  rest(): void {
    this.open?.data.close();
    this.open?.hashes.close();
    this.open = null;
  }

  async read(index: number): Promise<Uint8Array | undefined> {
    try {
      const { data, hashes } = await this.wake();
      if (!this.present.has(index)) return undefined;
      const [bytes, hash] = [new Uint8Array(this.sizeOf(index)), new Uint8Array(HASH_BYTES)];
      data.read(bytes, { at: index * this.about.chunkBytes });
      hashes.read(hash, { at: index * HASH_BYTES });
      const found = await sha256(bytes);
      return found.every((byte, at) => byte === hash[at]) ? bytes : undefined;
    } catch {
      // What cannot be read is fetched.
      return undefined;
    }
  }

  async write(index: number, bytes: Uint8Array): Promise<void> {
    if (!this.isWritable) return;
    try {
      const hash = await sha256(bytes);
      // Another chunk may have been refused meanwhile: then nothing is opened again.
      if (!this.isWritable) return;
      const { data, hashes } = await this.wake();
      const at = index * this.about.chunkBytes;
      if (data.write(bytes, { at }) !== bytes.length) {
        throw new DOMException("only a part of a chunk was written", "QuotaExceededError");
      }
      data.flush();
      hashes.write(hash, { at: index * HASH_BYTES });
      hashes.flush();
      this.present.add(index);
      if (this.present.size === this.chunkCount && !this.isComplete) {
        await writeWhole(this.folder, "complete", String(this.about.length));
        this.isComplete = true;
      }
    } catch (error) {
      this.isWritable = false;
      this.rest();
      await this.onRefusal(error);
    }
  }
}

/** All files that the origin keeps. */
export class Storage {
  private readonly awake = new Map<string, Kept>();

  /** The storage of one load; `refused` hears why something is not kept. */
  session(refused: (message: string) => void): ModelStorage {
    return {
      find: (url) => this.find(url, refused),
      create: (url, length, etag, chunkBytes) => this.create({ url, length, etag, chunkBytes }, refused),
    };
  }

  /** The storage of a look: what is kept is read, and nothing is added. */
  reader(): ModelStorage {
    return { find: (url) => this.find(url, () => {}), create: async () => undefined };
  }

  /** Closes all files; whoever still reads opens them again. */
  rest(): void {
    for (const kept of this.awake.values()) kept.rest();
  }

  private async kept(about: About, refused: (message: string) => void): Promise<Kept> {
    const folder = await (await base()).getDirectoryHandle(await nameOf(about.url), { create: true });
    const kept = new Kept(folder, about, async (error) => {
      await this.remove(about.url).catch(() => {});
      const reason =
        error instanceof DOMException && error.name === "QuotaExceededError"
          ? "the browser gives this page no more room"
          : `it could not be written (${String(error)})`;
      refused(`the model is used but not kept: ${reason}; free some space to keep it`);
    });
    await kept.wake();
    this.awake.set(about.url, kept);
    return kept;
  }

  private async find(url: string, refused: (message: string) => void): Promise<Kept | undefined> {
    try {
      const before = this.awake.get(url);
      if (before) {
        await before.wake();
        return before;
      }
      const folder = await (await base()).getDirectoryHandle(await nameOf(url));
      const about = await readAbout(folder);
      return about?.url === url ? await this.kept(about, refused) : undefined;
    } catch {
      return undefined;
    }
  }

  private async create(about: About, refused: (message: string) => void): Promise<Kept | undefined> {
    try {
      const before = await this.find(about.url, refused);
      const isSame =
        before !== undefined &&
        about.etag !== "" &&
        before.etag === about.etag &&
        before.length === about.length &&
        before.chunkBytes === about.chunkBytes;
      if (!isSame) await this.remove(about.url);
      const missing = about.length - (isSame ? before.keptBytes : 0);
      const { quota, usage } = await navigator.storage.estimate();
      const free = (quota ?? Number.POSITIVE_INFINITY) - (usage ?? 0);
      if (free < missing + SPARE_BYTES) {
        const more = Math.ceil((missing + SPARE_BYTES - free) / 1e6);
        refused(
          `the model is used but not kept: the browser lets this page keep ${more} MB less than it needs; ` +
            `free that much to keep it`,
        );
        return undefined;
      }
      if (isSame) return before;
      const folder = await (await base()).getDirectoryHandle(await nameOf(about.url), { create: true });
      await writeWhole(folder, "about", JSON.stringify(about));
      return await this.kept(about, refused);
    } catch (error) {
      refused(`the model is used but not kept: the browser refuses to store it (${String(error)})`);
      return undefined;
    }
  }

  /** What is kept. */
  async list(): Promise<StoredModel[]> {
    const found: StoredModel[] = [];
    try {
      for await (const entry of (await base()).values()) {
        if (entry.kind !== "directory") continue;
        const folder = entry as FileSystemDirectoryHandle;
        const about = await readAbout(folder);
        if (!about) continue;
        const kept = this.awake.get(about.url) ?? new Kept(folder, about, async () => {});
        await kept.wake();
        const { url, length } = about;
        found.push({ url, length, keptBytes: kept.keptBytes, isComplete: kept.isComplete });
        if (!this.awake.has(url)) kept.rest();
      }
    } catch {
      // Without a file system, or with one that another page has open, nothing is known to be kept.
    }
    return found;
  }

  /** Removes what is kept of the file at an address. */
  async remove(url: string): Promise<void> {
    this.awake.get(url)?.rest();
    this.awake.delete(url);
    const name = await nameOf(url);
    await (await base()).removeEntry(name, { recursive: true }).catch((error: unknown) => {
      if (!(error instanceof DOMException && error.name === "NotFoundError")) throw error;
    });
  }
}
