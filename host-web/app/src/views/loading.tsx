// How far a load is.

import { stop } from "../engine.js";
import { bytes, duration } from "../format.js";
import { activity, isStopping, pace, source } from "../state.js";

export function Loading() {
  const { value } = pace;
  if (activity.value === "inspecting")
    return (
      <p class="faint" role="status">
        Reading the header …
      </p>
    );
  if (activity.value !== "loading" || !value) return null;
  const { progress, perSecond } = value;
  const isKnown = progress.phase !== "header";
  const rest = isKnown && perSecond ? (progress.total - progress.done) / perSecond : null;
  const left = rest !== null && rest >= 1 ? ` · ${duration(rest)} left` : "";
  let text = "Reading the header …";
  if (progress.phase === "weights" || progress.phase === "check") {
    const what = progress.phase === "check" ? "Comparing with its hash: " : "";
    const speed = perSecond ? ` · ${bytes(perSecond)}/s` : "";
    text = `${what}${bytes(progress.done)} of ${bytes(progress.total)}${speed}${left}`;
  } else if (progress.phase === "pipelines") {
    text = `Preparing the GPU: ${progress.done} of ${progress.total} programs${left}`;
  }
  return (
    <section class="card loading" aria-label="Loading">
      <h3>{source.value?.name}</h3>
      <progress
        aria-label="Loading the model"
        {...(isKnown ? { value: progress.done, max: progress.total } : {})}
      />
      <div class="row between">
        <span id="progress-text" class="numbers faint">
          {text}
        </span>
        <button type="button" id="cancel-load" disabled={isStopping.value} onClick={() => void stop()}>
          {isStopping.value ? "Stopping …" : "Cancel"}
        </button>
      </div>
    </section>
  );
}
