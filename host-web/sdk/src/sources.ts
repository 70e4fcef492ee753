// Where models come from, as a page says it and as the worker takes it.

import { baseUrl } from "./base.js";
import { FanlightError } from "./errors.js";
import { fileAddress } from "./hub.js";
import type { WireSource } from "./protocol.js";

/** A model at an address that serves ranges; of a split model, any part of it. */
export interface UrlSource {
  url: string | URL;
  /** Request headers, such as an authorisation. They are sent to this address and where it redirects. */
  headers?: Record<string, string>;
  /** SHA-256 in hexadecimal digits, of each part in order; checked before the model is used. */
  sha256?: string | string[];
}

/** Picked files: one, or all parts of a split model in any order. */
export type FileSource = File | FileSystemFileHandle | readonly (File | FileSystemFileHandle)[];

export type ModelSource = string | URL | UrlSource | FileSource;

/** A source as the worker takes it, the hashes that are expected, and a key that names it. */
export interface ResolvedSource {
  wire: WireSource;
  sha256: string[];
  key: string;
}

function isList(source: ModelSource): source is readonly (File | FileSystemFileHandle)[] {
  return Array.isArray(source);
}

async function fileOf(source: File | FileSystemFileHandle): Promise<File> {
  if (source instanceof File) return source;
  try {
    return await source.getFile();
  } catch (error) {
    throw new FanlightError("source", `${source.name} cannot be read (${String(error)}): pick it again`);
  }
}

/** Makes a source ready to be sent. Addresses are completed relative to the page. */
export async function resolve(source: ModelSource, isStored: boolean): Promise<ResolvedSource> {
  if (typeof source === "string" || source instanceof URL) return await resolve({ url: source }, isStored);
  if ("url" in source) {
    let url: string;
    try {
      url = fileAddress(new URL(source.url, baseUrl())).href;
    } catch {
      throw new FanlightError(
        "request",
        `${String(source.url)} is no address: give one that begins with https://`,
      );
    }
    const headers = Object.entries(source.headers ?? {});
    const sha256 = source.sha256 === undefined ? [] : [source.sha256].flat();
    return { wire: { from: "address", address: { url, headers }, isStored }, sha256, key: url };
  }
  const files = await Promise.all((isList(source) ? source : [source]).map(fileOf));
  if (files.length === 0) throw new FanlightError("request", "no file was given: pick a model file");
  const key = files
    .map(({ name, size, lastModified }) => `${name}:${size}:${lastModified}`)
    .sort()
    .join("|");
  return { wire: { from: "files", files }, sha256: [], key };
}

/** A model file found in a folder. */
export interface FoundModel {
  /** Path below the folder. */
  path: string;
  bytes: number;
  /** The file, or all parts of a split model. */
  files: File[];
}

/** Folders in folders are followed so deep: model folders of other programs have three or four. */
const FOLDER_DEPTH_MAX = 6;
/** Files that are looked into: each is opened for its first four bytes. */
const FILES_MAX = 10_000;
const MAGIC = "GGUF";
const PART = /-(\d{5})-of-(\d{5})\.gguf$/;

async function* filesIn(
  folder: FileSystemDirectoryHandle,
  path: string,
  depth: number,
): AsyncGenerator<{ path: string; file: File }> {
  for await (const entry of folder.values()) {
    const below = path === "" ? entry.name : `${path}/${entry.name}`;
    if (entry.kind === "directory") {
      const inner = entry as FileSystemDirectoryHandle;
      if (depth < FOLDER_DEPTH_MAX) yield* filesIn(inner, below, depth + 1);
    } else {
      // A file that vanished or that may not be read is none that can be used.
      const file = await (entry as FileSystemFileHandle).getFile().catch(() => null);
      if (file) yield { path: below, file };
    }
  }
}

async function isModel(file: File): Promise<boolean> {
  return (
    file.size > MAGIC.length &&
    (await file
      .slice(0, MAGIC.length)
      .text()
      .then(
        (text) => text === MAGIC,
        () => false,
      ))
  );
}

/**
 * Finds the models in a folder by their first bytes, whatever they are called; parts of one are put together.
 */
export async function findModels(folder: FileSystemDirectoryHandle | readonly File[]): Promise<FoundModel[]> {
  const found = new Map<string, FoundModel>();
  const add = async (path: string, file: File): Promise<void> => {
    if (!(await isModel(file))) return;
    const name = path.replace(PART, ".gguf");
    const model = found.get(name) ?? { path: name, bytes: 0, files: [] };
    model.files.push(file);
    model.bytes += file.size;
    found.set(name, model);
  };
  let count = 0;
  if (Array.isArray(folder)) {
    for (const file of (folder as readonly File[]).slice(0, FILES_MAX)) {
      await add(file.webkitRelativePath || file.name, file);
    }
  } else {
    for await (const { path, file } of filesIn(folder as FileSystemDirectoryHandle, "", 0)) {
      if (++count > FILES_MAX) break;
      await add(path, file);
    }
  }
  return [...found.values()].sort((a, b) => a.path.localeCompare(b.path));
}
