// The page: pick a model, ask, read, stop, ask again.

import { EngineClient, EngineFailure } from "./client.js";
import { elements } from "./elements.js";
import { sentence, speedLine, title } from "./format.js";
import { Answer, questionItem } from "./log.js";
import { loadModel, showCard, sourceName, wasKilled, type ModelSource } from "./model.js";
import type { Adapter, ModelCard, ReplyEnd, ReplyRequest, VerifyScope } from "./protocol.js";

type Activity = "idle" | "loading" | "answering" | "checking";
type Turns = Extract<ReplyRequest["prompt"], { form: "chat" }>["turns"];

let activity: Activity = "idle";
let adapter: Adapter | null = null;
let card: ModelCard | null = null;
let source: ModelSource | null = null;
let turns: Turns = [];
/** Whether the last failure may pass when the same model is loaded once more. */
let mayPass = false;

const client = new EngineClient((failure) => {
  card = null;
  adapter = null;
  showFailure(failure);
  refresh();
});

/** Makes the controls agree with the state. */
function refresh(): void {
  const isIdle = activity === "idle";
  const hasTemplate = card?.hasChatTemplate ?? true;
  elements.files.disabled = !isIdle;
  elements.picker.classList.toggle("compact", card !== null);
  if (!card) elements.card.hidden = true;
  elements.ask.hidden = card === null;
  elements.send.disabled = !isIdle;
  elements.send.hidden = activity === "answering";
  elements.stop.hidden = activity !== "answering";
  elements.plain.disabled = !isIdle || !hasTemplate;
  if (!hasTemplate) elements.plain.checked = true;
  elements.forget.disabled = !isIdle;
  elements.verify.disabled = !isIdle;
  elements.context.disabled = !isIdle;
  elements.alertRetry.hidden = source === null || card !== null || !isIdle || !mayPass;
  if (source) elements.alertRetry.textContent = `Load ${sourceName(source)} again`;
}

function showAlert(heading: string, text: string): void {
  elements.alertTitle.textContent = heading;
  elements.alertText.textContent = text;
  elements.alert.hidden = false;
}

function showFailure(failure: EngineFailure): void {
  mayPass = failure.kind !== "model" && failure.kind !== "request";
  showAlert(title(failure), sentence(failure));
}

/** Does one thing at a time; what fails is shown. */
async function during(what: Activity, work: () => Promise<void>): Promise<void> {
  if (activity !== "idle") return;
  activity = what;
  elements.alert.hidden = true;
  refresh();
  try {
    await work();
  } catch (thrown) {
    if (!(thrown instanceof EngineFailure)) throw thrown;
    // Who stops a load knows that it stopped.
    if (thrown.kind !== "cancelled") showFailure(thrown);
  } finally {
    activity = "idle";
    refresh();
  }
}

/** Opens the GPU, if it is not open, and says which it is. */
async function openGpu(): Promise<Adapter> {
  if (!isSecureContext || !("gpu" in navigator)) {
    const message = isSecureContext
      ? "this browser has no WebGPU: use a current Chrome, Edge, Safari or Firefox, or switch WebGPU on"
      : "this page was not opened over https or from this computer, and browsers give the GPU to no other";
    throw new EngineFailure("no-gpu", message);
  }
  adapter ??= await client.ask("open", {});
  const software = adapter.isSoftware ? " – a processor computes, not a GPU: expect it to be slow" : "";
  elements.adapter.textContent = adapter.name + software;
  elements.adapter.classList.toggle("software", adapter.isSoftware);
  return adapter;
}

function load(from: ModelSource): Promise<void> {
  return during("loading", async () => {
    card = null;
    source = from;
    await openGpu();
    card = await loadModel(client, from);
    showCard(card, from);
    forget();
    elements.ask.hidden = false;
    elements.question.focus();
  });
}

function forget(): void {
  turns = [];
  elements.log.replaceChildren();
}

function noteFor(end: ReplyEnd, on: Adapter): string {
  const endings = { stop: "", length: "cut at the limit of tokens · ", cancelled: "stopped · " };
  return endings[end.reason] + speedLine(end, on);
}

