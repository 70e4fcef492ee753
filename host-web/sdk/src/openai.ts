// The engine behind the interface of OpenAI's chat completions: as a function, and as a `fetch` for clients
// that speak HTTP. Nothing leaves the page. What cannot be done is refused, never ignored.

import { FanlightError } from "./errors.js";
import type { FinishReason, Generation, GenerationStats } from "./generation.js";
import type { GenerateOptions, Message } from "./requests.js";

type Content = string | { type: string; text?: string }[] | null;

export interface ChatCompletionRequest {
  messages: { role: string; content: Content; name?: string }[];
  model?: string;
  stream?: boolean | null;
  stream_options?: { include_usage?: boolean } | null;
  max_tokens?: number | null;
  max_completion_tokens?: number | null;
  stop?: string | string[] | null;
  temperature?: number | null;
  top_p?: number | null;
  frequency_penalty?: number | null;
  presence_penalty?: number | null;
  logit_bias?: Record<string, number> | null;
  seed?: number | null;
  [other: string]: unknown;
}

export interface Usage {
  prompt_tokens: number;
  completion_tokens: number;
  total_tokens: number;
  prompt_tokens_details: { cached_tokens: number };
}

type Ending = "stop" | "length" | null;

/** What a chunk adds; `reasoning_content`, which other servers have too, is what the model thinks. */
interface Delta {
  role?: "assistant";
  content?: string;
  reasoning_content?: string;
}

export interface ChatCompletion {
  id: string;
  object: "chat.completion";
  created: number;
  model: string;
  choices: {
    index: 0;
    message: { role: "assistant"; content: string; refusal: null; reasoning_content?: string };
    finish_reason: Ending;
    logprobs: null;
  }[];
  usage: Usage;
}

export interface ChatCompletionChunk {
  id: string;
  object: "chat.completion.chunk";
  created: number;
  model: string;
  choices: {
    index: 0;
    delta: Delta;
    finish_reason: Ending;
    logprobs: null;
  }[];
  usage?: Usage | null;
}

/** Chunks of a streamed completion; leaving a loop over it, or `controller.abort()`, stops the reply. */
export interface ChatCompletionStream extends AsyncIterable<ChatCompletionChunk> {
  controller: AbortController;
}

/** How a completion is asked for. */
export interface CompletionOptions {
  signal?: AbortSignal;
  /** As in `GenerateOptions`. */
  scope?: string;
}

/** What of the engine is needed. */
export interface Completer {
  modelName(): string;
  generate(messages: Message[], options: GenerateOptions): Generation;
}

/** Parameters that are understood, or that change nothing here. */
const KNOWN: ReadonlySet<string> = new Set([
  "messages",
  "model",
  "stream",
  "stream_options",
  "max_tokens",
  "max_completion_tokens",
  "stop",
  "temperature",
  "top_p",
  "frequency_penalty",
  "presence_penalty",
  "logit_bias",
  "seed",
  "user",
  "metadata",
  "store",
  "service_tier",
  "safety_identifier",
  "prompt_cache_key",
]);

/** Values at which a parameter asks for nothing that is not done anyway. */
const HARMLESS: Readonly<Record<string, readonly unknown[]>> = {
  n: [1],
  logprobs: [false],
  parallel_tool_calls: [true, false],
  tool_choice: ["none"],
};

function checkParameters(request: ChatCompletionRequest): void {
  for (const [name, value] of Object.entries(request)) {
    if (KNOWN.has(name) || value === undefined || value === null) continue;
    if (Array.isArray(value) && value.length === 0) continue;
    if (name === "response_format" && (value as { type?: string }).type === "text") continue;
    if (HARMLESS[name]?.includes(value)) continue;
    const possible = HARMLESS[name] ? `: ${HARMLESS[name].join(" or ")} is possible` : "";
    throw new FanlightError("unsupported", `${name} = ${JSON.stringify(value)} is not supported${possible}`);
  }
}

/** The text of a content, whose form nobody has checked. */
function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  const parts: unknown = content ?? [];
  if (!Array.isArray(parts)) {
    const message = `a message has content of type ${typeof content}: give text, or a list of text parts`;
    throw new FanlightError("request", message);
  }
  return parts
    .map((part: { type?: unknown; text?: unknown } | null) => {
      if (part?.type === "text" && typeof part.text === "string") return part.text;
      throw new FanlightError(
        "unsupported",
        `a message has a part of type ${String(part?.type)}: only text is supported`,
      );
    })
    .join("");
}

