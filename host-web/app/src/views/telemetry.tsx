// Where the milliseconds and bytes go, below the conversation: the same panel that any page can embed. Its
// code is fetched when it is first opened.

import { useEffect, useRef, useState } from "preact/hooks";

import { running } from "../engine.js";
import { isTelemetryOpen } from "../state.js";

/** Kept from one opening to the next, and with it what was recorded. */
let element: HTMLElement | null = null;

async function panel(): Promise<HTMLElement> {
  const { FanlightTelemetry } = await import("fanlight-devtools");
  if (element === null) {
    const made = new FanlightTelemetry();
    made.source = running();
    const close = document.createElement("button");
    close.slot = "actions";
    close.type = "button";
    close.textContent = "Close";
    close.addEventListener("click", () => {
      isTelemetryOpen.value = false;
    });
    made.append(close);
    element = made;
  }
  return element;
}

export function Telemetry() {
  const place = useRef<HTMLDivElement>(null);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    let isClosed = false;
    panel().then(
      (shown) => {
        if (!isClosed) place.current?.replaceChildren(shown);
      },
      (error: unknown) => setProblem(`The panel cannot be shown: ${String(error)}`),
    );
    return () => {
      isClosed = true;
      element?.remove();
    };
  }, []);
  return (
    <aside id="telemetry" class="dock" aria-label="Telemetry">
      {problem && <p class="problem">{problem}</p>}
      <div ref={place} />
    </aside>
  );
}
