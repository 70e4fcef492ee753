// The engine of the page: opening the GPU, choosing, loading and checking.

import { Fanlight, FanlightError } from "fanlight";
import type { EngineEvent, LoadOptions, ModelOptions, ModelSource } from "fanlight";

import { sentence, title } from "./format.js";
import { rememberModel } from "./last.js";
import * as state from "./state.js";
import type { NamedSource } from "./state.js";

/** Set while a model is loaded, so that a page which the browser killed meanwhile does not try again. */
const UNFINISHED = "fanlight-unfinished-load";
/** Weight of the newest measurement in the speed that is shown. */
const SMOOTHING = 0.2;

let engine: Fanlight | null = null;

/** The engine; one must have been started. */
export function running(): Fanlight {
  if (!engine) throw new FanlightError("no-gpu", "the GPU has not been opened");
  return engine;
}

export function showFailure(failure: unknown, actions: { label: string; run: () => void }[] = []): void {
  state.notice.value = { kind: "error", title: title(failure), text: sentence(failure), actions };
}

/** Offers to load the model again where another one took its place. */
function reloads(failure: unknown): { label: string; run: () => void }[] {
  const from = state.source.value;
  const isGone =
    failure instanceof FanlightError && (failure.code === "model-replaced" || failure.code === "no-model");
  return from && isGone ? [{ label: `Load ${from.name} again`, run: () => void load(from) }] : [];
}

/** Does one thing at a time; what fails is shown. True when it succeeded. */
export async function during(
  what: Exclude<state.Activity, "idle">,
  work: () => Promise<void>,
  actions: () => { label: string; run: () => void }[] = () => [],
): Promise<boolean> {
  if (state.activity.value !== "idle") return false;
  state.activity.value = what;
  state.notice.value = null;
  try {
    await work();
    return true;
  } catch (failure) {
    // Who stops a load knows that it stopped.
    const isCancelled = failure instanceof FanlightError && failure.code === "cancelled";
    if (!isCancelled) showFailure(failure, [...actions(), ...reloads(failure)]);
    return false;
  } finally {
    state.activity.value = "idle";
    state.isStopping.value = false;
    state.pace.value = null;
  }
}

/** Opens the GPU. */
export async function start(): Promise<void> {
  state.activity.value = "idle";
  await during(
    "starting",
    async () => {
      try {
        engine = await Fanlight.create();
        engine.subscribe(hear);
        state.adapter.value = engine.adapter;
        state.noGpu.value = null;
      } catch (failure) {
        if (failure instanceof FanlightError && failure.code === "no-gpu") state.noGpu.value = failure;
        else throw failure;
      }
    },
    () => [{ label: "Try again", run: () => void start() }],
  );
}

function hear(event: EngineEvent): void {
  if (event.type === "model") state.model.value = event.model;
  else if (event.type === "warning") {
    state.notice.value = {
      kind: "note",
      title: "Please note",
      text: sentence(new Error(event.warning.message)),
    };
  } else if (event.type === "ended" && state.activity.value === "idle") {
    const from = state.source.value;
    const actions = from ? [{ label: `Load ${from.name} again`, run: () => void load(from) }] : [];
    showFailure(event.error, actions);
  }
}

/** The file name at the end of an address. */
export function nameOf(url: string): string {
  const name = new URL(url).pathname.split("/").at(-1) ?? "";
  try {
    return decodeURIComponent(name) || url;
  } catch {
    // A percent sign that begins no escape stands for itself.
    return name;
  }
}

/** What the settings say about the next load. */
export function modelOptions(): ModelOptions {
  const { contextLength, memory, budgetMiB } = state.settings.value;
  if (memory === "all") return { contextLength };
  return memory === "custom" ? { contextLength, budgetMiB } : { contextLength, preset: memory };
}

/** The same, with the memory beside the GPU's; loads of other pages that keep nothing there are the same. */
function loadOptions(): LoadOptions {
  const { cacheMiB } = state.settings.value;
  return cacheMiB > 0 ? { ...modelOptions(), cacheMiB } : modelOptions();
}

/** Looks into a model and shows its card. */
export async function choose(from: NamedSource): Promise<void> {
  state.chosen.value = null;
  await during("inspecting", async () => {
    const inspection = await running().inspect(from.source, modelOptions());
    state.chosen.value = { ...from, inspection };
  });
}

/** Looks again, after the context was changed. */
export async function reconsider(): Promise<void> {
  const { value } = state.chosen;
  if (value) await choose(value);
}

/** True when the last load of this tab never ended. */
export function wasKilled(): boolean {
  return sessionStorage.getItem(UNFINISHED) !== null;
}

