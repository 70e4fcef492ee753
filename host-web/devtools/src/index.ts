// The panel as a package: importing it defines <fanlight-telemetry>.

import { FanlightTelemetry } from "./element.js";

export { FanlightTelemetry };
export { Recording, RecordingError } from "./recording.js";
export type { Frames, RecordingFile, State } from "./recording.js";
export { reportOf } from "./report.js";
export type { SourceEvent, TelemetrySource } from "./source.js";
export { traceFile } from "./trace.js";
export type { TraceEvent, TraceFile } from "./trace.js";

if (!customElements.get("fanlight-telemetry")) customElements.define("fanlight-telemetry", FanlightTelemetry);

declare global {
  interface HTMLElementTagNameMap {
    "fanlight-telemetry": FanlightTelemetry;
  }
}
