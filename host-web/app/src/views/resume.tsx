// Below a conversation that is read without a model: how to go on with it.

import { load } from "../engine.js";
import { lastModel } from "../last.js";
import { activity, isBusy, noGpu, panel } from "../state.js";
import { Icon } from "./icons.js";
import { Loading } from "./loading.js";

function Choices() {
  const { value: last } = lastModel;
  const choose = () => {
    panel.value = "model";
  };
  return (
    <div class="row end">
      <span class="grow faint">Load a model to go on.</span>
      <button type="button" id="resume-choose" disabled={isBusy.value} onClick={choose}>
        {last ? "Another model" : "Choose a model"}
      </button>
      {last && (
        <button
          type="button"
          id="resume"
          class="primary"
          disabled={isBusy.value}
          onClick={() => void load({ name: last.name, source: { url: last.url } })}
        >
          <Icon name="chip" /> Continue with {last.name}
        </button>
      )}
    </div>
  );
}

export function Resume() {
  const isLoading = activity.value === "loading" && panel.value === "none";
  return (
    <div class="composer">
      <div class="column">
        {isLoading ? (
          <Loading />
        ) : noGpu.value ? (
          <p class="faint">Conversations can be read here. To go on with one, this page needs a GPU.</p>
        ) : (
          <Choices />
        )}
      </div>
    </div>
  );
}
