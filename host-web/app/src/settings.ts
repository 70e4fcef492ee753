// What the visitor has set, in local storage. All tabs have the same settings: a change is made to what is
// stored at that moment, and the other tabs hear of it.

const PLACE = "fanlight-settings";

export interface Settings {
  /** Tokens of the context at the next load. */
  contextLength: number;
  /** What the model may take on the GPU: all that it needs, a preset, or as many MiB as `budgetMiB` says. */
  memory: "all" | "fast" | "saver" | "lite" | "custom";
  budgetMiB: number;
  /** MiB of other memory that keep weights which stream. */
  cacheMiB: number;
  /** How tokens are chosen; the seed is a number or empty for another one each time. */
  temperature: number;
  topP: number;
  topK: number;
  minP: number;
  repeatPenalty: number;
  seed: string;
  /** Most tokens of an answer. */
  maxTokens: number;
  /** Whether a model that can think before it answers does so: as it does by itself, or as it is told. */
  thinks: "model" | "on" | "off";
  /** Which earlier answers drafts are made from. */
  remembers: "off" | "conversation" | "origin";
  /** Instructions to the model. */
  system: string;
  /** Whether conversations are kept on this computer. */
  keeps: boolean;
  theme: Theme;
}

export type Theme = "auto" | "light" | "dark";

export const DEFAULTS: Settings = {
  contextLength: 4096,
  memory: "all",
  budgetMiB: 2048,
  cacheMiB: 0,
  temperature: 0.7,
  topP: 0.95,
  topK: 0,
  minP: 0,
  repeatPenalty: 1,
  seed: "",
  maxTokens: 2048,
  thinks: "model",
  remembers: "origin",
  system: "",
  keeps: true,
  theme: "auto",
};

/** What holds where storage is forbidden, until the page is closed. */
let unstored: Settings = DEFAULTS;

export function readSettings(): Settings {
  try {
    const text = localStorage.getItem(PLACE);
    return text === null ? { ...unstored } : known(JSON.parse(text) as Partial<Settings>);
  } catch {
    // Storage that is forbidden, or text that somebody changed.
    return { ...unstored };
  }
}

/** The settings of this version, each of the type that it has. */
function known(stored: Partial<Settings>): Settings {
  const kept = Object.entries(stored).filter(
    ([name, value]) =>
      Object.hasOwn(DEFAULTS, name) && typeof value === typeof DEFAULTS[name as keyof Settings],
  );
  return { ...DEFAULTS, ...Object.fromEntries(kept) };
}

/** Changes some settings and leaves the others as they are stored now, whoever stored them. */
export function changeSettings(change: Partial<Settings>): Settings {
  const settings = { ...readSettings(), ...change };
  unstored = settings;
  try {
    localStorage.setItem(PLACE, JSON.stringify(settings));
  } catch {
    // They hold until the page is closed.
  }
  return settings;
}

/** Hears of the settings that another tab has changed. */
export function onSettings(heard: (settings: Settings) => void): void {
  addEventListener("storage", ({ key }) => {
    if (key === PLACE || key === null) heard(readSettings());
  });
}
