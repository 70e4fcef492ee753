// The page of the panel: the telemetry component, fed from the inspected page while somebody looks at it.

import "../src/index.js";

import { Frames, type Inspected } from "./frames.js";
import { PageSource, type PageState } from "./source.js";

/** The developer tools as a thing to evaluate with. */
const inspected: Inspected = {
  evaluate: (expression, frameUrl) =>
    new Promise((done, failed) => {
      const options = frameUrl === null ? {} : { frameURL: frameUrl };
      chrome.devtools.inspectedWindow.eval(expression, options, (value, failure) => {
        if (!failure?.isError && !failure?.isException) return done(value);
        failed(new Error(failure.value ?? failure.description ?? "the page could not be evaluated"));
      });
    }),
  documents: () =>
    new Promise((done) => {
      chrome.devtools.inspectedWindow.getResources((resources) =>
        done(resources.filter(({ type }) => type === "document").map(({ url }) => url)),
      );
    }),
};

function sentence(state: PageState): string {
  switch (state.kind) {
    case "attached":
      return "Attached.";
    case "none":
      return "No page of Fanlight here. The panel attaches by itself when an engine is created.";
    case "waiting":
      return "An engine is there; its first snapshot is on its way.";
    case "failed":
      return `The page could not be read: ${state.message}`;
  }
}

const place = document.getElementById("state");
const source = new PageSource(new Frames(inspected), (state) => {
  const text = sentence(state);
  // Said once, not at every look.
  if (place && place.textContent !== text) place.textContent = text;
});

const telemetry = document.createElement("fanlight-telemetry");
telemetry.source = source;
document.querySelector("main")?.append(telemetry);

// Told by devtools.ts; the browser does not hide a panel that is not looked at.
addEventListener("fanlight-shown", () => source.show(true));
addEventListener("fanlight-hidden", () => source.show(false));
