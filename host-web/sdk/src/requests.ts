// From the options of a reply, as a page gives them, to what the engine takes.

import { FanlightError } from "./errors.js";
import { whole } from "./info.js";
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

export interface GenerateOptions {
  /** Most tokens of the reply, 1 to 32,768; 512. */
  maxTokens?: number;
  /** Texts that end the reply where they first occur; at most 16. */
  stop?: string | readonly string[];
  /**
   * Nodes of the draft tree that a step verifies: 1, 2, 4, 8, 16 or 32, or `off`. Never changes the reply.
   */
  width?: number | "off";
  /** Whether a model that can think before it answers does so. */
  think?: boolean;
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

/** A request for a reply. */
export function replyRequest(input: PromptInput, options: GenerateOptions): ReplyRequest {
  const { stop, width } = options;
  const request: ReplyRequest = {
    prompt: isChat(input)
      ? { form: "chat", turns: turnsOf(input), think: options.think ?? false }
      : { form: "plain", text: String(input.prompt), parseSpecial: input.parseSpecial ?? false },
    tokenLimit: whole("maxTokens", options.maxTokens ?? MAX_TOKENS_DEFAULT),
  };
  if (stop !== undefined) request.stop = typeof stop === "string" ? [stop] : [...stop];
  if (width !== undefined && width !== "off") request.width = whole("width", width);
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
