// The public interface of the package.

export { Fanlight } from "./engine.js";
export type { CreateOptions, EngineEvent, EngineStats, LoadOptions } from "./engine.js";
export { FanlightError } from "./errors.js";
export type { FanlightErrorCode, MissingGpu } from "./errors.js";
export { Generation } from "./generation.js";
export type { FinishReason, GenerationEvent, GenerationStats } from "./generation.js";
export type { Inspection, LoadProgress, ModelDescription, ModelInfo, ModelOptions, Plan } from "./info.js";
export type {
  ChatCompletion,
  ChatCompletionChunk,
  ChatCompletionRequest,
  ChatCompletionStream,
} from "./openai.js";
export type { Adapter, Sample, Snapshot, StoredModel, TypeUse, Verification, Warning } from "./protocol.js";
export { MAX_TOKENS_DEFAULT } from "./requests.js";
export type { GenerateOptions, Message, PlainPrompt, PromptInput, SamplingOptions } from "./requests.js";
export { findModels, hub } from "./sources.js";
export type { FileSource, FoundModel, ModelSource, UrlSource } from "./sources.js";
