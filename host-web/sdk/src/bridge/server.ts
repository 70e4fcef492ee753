// Serves an engine to other pages of this browser: to those of its own origin over a channel, to listed
// origins that frame or have opened this page. Nothing is served until a key is given.

import type { Fanlight } from "../engine.js";
import { ChannelDoor } from "./channel.js";
import { BridgeError } from "./client.js";
import { BridgeCore, type CoreStatus } from "./core.js";
import { checkKey } from "./key.js";
import { parseOrigins } from "./origins.js";
import { WindowDoor } from "./windows.js";

export interface BridgeOptions {
  /** Made by `newBridgeKey`; null while the bridge is off, and then every request is refused. */
  key: string | null;
  /** Exact origins that may frame or open this page and use the bridge with the key; none. */
  origins?: readonly string[];
  /** Hears when the status has changed. */
  onStatus?: (status: BridgeStatus) => void;
}

export interface BridgeStatus extends CoreStatus {
  /** Whether this tab is the one that answers pages of its own origin. */
  answersChannel: boolean;
}

export interface Bridge {
  readonly status: BridgeStatus;
  /** Other settings. What a replaced key or a removed origin has asked fails at once. */
  update(options: { key: string | null; origins: readonly string[] }): void;
  /** Ends the bridge; what runs fails. */
  close(): void;
}

/** Opens the bridge; throws a FanlightError with code `request` for a key or an origin of another form. */
export function serveBridge(engine: Fanlight, options: BridgeOptions): Bridge {
  const changed = () => options.onStatus?.(bridge.status);
  const core = new BridgeCore(engine, checkKey(options.key), changed);
  const windows = new WindowDoor(core, parseOrigins(options.origins ?? []), window);
  const channel = new ChannelDoor(core, navigator.locks, changed);
  if (engine.model) channel.take();
  const leave = engine.subscribe((event) => {
    if (event.type === "model" && event.model) channel.take();
  });
  const bridge: Bridge = {
    get status() {
      return { ...core.status, answersChannel: channel.isOpen };
    },
    update({ key, origins }) {
      const [checked, parsed] = [checkKey(key), parseOrigins(origins)];
      core.setKey(checked);
      windows.setOrigins(parsed);
    },
    close() {
      leave();
      const error = new BridgeError("closed", "Fanlight's page has closed its bridge: connect again");
      core.sendAway(() => true, error);
      windows.close();
      channel.close();
    },
  };
  return bridge;
}
