// The frame of the page: conversations at the side, the conversation in the middle, panels in front.

import { useEffect, useRef } from "preact/hooks";

import { stop } from "../engine.js";
import { startNew } from "../keeping.js";
import {
  activity,
  adapter,
  current,
  isSidebarOpen,
  isTelemetryOpen,
  model,
  modelName,
  noGpu,
  panel,
} from "../state.js";
import { Chat } from "./chat.js";
import { CheckPanel } from "./check.js";
import { Composer } from "./composer.js";
import { Icon } from "./icons.js";
import { ModelPanel, NoGpu, Welcome } from "./model.js";
import { IconButton, NoticeView } from "./parts.js";
import { Resume } from "./resume.js";
import { SettingsPanel } from "./settings.js";
import { Sidebar } from "./sidebar.js";
import { Telemetry } from "./telemetry.js";

function Bar() {
  const { value: info } = model;
  const context = info ? `${info.contextLength.toLocaleString("en")} tokens of context` : "";
  return (
    <header class="bar">
      <IconButton
        icon="menu"
        id="menu-button"
        label="Conversations"
        class="only-narrow"
        isExpanded={isSidebarOpen.value}
        onClick={() => {
          isSidebarOpen.value = true;
        }}
      />
      <button
        type="button"
        id="model-button"
        class="model-button"
        disabled={noGpu.value !== null}
        onClick={() => {
          panel.value = "model";
        }}
      >
        <Icon name="chip" />
        <span class="model-name">{info ? modelName.value : "Choose a model"}</span>
        {info && <span class="model-context">{context}</span>}
      </button>
      <IconButton
        icon="pulse"
        id="telemetry-button"
        label="Telemetry"
        disabled={adapter.value === null}
        onClick={() => {
          isTelemetryOpen.value = !isTelemetryOpen.value;
        }}
      />
      <IconButton
        icon="gear"
        id="settings-button"
        label="Settings"
        onClick={() => {
          panel.value = "settings";
        }}
      />
    </header>
  );
}

function Adapter() {
  const { value } = adapter;
  if (!value)
    return (
      <p id="adapter" class="adapter" role="status">
        {activity.value === "starting" ? "Looking for a GPU …" : "No GPU"}
      </p>
    );
  return (
    <p id="adapter" class={`adapter ${value.isSoftware ? "software" : ""}`} role="status">
      {value.name}
      {value.isSoftware && " – a processor computes here, not a GPU: expect it to be slow"}
    </p>
  );
}

function listen(event: KeyboardEvent): void {
  // A key that closes what is in front does nothing else.
  const isInFront = panel.value !== "none" || event.defaultPrevented;
  if (event.key === "Escape" && isSidebarOpen.value) isSidebarOpen.value = false;
  else if (event.key === "Escape" && !isInFront && activity.value === "answering") void stop();
  else if (event.key === "O" && event.ctrlKey && event.shiftKey) {
    event.preventDefault();
    startNew();
    document.getElementById("question")?.focus();
  }
}

/** A file that is dropped next to its place must not replace the page. */
function holdDrop(event: DragEvent): void {
  event.preventDefault();
}

export function App() {
  useEffect(() => {
    document.addEventListener("keydown", listen);
    for (const name of ["dragover", "drop"] as const) document.addEventListener(name, holdDrop);
    return () => {
      document.removeEventListener("keydown", listen);
      for (const name of ["dragover", "drop"] as const) document.removeEventListener(name, holdDrop);
    };
  }, []);
  const isList = isSidebarOpen.value;
  const wasList = useRef(isList);
  // The focus goes into the list that covers the page, and back to the button that opened it.
  useEffect(() => {
    if (isList !== wasList.current) document.getElementById(isList ? "close-list" : "menu-button")?.focus();
    wasList.current = isList;
  }, [isList]);
  const isReady = model.value !== null;
  // What was said can be read without a model, and without a GPU.
  const isRead = current.value.entries.length > 0;
  return (
    <div class={`frame ${isList ? "with-sidebar" : ""}`}>
      <a class="skip" href={isReady ? "#question" : "#main"}>
        Skip to the conversation
      </a>
      <Sidebar>
        <Adapter />
      </Sidebar>
      <main id="main" class="main" tabIndex={-1} inert={isList}>
        <Bar />
        {panel.value === "none" && <NoticeView />}
        {isReady || isRead ? <Chat /> : noGpu.value ? <NoGpu /> : <Welcome />}
        {isReady ? <Composer /> : isRead && <Resume />}
        {isTelemetryOpen.value && <Telemetry />}
      </main>
      {panel.value === "model" && <ModelPanel />}
      {panel.value === "settings" && <SettingsPanel />}
      {panel.value === "check" && <CheckPanel />}
    </div>
  );
}
