// What can be set: instructions, the length of answers, what is kept, the theme.

import { setKeeps } from "../chat.js";
import { set, settings, type Theme } from "../state.js";
import { Panel } from "./parts.js";

export function SettingsPanel() {
  const { value } = settings;
  return (
    <Panel title="Settings">
      <label class="field tall">
        Instructions to the model
        <textarea
          id="system"
          rows={4}
          value={value.system}
          placeholder="Such as: answer briefly, in plain words."
          onChange={(event) => set({ system: event.currentTarget.value })}
        />
      </label>
      <label class="field">
        Most tokens of an answer
        <input
          id="tokens"
          type="number"
          min={1}
          max={32_768}
          value={value.maxTokens}
          onChange={(event) => set({ maxTokens: event.currentTarget.valueAsNumber || value.maxTokens })}
        />
      </label>
      <label class="field">
        Theme
        <select
          id="theme"
          value={value.theme}
          onChange={(event) => set({ theme: event.currentTarget.value as Theme })}
        >
          <option value="auto">As the computer</option>
          <option value="light">Light</option>
          <option value="dark">Dark</option>
        </select>
      </label>
      <label class="check">
        <input
          id="keeps"
          type="checkbox"
          checked={value.keeps}
          onChange={(event) => void setKeeps(event.currentTarget.checked)}
        />
        <span>
          Keep conversations on this computer
          <span class="faint small">Switched off, those that are kept are deleted.</span>
        </span>
      </label>
    </Panel>
  );
}