/** Loads a model in place of the one before. */
export async function load(from: NamedSource): Promise<void> {
  await during(
    "loading",
    async () => {
      state.source.value = from;
      state.pace.value = { progress: { phase: "header" }, perSecond: null };
      sessionStorage.setItem(UNFINISHED, from.name);
      try {
        const onProgress = measured();
        const { cacheMiB } = state.settings.value;
        await running().load(from.source, { ...loadOptions(), onProgress });
        state.loadedWith.value = JSON.stringify(modelOptions());
        state.loadedCacheMiB.value = cacheMiB;
        state.chosen.value = null;
        state.panel.value = "none";
        rememberModel(from);
      } finally {
        sessionStorage.removeItem(UNFINISHED);
      }
    },
    () => [{ label: `Load ${from.name} again`, run: () => void load(from) }],
  );
}

/** Gives the loaded model as much memory as the settings say. */
export async function resize(): Promise<void> {
  await during("loading", async () => {
    state.pace.value = { progress: { phase: "header" }, perSecond: null };
    const { contextLength, ...budget } = modelOptions();
    await running().setBudget({ ...budget, onProgress: measured() });
    state.loadedWith.value = JSON.stringify(modelOptions());
  });
}

/** Forgets the answers that drafts could be made from. */
export async function forgetAnswers(): Promise<void> {
  await engine?.forgetMemory();
}

/** Notes progress with its speed. */
function measured(): (progress: NonNullable<typeof state.pace.value>["progress"]) => void {
  let last: { phase: string; done: number; atMs: number } | null = null;
  let perSecond: number | null = null;
  return (progress) => {
    if (progress.phase !== "header") {
      const now = { phase: progress.phase, done: progress.done, atMs: performance.now() };
      if (last?.phase !== now.phase) perSecond = null;
      else if (now.atMs > last.atMs) {
        const newest = (1000 * (now.done - last.done)) / (now.atMs - last.atMs);
        perSecond = perSecond === null ? newest : perSecond + SMOOTHING * (newest - perSecond);
      }
      last = now;
    }
    state.pace.value = { progress, perSecond };
  };
}

/** Stops the load, answer or check at hand: what the GPU has begun ends first. */
export async function stop(): Promise<void> {
  if (state.activity.value === "idle") return;
  state.isStopping.value = true;
  await engine?.stop();
}

/** The outcome of a check of the GPU. */
export interface Verdict {
  compared: number;
  differences: string[];
}

/** Compares kernels that must agree in every bit. */
export async function check(scope: "whole" | "cover", told: (text: string) => void): Promise<Verdict | null> {
  let verdict: Verdict | null = null;
  await during("checking", async () => {
    verdict = await running().verify(scope, (progress) => {
      if (progress.phase === "pipelines") told(`${progress.done} of ${progress.total} groups compared`);
    });
  });
  return verdict;
}

/**
 * Of each preset, whether the loaded model says the same two tokens with it as with everything on the GPU.
 */
export type PresetVerdict = { name: string; text: string; isEqual: boolean }[];

const PRESETS = ["fast", "saver", "lite"] as const;

/** Loads the model with each preset and lets it say two tokens; they must be the same. */
export async function comparePresets(told: (text: string) => void): Promise<PresetVerdict | null> {
  const from = state.source.value;
  if (!from) return null;
  let verdict: PresetVerdict | null = null;
  await during("checking", async () => {
    const { contextLength } = state.settings.value;
    const say = async (name: string, options: ModelOptions): Promise<string> => {
      told(`Loading with ${name}`);
      await running().load(from.source, { contextLength, ...options });
      return await running().generate({ prompt: "The light of the house" }, { maxTokens: 2 }).text();
    };
    try {
      const wanted = await say("everything on the GPU", {});
      const found: PresetVerdict = [];
      for (const preset of PRESETS) {
        const text = await say(`preset ${preset}`, { preset });
        found.push({ name: preset, text, isEqual: text === wanted });
      }
      verdict = found;
    } finally {
      told("Loading as before");
      await running().load(from.source, loadOptions());
    }
  });
  return verdict;
}

/** A model that the host of the page offers. */
export interface Offer {
  name: string;
  url: string;
  bytes: number;
  note: string;
}

/** What the host offers by its `config.json`; nothing where it does not say. */
export async function offer(): Promise<Offer | null> {
  try {
    const answer = await fetch("config.json", { cache: "no-cache" });
    const { defaultModel } = (await answer.json()) as { defaultModel: Offer | null };
    return defaultModel;
  } catch {
    // Without a network, or on a host that serves no such file.
    return null;
  }
}

/** The kept file of an address, as a source. */
export function stored(url: string): { name: string; source: ModelSource } {
  return { name: nameOf(url), source: { url } };
}
