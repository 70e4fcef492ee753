// The public interface of the package.

export { BridgeError, connectBridge } from "./bridge/client.js";
export type { BridgeClient, BridgeErrorCode, ConnectOptions } from "./bridge/client.js";
export { isBridgeKey, newBridgeKey } from "./bridge/key.js";
export type { BridgeState } from "./bridge/protocol.js";
export { parseOrigin } from "./bridge/origins.js";
export { serveBridge } from "./bridge/server.js";
export type { Bridge, BridgeOptions, BridgeStatus } from "./bridge/server.js";
export { Fanlight } from "./engine.js";
export type { CreateOptions, EngineEvent, EngineStats, FollowOptions, LoadOptions } from "./engine.js";
export { FanlightError } from "./errors.js";
export type { FanlightErrorCode, MissingGpu } from "./errors.js";
export { Generation } from "./generation.js";
export type { FinishReason, GenerationEvent, GenerationStats } from "./generation.js";
export type {
  BudgetOptions,
  Inspection,
  LoadProgress,
  ModelDescription,
  ModelInfo,
  ModelOptions,
  Plan,
} from "./info.js";
export type {
  ChatCompletion,
  ChatCompletionChunk,
  ChatCompletionRequest,
  ChatCompletionStream,
} from "./openai.js";
export type { Adapter, Sample, Snapshot, StoredModel, TypeUse, Verification, Warning } from "./protocol.js";
export { MAX_TOKENS_DEFAULT } from "./requests.js";
export type { GenerateOptions, Message, PlainPrompt, PromptInput, SamplingOptions } from "./requests.js";
export { hub, hubFiles } from "./hub.js";
export type { HubFile } from "./hub.js";
export { findModels } from "./sources.js";
export type { FileSource, FoundModel, ModelSource, UrlSource } from "./sources.js";