/** Asks and shows the answer as it comes. */
async function reply(text: string): Promise<void> {
  const on = await openGpu();
  const isPlain = elements.plain.checked;
  const asked: Turns = [...turns, { role: "user", content: text }];
  const prompt: ReplyRequest["prompt"] = isPlain ? { form: "plain", text } : { form: "chat", turns: asked };
  const answer = new Answer();
  const item = questionItem(text);
  elements.log.append(item, answer.item);
  elements.question.value = "";
  answer.item.scrollIntoView({ block: "end" });
  try {
    const tokenLimit = elements.tokens.valueAsNumber || 0;
    const end = await client.ask("generate", { prompt, tokenLimit }, async (event) => {
      if (event.type === "tokens") await answer.append(event.text, event.ids);
      else if (event.type === "prefilled") answer.remark(`Reading: ${event.done} of ${event.total} tokens`);
      else if (event.type === "resumed") {
        answer.remark(event.sameAdapter ? "The GPU was lost and is back" : "Goes on with another GPU");
      }
    });
    answer.finish(end.text, noteFor(end, on));
    if (!isPlain) turns = [...asked, { role: "assistant", content: answer.text }];
  } catch (thrown) {
    // The question is given back, to be asked again.
    if (answer.text === "") {
      item.remove();
      answer.item.remove();
      elements.question.value = text;
    } else answer.finish("", "broke off");
    throw thrown;
  }
}

/** Compares pipelines on this GPU and shows the verdict. */
function verify(scope: VerifyScope): Promise<void> {
  return during("checking", async () => {
    elements.settings.open = true;
    const on = await openGpu();
    const { compared, differences } = await client.ask("verify", { scope }, (progress) => {
      if (progress.phase !== "pipelines") return;
      elements.verdict.textContent = `Comparing: ${progress.done} of ${progress.total} groups`;
    });
    elements.verdict.dataset["differences"] = String(differences.length);
    elements.verdict.textContent = differences.length === 0
      ? `All ${compared} comparisons agree in every bit on ${on.name}.`
      : `${differences.length} of ${compared} comparisons differ on ${on.name}, do not trust its answers: `
        + differences.join("; ");
  });
}

function takeParameters(parameters: URLSearchParams): void {
  for (const [name, input] of [["context", elements.context], ["tokens", elements.tokens]] as const) {
    const value = parameters.get(name);
    if (value !== null) input.value = value;
  }
}

function listen(): void {
  elements.files.addEventListener("change", () => {
    const files = [...(elements.files.files ?? [])];
    // So that choosing the same file again is a change.
    elements.files.value = "";
    if (files.length > 0) void load({ files });
  });
  elements.picker.addEventListener("dragover", (event) => event.preventDefault());
  elements.picker.addEventListener("drop", (event) => {
    event.preventDefault();
    const files = [...(event.dataTransfer?.files ?? [])];
    if (files.length > 0) void load({ files });
  });
  const cancel = () => void client.ask("cancel", {}).catch(() => {});
  elements.cancelLoad.addEventListener("click", cancel);
  elements.stop.addEventListener("click", cancel);
  elements.alertRetry.addEventListener("click", () => {
    if (source) void load(source);
  });
  elements.ask.addEventListener("submit", (event) => {
    event.preventDefault();
    const text = elements.question.value;
    if (text.trim() !== "") void during("answering", () => reply(text)).then(() => elements.question.focus());
  });
  elements.question.addEventListener("keydown", (event) => {
    // Enter sends, also with an input method once its own Enter is done; with shift it is a new line.
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    elements.ask.requestSubmit();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && activity === "answering") cancel();
  });
  elements.forget.addEventListener("click", forget);
  elements.verify.addEventListener("click", () => void verify("whole"));
}

async function begin(): Promise<void> {
  const parameters = new URLSearchParams(location.search);
  takeParameters(parameters);
  listen();
  refresh();
  const url = parameters.get("model");
  if (url !== null) {
    const from = { url: new URL(url, location.href).href };
    if (!wasKilled()) return await load(from);
    source = from;
    mayPass = true;
    showAlert("The last load did not end", "The browser may have run out of memory meanwhile.");
    refresh();
    return;
  }
  const check = parameters.get("verify");
  if (check !== null) return await verify(check === "cover" ? "cover" : "whole");
  await during("loading", async () => void (await openGpu()));
}

void begin();
