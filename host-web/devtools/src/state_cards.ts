// Cards about what is there: bytes on the device, pages that stream, actors, the adapter.

import { Card } from "./card.js";
import { UNDRAWN } from "./charts.js";
import { h, mark, Parts, say, Table } from "./dom.js";
import { number, share, size, time, whole } from "./format.js";
import type { Recording } from "./recording.js";
import type { View } from "./view.js";
import { OWNERS, quarantinedName } from "./words.js";

export class LedgerCard extends Card {
  private readonly parts = new Parts();
  private readonly table = new Table("On the device, by what it holds", ["", "Bytes", "Share"]);

  constructor() {
    super("Bytes on the device");
    this.add(this.parts.element, this.table.element);
  }

  show({ state }: View): void {
    const { model } = state;
    this.table.element.hidden = this.parts.element.hidden = model === undefined;
    if (!model) return this.say("no model is loaded");
    const { ledger, budgetBytes } = model;
    const limit = budgetBytes ?? ledger.total;
    const parts = OWNERS.map(([key, name]) => ({ name, bytes: ledger[key], colour: key }));
    this.parts.show(
      parts.map(({ bytes, colour }) => ({ value: bytes, colour })),
      limit,
    );
    const rows = parts.map(({ name, bytes, colour }) => {
      return { cells: [name, size(bytes), share(bytes, limit)], colour, isDim: bytes === 0 };
    });
    const rest = limit - ledger.total;
    const free = { cells: ["free in the budget", size(rest), share(rest, limit)], colour: "quiet" };
    this.table.show(budgetBytes === undefined ? rows : [...rows, free]);
    const of = budgetBytes === undefined ? "no budget set" : `of a budget of ${size(budgetBytes)}`;
    this.say(`${size(ledger.total)}, ${of}`);
  }
}

export class PagesCard extends Card {
  private readonly map = h("div", { class: "map", role: "img", "aria-label": UNDRAWN });
  private readonly table = new Table("Pages of the weights", ["", "Pages", "Bytes"]);
  private readonly stalls = new Table("Passes of streamed weights", ["", "", ""]);
  private shown: readonly number[] = [];

  constructor() {
    super("Pages");
    this.stalls.element.querySelector("thead")?.remove();
    this.add(this.map, this.table.element, this.stalls.element);
  }

  show({ state }: View): void {
    const { model, passes } = state;
    this.map.hidden = this.table.element.hidden = model === undefined;
    this.stalls.element.hidden = passes.count === 0;
    if (!model) return this.say("no model is loaded");
    const { resident, streaming, slots, map } = model;
    this.draw(map);
    const streams = streaming.count > 0;
    const words = streams
      ? `${share(resident.bytes, resident.bytes + streaming.bytes)} of the weights stay, the rest streams`
      : "all weights stay on the device";
    mark(this.map, "aria-label", `Weights in the order of the model: ${words}.`);
    const rows = [{ cells: ["resident", whole(resident.count), size(resident.bytes)], colour: "weights" }];
    if (streams) {
      rows.push({ cells: ["streaming", whole(streaming.count), size(streaming.bytes)], colour: "streaming" });
      rows.push({ cells: ["slots of the ring", whole(slots.count), size(slots.bytes)], colour: "quiet" });
    }
    this.table.show(rows);
    this.say(words);
    if (passes.count === 0) return;
    const each = (us: number) => time(us / passes.count);
    const read = passes.readBytes + passes.cachedBytes;
    this.stalls.show([
      { cells: ["passes", whole(passes.count), `${each(passes.elapsedUs)} each`] },
      { cells: ["waited for pages", time(passes.starvedUs), share(passes.starvedUs, passes.elapsedUs)] },
      { cells: ["pages waited for a slot", time(passes.waitedUs), `${each(passes.waitedUs)} each`] },
      { cells: ["read from the source", size(passes.readBytes), share(passes.readBytes, read)] },
      { cells: ["from host memory", size(passes.cachedBytes), share(passes.cachedBytes, read)] },
      { cells: ["kept in host memory", size(passes.keptBytes), `of ${size(model.cacheBytes)}`] },
    ]);
  }

  /** A strip of the weights: how much of each part stays. */
  private draw(map: readonly number[]): void {
    if (map.length === this.shown.length && map.every((milli, at) => milli === this.shown[at])) return;
    this.shown = map;
    const cells = map.map((milli) => {
      const cell = h("span");
      cell.style.background = `color-mix(in srgb, var(--weights) ${milli / 10}%, var(--streaming))`;
      return cell;
    });
    this.map.replaceChildren(...cells);
  }
}

export class ActorsCard extends Card {
  private readonly table = new Table("Messages waiting now, and most at once of how many places", [
    "Actor",
    "Inbox",
    "Control",
    "Waits",
    "Drops",
    "Last error",
  ]);

