// The model that was used last, so that the next visit can go on with it in one click. Only addresses can be
// remembered: files that were picked have to be picked again.

import { signal } from "@preact/signals";

import type { NamedSource } from "./state.js";

const PLACE = "fanlight-last-model";

export interface LastModel {
  name: string;
  url: string;
}

function read(): LastModel | null {
  try {
    const { name, url } = JSON.parse(localStorage.getItem(PLACE) ?? "{}") as Partial<LastModel>;
    return typeof name === "string" && typeof url === "string" && URL.canParse(url) ? { name, url } : null;
  } catch {
    // Storage that is forbidden, or text that somebody changed.
    return null;
  }
}

export const lastModel = signal<LastModel | null>(read());

/** Remembers a model that was loaded, if it can be loaded again without the visitor's help. */
export function rememberModel({ name, source }: NamedSource): void {
  if (typeof source !== "object" || !("url" in source)) return;
  lastModel.value = { name, url: String(source.url) };
  try {
    localStorage.setItem(PLACE, JSON.stringify(lastModel.value));
  } catch {
    // It is known until the page is closed.
  }
}
