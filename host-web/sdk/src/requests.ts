// From the options of a reply, as a page gives them, to what the engine takes.

import { FanlightError } from "./errors.js";
import { refuseUnknown, whole } from "./info.js";
import type { ReplyRequest, TokenizeRequest } from "./protocol.js";

export interface Message {
  role: "system" | "user" | "assistant";
  content: string;
}

/** Text that is continued as it is. */
export interface PlainPrompt {
  prompt: string;
  /** Whether control text in it becomes control tokens: for text that a page has written itself. */
  parseSpecial?: boolean;
}

/** A conversation, oldest message first, or plain text. */
export type PromptInput = readonly Message[] | PlainPrompt;

/** How tokens are chosen; without any of it the most likely one is taken. The engine checks the ranges. */
export interface SamplingOptions {
  /** 0 takes the most likely token; above, to 100, tokens are drawn; 0. */
  temperature?: number;
  /** Draw among this many most likely tokens; 0 for all. */
  topK?: number;
  /** Draw among the most likely tokens whose probabilities reach this sum, 0 to 1; 1. */
  topP?: number;
  /** Draw among tokens at least this part as likely as the most likely one, 0 to 1; 0. */
  minP?: number;
  /** Divides logits of tokens that were among the last 64 where positive, else multiplies them; 1. */
  repeatPenalty?: number;
  /** Lowers a token's logit for each time that the reply has it, -2 to 2; 0. */
  frequencyPenalty?: number;
  /** Lowers a token's logit once the reply has it, -2 to 2; 0. */
  presencePenalty?: number;
  /** What is added to the logits of tokens, by id; -10,000 to 10,000. */
  logitBias?: Readonly<Record<string, number>> | ReadonlyMap<number, number>;
  /** Whole number from 0 to 2^53 - 1: an equal seed and prompt give an equal reply. Another one each time. */
  seed?: number;
}

export interface GenerateOptions extends SamplingOptions {
  /** Most tokens of the reply, 1 to 32,768; 512. */
  maxTokens?: number;
  /** Texts that end the reply where they first occur; at most 16. */
  stop?: string | readonly string[];
  /**
   * Nodes of the draft tree that a step verifies: 1, 2, 4, 8, 16 or 32, or `off`; `auto` chooses as it goes.
   * Never changes the reply.
   */
  width?: number | "off" | "auto";
  /**
   * Whether drafts are made from earlier replies too: those since the last `reset`, or with `origin` those
   * that the browser keeps; `off`. Never changes the reply.
   */
  memory?: "off" | "conversation" | "origin";
  /**
   * Milliseconds of a submission to the GPU at most, so that the page can draw between. Never changes the
   * reply.
   */
  frameBudgetMs?: number;
  /** Steps per submission to the GPU: 1, 2 or 4; as measured. Never changes the reply. */
  windowSteps?: number;
  /**
   * Whose reply it is. Replies of different scopes share nothing: neither prompt tokens in the cache nor
   * earlier replies of this visit that drafts are made from, whose use could be measured. Change it where one
   * page serves several clients; each change evaluates the prompt from its first token. The page's own.
   */
  scope?: string;
  /** Whether a model that can think before it answers does so; `template` leaves it to its chat template. */
  think?: boolean | "template";
  /** Aborts the reply: reading it throws the signal's reason. */
  signal?: AbortSignal;
}

/** Tokens of a reply when nothing else is said. */
export const MAX_TOKENS_DEFAULT = 512;

const ROLES: ReadonlySet<string> = new Set(["system", "user", "assistant"]);

function turnsOf(messages: readonly Message[]): { role: Message["role"]; content: string }[] {
  if (messages.length === 0) throw new FanlightError("request", "there is no message: give at least one");
  return messages.map(({ role, content }) => {
    if (!ROLES.has(role)) {
      throw new FanlightError(
        "request",
        `a message has role ${String(role)}: system, user or assistant are possible`,
      );
    }
    if (typeof content !== "string")
      throw new FanlightError("request", "a message has no text: give it content");
    return { role, content };
  });
}

