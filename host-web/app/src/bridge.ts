// The developer bridge of this page: whether it is on, its key and its origins, kept for this origin.
//
// They are kept in a database, not in memory: several tabs may be open, of which any may be the one that
// answers, and whoever has put the key into a page of his own need not do so again after a reload. Not in
// local storage: its copy in a frame's process may lack what a tab has just written, and whole stale copies
// would be written back. Scripts of this origin can read the key; they can use the engine anyway.

import { effect, signal } from "@preact/signals";
import { FanlightError, isBridgeKey, newBridgeKey, parseOrigin, serveBridge } from "fanlight";
import type { Bridge, BridgeStatus } from "fanlight";

import { running, showFailure } from "./engine.js";
import { SharedRecord } from "./record.js";
import { adapter } from "./state.js";

export interface BridgeSettings {
  isOn: boolean;
  /** Null until the bridge is switched on for the first time. */
  key: string | null;
  origins: string[];
}

const OFF: BridgeSettings = { isOn: false, key: null, origins: [] };

export const bridge = signal<BridgeSettings>(OFF);
export const status = signal<BridgeStatus | null>(null);

const record = new SharedRecord("fanlight-bridge", checked);
/** Whether the settings have been read: before, nobody is answered, as they might allow it. */
const isRead = signal(false);
let serving: Bridge | null = null;
/** Changes made here: what an earlier one came to is no news. */
let changes = 0;

function isOrigin(text: unknown): text is string {
  try {
    return typeof text === "string" && parseOrigin(text) === text;
  } catch {
    return false;
  }
}

/** The settings in a record; what somebody has changed by hand is left out, which is the safe side. */
function checked(stored: unknown): BridgeSettings {
  const { isOn, key, origins } = (stored ?? {}) as Partial<Record<keyof BridgeSettings, unknown>>;
  const known = isBridgeKey(key) ? key : null;
  return {
    isOn: isOn === true && known !== null,
    key: known,
    origins: Array.isArray(origins) ? origins.filter(isOrigin) : [],
  };
}

/** Changes the settings, here at once and in what is kept of them. */
function change(apply: (settings: BridgeSettings) => BridgeSettings): void {
  bridge.value = apply(bridge.value);
  const mine = ++changes;
  record.change(apply).then(
    (kept) => {
      if (mine === changes) bridge.value = kept;
    },
    // Where nothing can be kept they hold until the page is closed, and in this tab.
    () => {},
  );
}

async function read(): Promise<void> {
  // A browser that keeps nothing leaves what is set here.
  bridge.value = await record.read().catch(() => bridge.value);
  isRead.value = true;
}

/** Serves the engine, once there is one, as the settings say; other tabs may change them too. */
export function serve(): void {
  record.onChange(() => void read());
  void read();
  effect(() => {
    if (!adapter.value || !isRead.value) return;
    const { isOn, key, origins } = bridge.value;
    const options = { key: isOn ? key : null, origins };
    try {
      if (serving) serving.update(options);
      else {
        const onStatus = (now: BridgeStatus) => {
          status.value = now;
        };
        serving = serveBridge(running(), { ...options, onStatus });
      }
    } catch (failure) {
      showFailure(failure);
    }
  });
}

/** Switches the bridge; the first time makes its key. */
export function setOn(isOn: boolean): void {
  const fresh = newBridgeKey();
  change((settings) => ({ ...settings, isOn, key: settings.key ?? fresh }));
}

/** Replaces the key; the one before stops at once. */
export function rotate(): void {
  const key = newBridgeKey();
  change((settings) => ({ ...settings, key }));
}

/** Adds an origin; what is wrong with it, or null. */
export function addOrigin(text: string): string | null {
  try {
    const origin = parseOrigin(text);
    if (bridge.value.origins.includes(origin)) return `${origin} is in the list already.`;
    change((settings) => ({ ...settings, origins: [...new Set([...settings.origins, origin])] }));
    return null;
  } catch (failure) {
    if (failure instanceof FanlightError) return failure.message;
    throw failure;
  }
}

export function removeOrigin(origin: string): void {
  change((settings) => ({ ...settings, origins: settings.origins.filter((other) => other !== origin) }));
}