/** Texts that end a reply, whose form nobody has checked. */
function stopOf(stop: unknown): string | string[] {
  if (typeof stop === "string") return stop;
  if (Array.isArray(stop) && stop.every((text) => typeof text === "string")) return stop;
  throw new FanlightError("request", "stop is neither a text nor a list of texts");
}

function messagesOf(request: ChatCompletionRequest): Message[] {
  if (!Array.isArray(request.messages))
    throw new FanlightError("request", "messages is missing: give a list");
  return request.messages.map((message: { role?: unknown; content?: unknown } | null) => {
    const { role, content } = message ?? {};
    const as = role === "developer" ? "system" : role;
    if (as === "system" || as === "user" || as === "assistant") return { role: as, content: textOf(content) };
    throw new FanlightError(
      "unsupported",
      `a message has role ${String(role)}: system, user and assistant are supported`,
    );
  });
}

/** A temperature is 1 where nothing is said, as in the interface that this follows. */
function optionsOf(request: ChatCompletionRequest): GenerateOptions {
  const options: GenerateOptions = { temperature: request.temperature ?? 1 };
  const limit = request.max_completion_tokens ?? request.max_tokens;
  if (typeof limit === "number") options.maxTokens = limit;
  if (request.stop !== undefined && request.stop !== null) options.stop = stopOf(request.stop);
  const { top_p: topP, frequency_penalty: frequency, presence_penalty: presence } = request;
  if (typeof topP === "number") options.topP = topP;
  if (typeof frequency === "number") options.frequencyPenalty = frequency;
  if (typeof presence === "number") options.presencePenalty = presence;
  if (request.logit_bias) options.logitBias = request.logit_bias;
  if (typeof request.seed === "number") options.seed = request.seed;
  return options;
}

function usageOf(stats: GenerationStats): Usage {
  const { promptTokens, tokens, reusedTokens } = stats;
  return {
    prompt_tokens: promptTokens,
    completion_tokens: tokens,
    total_tokens: promptTokens + tokens,
    prompt_tokens_details: { cached_tokens: reusedTokens },
  };
}

/** A reply that the page stopped is no whole one, and this interface has no ending for it: it fails. */
function endingOf(reason: FinishReason): Ending {
  if (reason === "cancelled") throw new FanlightError("cancelled", "the page stopped the reply: ask again");
  return reason;
}

function newId(): string {
  return `chatcmpl-${crypto.randomUUID().replaceAll("-", "")}`;
}

export class Completions {
  constructor(private readonly engine: Completer) {}

  create(
    request: ChatCompletionRequest & { stream: true },
    options?: CompletionOptions,
  ): Promise<ChatCompletionStream>;
  create(
    request: ChatCompletionRequest & { stream?: false | null },
    options?: CompletionOptions,
  ): Promise<ChatCompletion>;
  create(
    request: ChatCompletionRequest,
    options?: CompletionOptions,
  ): Promise<ChatCompletion | ChatCompletionStream>;
  async create(
    request: ChatCompletionRequest,
    { signal, scope }: CompletionOptions = {},
  ): Promise<ChatCompletion | ChatCompletionStream> {
    checkParameters(request);
    const options = optionsOf(request);
    if (scope !== undefined) options.scope = scope;
    const controller = new AbortController();
    options.signal = signal ? AbortSignal.any([signal, controller.signal]) : controller.signal;
    const generation = this.engine.generate(messagesOf(request), options);
    const withUsage = request.stream_options?.include_usage === true;
    if (request.stream === true) {
      const chunks = this.chunks(generation, withUsage);
      return { controller, [Symbol.asyncIterator]: () => chunks };
    }
    return await this.whole(generation);
  }

