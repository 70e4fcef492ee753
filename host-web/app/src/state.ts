// What the page shows, as signals; views read them and actions set them.

import { computed, effect, signal } from "@preact/signals";
import type {
  Adapter,
  FanlightError,
  GenerationStats,
  Inspection,
  LoadProgress,
  ModelInfo,
  ModelSource,
} from "fanlight";

import { newConversation, type Conversation } from "./conversation.js";
import { shownName } from "./format.js";
import { changeSettings, onSettings, readSettings, type Settings } from "./settings.js";

export type { Theme } from "./settings.js";

/** One thing at a time. */
export type Activity = "starting" | "idle" | "inspecting" | "loading" | "answering" | "checking";

/** A message to the visitor, with what can be done. */
export interface Notice {
  kind: "error" | "note";
  title: string;
  text: string;
  actions?: { label: string; run: () => void }[];
}

/** A source with the name that it goes by. */
export interface NamedSource {
  name: string;
  source: ModelSource;
}

/** Bytes of a load, with its speed. */
export interface Pace {
  progress: LoadProgress;
  /** Bytes, or pipelines, per second; null while unknown. */
  perSecond: number | null;
}

export const activity = signal<Activity>("starting");
export const adapter = signal<Adapter | null>(null);
/** Set when no GPU can be used: then nothing can be loaded. */
export const noGpu = signal<FanlightError | null>(null);
export const notice = signal<Notice | null>(null);

/** The model that was chosen and looked into, not loaded. */
export const chosen = signal<(NamedSource & { inspection: Inspection }) | null>(null);
export const model = signal<ModelInfo | null>(null);
/** What the model goes by: its name, or that of its file. */
export const modelName = computed(() => shownName(model.value?.name || source.value?.name || "The model"));
/** Where the model came from that was loaded last. */
export const source = signal<NamedSource | null>(null);
/** The options that it was loaded with, as JSON. */
export const loadedWith = signal("");
/** The memory that it keeps streamed weights in, MiB. */
export const loadedCacheMiB = signal(0);
export const pace = signal<Pace | null>(null);

export const settings = signal<Settings>(readSettings());
export const conversations = signal<Conversation[]>([]);
export const current = signal<Conversation>(newConversation(Date.now()));
/** Whether what goes on was asked to stop, and has not yet. */
export const isStopping = signal(false);
/** Numbers of the answer that is being written. */
export const live = signal<GenerationStats | null>(null);
/** What the model thinks before the answer that is being written; null while it has not. */
export const thoughts = signal<string | null>(null);
/** Of a model whose weights stream, how far the pass at hand is. */
export const pass = signal<{ done: number; total: number } | null>(null);
/** What is typed into the composer. */
export const draft = signal("");

/** What is in front of the conversation. */
export const panel = signal<"none" | "model" | "settings" | "check">("none");
export const isSidebarOpen = signal(false);
/** Whether telemetry is shown below the conversation. */
export const isTelemetryOpen = signal(false);

export const isBusy = computed(() => activity.value !== "idle");

effect(() => {
  const { theme } = settings.value;
  const root = document.documentElement;
  if (theme === "auto") delete root.dataset["theme"];
  else root.dataset["theme"] = theme;
});

/** Changes some settings, in all tabs. */
export function set(change: Partial<Settings>): void {
  settings.value = changeSettings(change);
}

onSettings((changed) => {
  settings.value = changed;
});
