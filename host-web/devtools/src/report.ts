// A report of a bug as text, without prompts, outputs, names of files or of the model: only numbers, and what
// the browser says of itself and of the GPU.

import { number, share, size, time, whole } from "./format.js";
import type { Recording } from "./recording.js";
import { viewOf } from "./view.js";
import { CAUSES, OWNERS, PHASES, quarantinedName, WIDTHS } from "./words.js";

/** Microseconds that the report looks back. */
const SPAN_US = 60e6;

/** The report, in Markdown. `agent` is what the browser says of itself. */
export function reportOf(recording: Recording, agent: string): string {
  const view = viewOf(recording, SPAN_US, null);
  if (!view) return `# Fanlight report\n\nNothing was recorded.\n\nbrowser: ${agent}\n`;
  const { state, spent, recent } = view;
  const { adapter, model, totals, phases, passes, drafts, controller } = state;
  const lines = ["# Fanlight report", ""];
  const add = (name: string, value: string) => lines.push(`- ${name}: ${value}`);
  const head = (title: string) => lines.push("", `## ${title}`, "");
  add("browser", agent);
  add("snapshot", `version ${state.version}, after ${time(state.nowUs)}`);
  if (adapter) {
    add("adapter", `${adapter.name} (${adapter.backend}, ${adapter.driver || "driver not told"})`);
    add("processor in place of a GPU", adapter.isSoftware ? "yes" : "no");
    add("largest binding", size(adapter.bindingBytesMax));
    add("int8 dot product", adapter.hasPackedDot ? "yes" : "no");
    for (const { nodes, evidence } of state.quarantined) {
      add("quarantined", `${quarantinedName(nodes)} (${evidence})`);
    }
  }
  if (model) {
    head("Model");
    add("context", `${model.contextLen} tokens, batches of ${model.batchTokens}`);
    add("budget", model.budgetBytes === undefined ? "none" : size(model.budgetBytes));
    for (const [key, name] of OWNERS) add(name, size(model.ledger[key]));
    add("all", size(model.ledger.total));
    const { resident, streaming, slots } = model;
    add("pages", `${resident.count} stay, ${streaming.count} stream through ${slots.count}`);
    if (passes.count > 0) {
      add("passes", `${passes.count}, ${time(passes.elapsedUs / passes.count)} each`);
      add("waiting for pages", share(passes.starvedUs, passes.elapsedUs));
    }
  }
  head("Time");
  const [said, asked] = [whole(totals.tokens), whole(totals.promptTokens)];
  add("replies", `${whole(totals.replies)}, ${said} tokens, and ${asked} of prompts`);
  if (recent) {
    const { tokensPerS, tokensPerStep } = recent;
    add("last windows", `${number(tokensPerS)} tokens/s, ${number(tokensPerStep)} a step`);
  }
  add("last minute on the device", time(spent.busyUs));
  for (const [key, name] of CAUSES) {
    if (spent.gaps[key] > 0) add(`nothing in flight: ${name}`, time(spent.gaps[key]));
  }
  if (phases) {
    add("first token", time(phases.totalUs));
    for (const [key, name] of PHASES) add(`  ${name}`, time(phases[key]));
  }
  head("Drafting");
  add("nodes", `${whole(drafts.verified)} verified, ${whole(drafts.accepted)} accepted`);
  add("steps by accepted nodes", drafts.stepsByAccepted.join(" "));
  add("steps by match length", drafts.stepsByMatchLength.join(" "));
  add("plain step", controller.online.plainUs.map((us) => time(us)).join(", "));
  const trees = WIDTHS.map((nodes, at) => `${nodes}: ${time(controller.online.treeUs[at] ?? 0)}`);
  add("step by nodes", trees.join(", "));
  head("Actors");
  for (const { name, control, inbox, lastError } of state.actors) {
    const waits = `${inbox.waits + control.waits} waits, ${inbox.drops + control.drops} drops`;
    // The text of an error may name a file.
    const error = lastError ? ", an error" : "";
    add(name, `deepest ${inbox.depthMax} of ${inbox.capacity}, ${waits}${error}`);
  }
  const worst = Math.max(0, ...recording.frames.map((stretch) => stretch.worstMs));
  head("Page and recording");
  add("longest frame", recording.frames.length > 0 ? `${number(worst)} ms` : "not measured");
  add("samples", `${whole(recording.samples.length)} kept, ${whole(recording.missed)} missed`);
  return `${lines.join("\n")}\n`;
}
