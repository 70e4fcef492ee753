// Files of a hub's repositories: their addresses, and what a repository has.

import { FanlightError } from "./errors.js";
import type { UrlSource } from "./sources.js";

/** The hub whose addresses `hub` builds. */
const HUB = "https://huggingface.co";

/** The address of a file of a hub's repository: `owner/repository/file`, the file in folders or not. */
export function hub(path: string, options: { revision?: string; host?: string } = {}): UrlSource {
  const [owner, repository, ...file] = path.split("/");
  const isWhole = [owner, repository, ...file].every((part) => part && part !== "." && part !== "..");
  if (!isWhole || file.length === 0) {
    const wanted = "owner/repository/file, such as someone/some-model-GGUF/some-model-q4_0.gguf";
    throw new FanlightError("request", `"${path}" names no file of a hub: give ${wanted}`);
  }
  const revision = encodeURIComponent(options.revision ?? "main");
  const name = file.map(encodeURIComponent).join("/");
  const repositoryPath = `${encodeURIComponent(owner ?? "")}/${encodeURIComponent(repository ?? "")}`;
  return { url: `${options.host ?? HUB}/${repositoryPath}/resolve/${revision}/${name}` };
}

/** Names that the hub answers to. */
const HOSTS: ReadonlySet<string> = new Set(["huggingface.co", "www.huggingface.co", "hf.co"]);

/** The address of the file where an address is that of the hub's page about it. */
export function fileAddress(url: URL): URL {
  const page = /^(\/[^/]+\/[^/]+)\/blob\/(.+)$/.exec(url.pathname);
  if (!page || !HOSTS.has(url.hostname)) return url;
  const file = new URL(url);
  file.pathname = `${page[1]}/resolve/${page[2]}`;
  return file;
}

/** A model file of a repository. */
export interface HubFile {
  /** Path in the repository; of a split model the first part. */
  path: string;
  /** Bytes of that file. */
  bytes: number;
  url: string;
}

/** Other parts of a split model, which come with the first. */
const LATER_PART = /-(?!00001)\d{5}-of-\d{5}\.gguf$/i;
/** An answer that lists more files than any repository of models has. */
const LIST_BYTES_MAX = 16 << 20;

/** The model files of a repository, `owner/repository`, the smallest first. Asks the hub. */
export async function hubFiles(
  repository: string,
  { revision = "main", host = HUB, signal }: { revision?: string; host?: string; signal?: AbortSignal } = {},
): Promise<HubFile[]> {
  if (!/^[\w.-]+\/[\w.-]+$/.test(repository)) {
    const wanted = "owner/repository, such as someone/some-model-GGUF";
    throw new FanlightError("request", `"${repository}" names no repository of a hub: give ${wanted}`);
  }
  const address = `${host}/api/models/${repository}/tree/${encodeURIComponent(revision)}?recursive=true`;
  const entries = await listed(address, repository, signal);
  const models = entries.filter(({ path }) => /\.gguf$/i.test(path) && !LATER_PART.test(path));
  if (models.length === 0)
    throw new FanlightError("source", `${repository} has no GGUF file: look for a repository that has one`);
  return models
    .map(({ path, size }) => {
      const { url } = hub(`${repository}/${path}`, { revision, host });
      return { path, bytes: size, url: String(url) };
    })
    .sort((a, b) => a.bytes - b.bytes);
}

async function listed(
  address: string,
  repository: string,
  signal?: AbortSignal,
): Promise<{ path: string; size: number }[]> {
  const { host } = new URL(address);
  const failed = (why: string) => new FanlightError("server", `${host} cannot list ${repository}: ${why}`);
  let text: string;
  try {
    const answer = await fetch(address, signal ? { signal } : {});
    if (answer.status === 404 || answer.status === 401)
      throw failed("there is no such repository, or it is not public: look at its name");
    if (!answer.ok) throw failed(`it answered ${answer.status}: try again later`);
    text = await answer.text();
  } catch (error) {
    if (error instanceof FanlightError || signal?.aborted) throw error;
    throw failed("no answer came: look at the network, or at the page's policy (connect-src)");
  }
  try {
    if (text.length > LIST_BYTES_MAX) throw new Error("too long");
    const all = JSON.parse(text) as { path?: unknown; size?: unknown }[];
    return all.flatMap(({ path, size }) =>
      typeof path === "string" && typeof size === "number" ? [{ path, size }] : [],
    );
  } catch {
    throw failed("its answer is no list of files: try again later");
  }
}