function isChat(input: PromptInput): input is readonly Message[] {
  return Array.isArray(input);
}

const PLAIN_NUMBERS = [
  "temperature",
  "topP",
  "minP",
  "repeatPenalty",
  "frequencyPenalty",
  "presencePenalty",
] as const;

function number(name: string, value: unknown): number {
  if (typeof value === "number" && Number.isFinite(value)) return value;
  throw new FanlightError("request", `${name} of ${String(value)} was given, a number is needed`);
}

function addSampling(request: ReplyRequest, options: SamplingOptions): void {
  for (const name of PLAIN_NUMBERS) {
    if (options[name] !== undefined) request[name] = number(name, options[name]);
  }
  const { topK, seed, logitBias } = options;
  if (topK !== undefined) request.topK = whole("topK", topK);
  if (seed !== undefined) {
    if (!Number.isSafeInteger(seed) || seed < 0) {
      throw new FanlightError("request", `a seed of ${String(seed)} was given, 0 to 2^53 - 1 are possible`);
    }
    request.seed = seed;
  }
  if (logitBias !== undefined) {
    const entries = logitBias instanceof Map ? [...logitBias] : Object.entries(logitBias);
    request.logitBias = entries.map(([id, bias]) => [
      whole("a token id of logitBias", Number(id)),
      number("a value of logitBias", bias),
    ]);
  }
}

function thinkOf(think: GenerateOptions["think"]): "on" | "off" | "template" {
  if (think === "template") return think;
  return think === true ? "on" : "off";
}

/** What a reply continues, whose form nobody has checked. A text by itself is a question. */
function promptOf(input: string | PromptInput, think: GenerateOptions["think"]): ReplyRequest["prompt"] {
  if (typeof input === "string") input = [{ role: "user", content: input }];
  if (isChat(input)) return { form: "chat", turns: turnsOf(input), think: thinkOf(think) };
  const text: unknown = input?.prompt;
  if (typeof text !== "string")
    throw new FanlightError("request", "there is no prompt: give a text, a list of messages or { prompt }");
  return { form: "plain", text, parseSpecial: input.parseSpecial ?? false };
}

/** What `GenerateOptions` has. */
const OPTIONS: ReadonlySet<string> = new Set([
  ...["temperature", "topK", "topP", "minP", "repeatPenalty", "frequencyPenalty", "presencePenalty"],
  ...["logitBias", "seed", "maxTokens", "stop", "width", "memory", "frameBudgetMs", "windowSteps"],
  ...["scope", "think", "signal"],
]);

/** A request for a reply. */
export function replyRequest(input: string | PromptInput, options: GenerateOptions): ReplyRequest {
  refuseUnknown("generate", options, OPTIONS);
  const { stop, width } = options;
  const request: ReplyRequest = {
    prompt: promptOf(input, options.think),
    tokenLimit: whole("maxTokens", options.maxTokens ?? MAX_TOKENS_DEFAULT),
  };
  if (stop !== undefined) request.stop = typeof stop === "string" ? [stop] : [...stop];
  if (width !== undefined && width !== "auto") request.width = width === "off" ? 0 : whole("width", width);
  if (options.windowSteps !== undefined) request.windowSteps = whole("windowSteps", options.windowSteps);
  if (options.memory !== undefined) request.memory = options.memory;
  if (options.frameBudgetMs !== undefined) {
    request.frameBudgetMs = whole("frameBudgetMs", options.frameBudgetMs);
  }
  addSampling(request, options);
  return request;
}

/** A request for the ids of a text or conversation. */
export function tokenizeRequest(
  input: string | PromptInput,
  options: { parseSpecial?: boolean; addBegin?: boolean },
): TokenizeRequest {
  if (typeof input !== "string" && isChat(input)) return { form: "chat", turns: turnsOf(input) };
  const text = typeof input === "string" ? input : input.prompt;
  const parseSpecial = options.parseSpecial ?? (typeof input !== "string" && input.parseSpecial === true);
  return { form: "plain", text, parseSpecial, addBegin: options.addBegin ?? typeof input !== "string" };
}
