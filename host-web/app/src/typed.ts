// What a person types to name a model: an address, a page of the hub, a repository of it, or a file in one.

import { hub, hubFiles, type HubFile } from "fanlight";

import { nameOf } from "./engine.js";
import type { NamedSource } from "./state.js";

/** One model, or a repository with the files to choose from. */
export type Typed = NamedSource | { repository: string; files: HubFile[] };

const HUB_HOST = /^(?:https?:\/\/)?(?:www\.)?(?:huggingface\.co|hf\.co)\//i;
const REPOSITORY = /^([\w.-]+\/[\w.-]+?)(?::([\w.-]+))?$/;
const FILE = /^[\w.-]+\/[\w.-]+\/.+\.gguf$/i;

/** What was typed, which may take a question to the hub. */
export async function typedSource(text: string): Promise<Typed> {
  const typed = text.trim();
  const isHub = HUB_HOST.test(typed);
  // What begins with a host needs no scheme; what looks like a path of the hub needs no host.
  const path = typed.replace(HUB_HOST, "").replace(/\/(?:tree\/[^/]+)?\/?$/, "");
  const repository = /\.gguf$/i.test(path) || typed.startsWith(".") ? null : REPOSITORY.exec(path);
  if (repository) return await inRepository(repository[1] ?? "", repository[2]);
  if (isHub) return named(new URL(`https://huggingface.co/${path}`));
  if (FILE.test(typed) && !typed.startsWith(".")) return named(new URL(hub(typed).url));
  return named(new URL(typed, document.baseURI));
}

function named(url: URL): NamedSource {
  return { name: nameOf(url.href), source: { url: url.href } };
}

/** The files of a repository, or the one that a quantization names. */
async function inRepository(repository: string, quantization: string | undefined): Promise<Typed> {
  const files = await hubFiles(repository);
  const wanted = quantization?.toLowerCase();
  const has = ({ path }: HubFile) => wanted === undefined || path.toLowerCase().includes(wanted);
  const found = files.filter(has);
  if (found.length === 1 && found[0]) return named(new URL(found[0].url));
  return { repository, files: found.length === 0 ? files : found };
}
