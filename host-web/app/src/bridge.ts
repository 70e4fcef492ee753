// The developer bridge of this page: whether it is on, its key and its origins, kept for this origin.
//
// They are kept in local storage, not in memory: several tabs may be open, of which any may be the one that
// answers, and whoever has put the key into a page of his own need not do so again after a reload. Scripts of
// this origin can read it there; they can use the engine anyway.

import { effect, signal } from "@preact/signals";
import { FanlightError, newBridgeKey, parseOrigin, serveBridge } from "fanlight";
import type { Bridge, BridgeStatus } from "fanlight";

import { running, showFailure } from "./engine.js";
import { adapter } from "./state.js";

const PLACE = "fanlight-bridge";

export interface BridgeSettings {
  isOn: boolean;
  /** Null until the bridge is switched on for the first time. */
  key: string | null;
  origins: string[];
}

const OFF: BridgeSettings = { isOn: false, key: null, origins: [] };

export const bridge = signal<BridgeSettings>(read());
export const status = signal<BridgeStatus | null>(null);

let serving: Bridge | null = null;

function read(): BridgeSettings {
  try {
    return { ...OFF, ...(JSON.parse(localStorage.getItem(PLACE) ?? "{}") as Partial<BridgeSettings>) };
  } catch {
    // Storage that is forbidden, or text that somebody changed: off is the safe side.
    return { ...OFF };
  }
}

function change(to: Partial<BridgeSettings>): void {
  bridge.value = { ...bridge.value, ...to };
  try {
    localStorage.setItem(PLACE, JSON.stringify(bridge.value));
  } catch {
    // The settings hold until the page is closed, and in this tab.
  }
}

/** Serves the engine, once there is one, as the settings say; they may be changed by another tab too. */
export function serve(): void {
  addEventListener("storage", ({ key }) => {
    if (key === PLACE || key === null) bridge.value = read();
  });
  effect(() => {
    if (!adapter.value) return;
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
      // Settings that somebody has changed by hand.
      change({ ...OFF });
      showFailure(failure);
    }
  });
}

/** Switches the bridge; the first time makes its key. */
export function setOn(isOn: boolean): void {
  change(isOn ? { isOn, key: bridge.value.key ?? newBridgeKey() } : { isOn });
}

/** Replaces the key; the one before stops at once. */
export function rotate(): void {
  change({ key: newBridgeKey() });
}

/** Adds an origin; what is wrong with it, or null. */
export function addOrigin(text: string): string | null {
  try {
    const origin = parseOrigin(text);
    const { origins } = bridge.value;
    if (origins.includes(origin)) return `${origin} is in the list already.`;
    change({ origins: [...origins, origin] });
    return null;
  } catch (failure) {
    if (failure instanceof FanlightError) return failure.message;
    throw failure;
  }
}

export function removeOrigin(origin: string): void {
  change({ origins: bridge.value.origins.filter((other) => other !== origin) });
}
