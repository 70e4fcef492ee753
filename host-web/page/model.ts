// Bringing a model in: from picked files or an address, with progress, and the card of what was loaded.

import type { EngineClient } from "./client.js";
import { elements } from "./elements.js";
import { bytes, parameters, types } from "./format.js";
import type { ModelCard, Progress } from "./protocol.js";

/** Where a model comes from. */
export type ModelSource = { files: File[] } | { url: string };

/** Set while a model is loaded, so that a page which the browser killed meanwhile does not try again. */
const UNFINISHED = "fanlight-unfinished-load";

/** True when the last load of this tab never ended. */
export function wasKilled(): boolean {
  return sessionStorage.getItem(UNFINISHED) !== null;
}

/** The name of a source, for people. */
export function sourceName(source: ModelSource): string {
  if ("url" in source) return source.url;
  const first = source.files[0]?.name ?? "";
  return source.files.length > 1 ? `${first} and ${source.files.length - 1} more` : first;
}

function showProgress(progress: Progress): void {
  const { progress: bar, progressText } = elements;
  if (progress.phase === "header") {
    bar.removeAttribute("value");
    progressText.textContent = "Reading the header …";
    return;
  }
  bar.max = Math.max(progress.total, 1);
  bar.value = progress.done;
  progressText.textContent = progress.phase === "weights"
    ? `${bytes(progress.done)} of ${bytes(progress.total)}`
    : `Preparing the GPU: ${progress.done} of ${progress.total} pipelines`;
}

/** Loads a model and shows how far it is. */
export async function loadModel(client: EngineClient, source: ModelSource): Promise<ModelCard> {
  const contextLen = elements.context.valueAsNumber;
  const options = Number.isInteger(contextLen) ? { contextLen } : {};
  elements.loading.hidden = false;
  elements.card.hidden = true;
  showProgress({ phase: "header" });
  sessionStorage.setItem(UNFINISHED, sourceName(source));
  try {
    return "url" in source
      ? await client.ask("loadUrl", { url: source.url, options }, showProgress)
      : await client.ask("loadFiles", { files: source.files, options }, showProgress);
  } finally {
    sessionStorage.removeItem(UNFINISHED);
    elements.loading.hidden = true;
  }
}

/** Shows what was loaded. */
export function showCard(card: ModelCard, source: ModelSource): void {
  const rows: [string, string][] = [
    ["Model", card.head.name || sourceName(source)],
    ["Architecture", card.head.architecture],
    ["Weights", `${parameters(card.head.parameters)} (${types(card)})`],
    ["Context", `${card.contextLen.toLocaleString("en")} tokens`],
    ["On the GPU", bytes(card.gpuBytes)],
    ["Read", bytes(card.readBytes)],
  ];
  elements.cardRows.replaceChildren(
    ...rows.flatMap(([name, value]) => {
      const [term, description] = [document.createElement("dt"), document.createElement("dd")];
      [term.textContent, description.textContent] = [name, value];
      return [term, description];
    }),
  );
  elements.card.hidden = false;
}