  constructor() {
    super("Actors");
    this.add(h("div", { class: "scroll", tabindex: "0" }, this.table.element));
  }

  show({ state }: View): void {
    const { actors } = state;
    const lane = ({ depth, depthMax, capacity }: (typeof actors)[number]["inbox"]) =>
      `${whole(depth)}, ${whole(depthMax)} of ${whole(capacity)}`;
    this.table.show(
      actors.map(({ name, control, inbox, lastError }) => {
        const [waits, drops] = [inbox.waits + control.waits, inbox.drops + control.drops];
        return { cells: [name, lane(inbox), lane(control), whole(waits), whole(drops), lastError || "none"] };
      }),
    );
    for (const row of this.table.element.tBodies[0]?.rows ?? []) row.cells[5]?.classList.add("text");
    const drops = actors.reduce((sum, { inbox, control }) => sum + inbox.drops + control.drops, 0);
    this.say(drops === 0 ? "nothing was dropped" : `${whole(drops)} messages dropped`);
  }
}

export class AdapterCard extends Card {
  private readonly facts = h("dl", { class: "facts" });

  constructor() {
    super("Adapter and recording");
    this.add(this.facts);
  }

  show({ state }: View, recording: Recording): void {
    const { adapter, model, droppedSamples, quarantined } = state;
    const facts: [string, string][] = [];
    if (adapter) {
      facts.push(
        ["Adapter", adapter.name || "not told"],
        ["Backend", [adapter.backend, adapter.driver].filter(Boolean).join(", ")],
        ["Computes on", adapter.isSoftware ? "a processor" : "a GPU"],
        ["Largest binding", size(adapter.bindingBytesMax)],
        ["int8 dot product", adapter.hasPackedDot ? "an instruction" : "emulated"],
      );
    }
    if (adapter) {
      const found = quarantined.map(({ nodes, evidence }) => `${quarantinedName(nodes)} (${evidence})`);
      facts.push(["Quarantined", found.join("; ") || "no pipeline"]);
    }
    if (model) {
      const { name, contextLen, batchTokens } = model;
      facts.push(["Model", `${name || "unnamed"}, ${whole(contextLen)} tokens, batches of ${batchTokens}`]);
    }
    const { samples, missed, forgotten } = recording;
    facts.push(
      ["Samples", `${whole(samples.length)} kept, ${whole(forgotten)} let go`],
      [
        "Missed",
        missed === 0 ? "none" : `${whole(missed)}, ${whole(droppedSamples)} as the engine's queue was full`,
      ],
    );
    this.say(adapter ? "" : "no model was loaded yet");
    facts.forEach(([name, value], at) => {
      const term = this.facts.children[2 * at] ?? this.facts.appendChild(h("dt"));
      const detail = this.facts.children[2 * at + 1] ?? this.facts.appendChild(h("dd"));
      say(term, name);
      say(detail, value);
    });
    while (this.facts.children.length > 2 * facts.length) this.facts.lastElementChild?.remove();
  }
}

const TILES = ["Speed", "Tokens a step", "First token", "Device at work", "On the device", "Frames"];

/** The numbers at the top. */
export class Tiles {
  readonly element = h("dl", { class: "tiles" });
  private readonly tiles = TILES.map((name) => {
    const [value, more] = [h("dd"), h("dd")];
    this.element.append(h("div", { class: "tile" }, h("dt", {}, name), value, more));
    return { value, more };
  });

  show({ state, recent, spent, spanUs, atUs, frames }: View): void {
    const { phases, model, drafts } = state;
    const ago = recent ? atUs - recent.atUs : 0;
    const when = ago > 1e6 ? `${time(ago)} ago` : "now";
    const rate = share(drafts.accepted, drafts.verified);
    const accepted = drafts.verified > 0 ? `${rate} accepted` : "nothing drafted";
    const limit = model?.budgetBytes;
    const of = limit === undefined ? "no budget" : `of ${size(limit)}`;
    const worst = Math.max(0, ...frames.map(({ worstMs }) => worstMs));
    const all = Math.min(spanUs, atUs);
    const shown: [string, string][] = [
      recent ? [`${number(recent.tokensPerS)} tok/s`, when] : ["–", "no window yet"],
      [recent ? number(recent.tokensPerStep) : "–", accepted],
      phases ? [time(phases.totalUs), `prefill ${time(phases.prefillUs)}`] : ["–", "no request yet"],
      [share(spent.busyUs, all), `of the last ${time(all)}`],
      model ? [size(model.ledger.total), of] : ["–", "no model"],
      frames.length > 0 ? [`${number(worst)} ms`, "the longest"] : ["–", "not measured"],
    ];
    this.tiles.forEach(({ value, more }, at) => {
      say(value, shown[at]?.[0] ?? "");
      say(more, shown[at]?.[1] ?? "");
    });
  }
}