  private async whole(generation: Generation): Promise<ChatCompletion> {
    const created = Math.floor(Date.now() / 1000);
    let content = "";
    let reasoning = "";
    for await (const event of generation) {
      if (event.type === "text") content += event.delta;
      if (event.type === "reasoning") reasoning += event.delta;
      if (event.type !== "done") continue;
      const thoughts = reasoning === "" ? {} : { reasoning_content: reasoning };
      const message = { role: "assistant", content, refusal: null, ...thoughts } as const;
      const choice = { index: 0, message, finish_reason: endingOf(event.reason), logprobs: null } as const;
      const usage = usageOf(event.stats);
      const model = this.engine.modelName();
      return { id: newId(), object: "chat.completion", created, model, choices: [choice], usage };
    }
    throw new FanlightError("other", "the reply ended without its last event");
  }

  private async *chunks(generation: Generation, withUsage: boolean): AsyncGenerator<ChatCompletionChunk> {
    const created = Math.floor(Date.now() / 1000);
    const base = {
      id: newId(),
      object: "chat.completion.chunk",
      created,
      model: this.engine.modelName(),
    } as const;
    const chunk = (delta: Delta, ending: Ending): ChatCompletionChunk => ({
      ...base,
      choices: [{ index: 0, delta, finish_reason: ending, logprobs: null }],
      ...(withUsage ? { usage: null } : {}),
    });
    let isFirst = true;
    for await (const event of generation) {
      if (isFirst && ["text", "reasoning", "done"].includes(event.type)) {
        isFirst = false;
        yield chunk({ role: "assistant", content: "" }, null);
      }
      if (event.type === "text") yield chunk({ content: event.delta }, null);
      else if (event.type === "reasoning") yield chunk({ reasoning_content: event.delta }, null);
      else if (event.type === "done") {
        yield chunk({}, endingOf(event.reason));
        if (withUsage) yield { ...base, choices: [], usage: usageOf(event.stats) };
      }
    }
  }

  /** Serves `POST …/chat/completions` and `GET …/models` without a network. */
  readonly fetch = async (input: RequestInfo | URL, init?: RequestInit): Promise<Response> => {
    const request = new Request(input, init);
    const { pathname } = new URL(request.url);
    try {
      if (request.method === "GET" && pathname.endsWith("/models")) {
        const model = { id: this.engine.modelName(), object: "model", created: 0, owned_by: "fanlight" };
        return Response.json({ object: "list", data: [model] });
      }
      if (request.method !== "POST" || !pathname.endsWith("/chat/completions")) {
        const what = `${request.method} ${pathname}`;
        const message = `${what} is not served: POST /chat/completions and GET /models are`;
        return refusal(404, "not-found", message);
      }
      const body = (await request.json()) as ChatCompletionRequest;
      const completion = await this.create(body, { signal: request.signal });
      return "controller" in completion ? streamed(completion) : Response.json(completion);
    } catch (error) {
      if (request.signal.aborted) throw request.signal.reason;
      if (error instanceof FanlightError) return refusal(statusOf(error), error.code, error.message);
      if (error instanceof SyntaxError)
        return refusal(400, "request", `the body is no JSON: ${error.message}`);
      throw error;
    }
  };
}

function statusOf({ code }: FanlightError): number {
  if (code === "request" || code === "unsupported" || code === "prompt-too-long") return 400;
  if (code === "busy") return 429;
  if (code === "no-model" || code === "model-replaced") return 404;
  return 500;
}

function refusal(status: number, code: string, message: string): Response {
  const type = status < 500 ? "invalid_request_error" : "server_error";
  return Response.json({ error: { message, type, param: null, code } }, { status });
}

/** Server-sent events, pulled by the reader. */
function streamed(completion: ChatCompletionStream): Response {
  const encoder = new TextEncoder();
  const chunks = completion[Symbol.asyncIterator]();
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const { done, value } = await chunks.next();
        controller.enqueue(encoder.encode(`data: ${done ? "[DONE]" : JSON.stringify(value)}\n\n`));
        if (done) controller.close();
      } catch (error) {
        const { message } = error as Error;
        const code = error instanceof FanlightError ? error.code : "other";
        const told = { error: { message, type: "server_error", param: null, code } };
        controller.enqueue(encoder.encode(`data: ${JSON.stringify(told)}\n\n`));
        controller.close();
      }
    },
    async cancel() {
      await chunks.return?.();
    },
  });
  return new Response(body, { headers: { "content-type": "text/event-stream" } });
}
