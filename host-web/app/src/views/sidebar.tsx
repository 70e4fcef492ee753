// The conversations that are kept.

import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";

import type { Conversation } from "../conversation.js";
import { exported, imported, open, remove, startNew } from "../keeping.js";
import { activity, conversations, current, isSidebarOpen, panel, settings } from "../state.js";
import { Fan, Icon } from "./icons.js";
import { IconButton } from "./parts.js";

/** Gives a file to the visitor. */
function download(file: File): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(file);
  link.download = file.name;
  link.click();
  // The browser has taken it when the click has returned.
  setTimeout(() => URL.revokeObjectURL(link.href), 0);
}

/** A list that is longer is searched rather than read. */
const SEARCHED_FROM = 8;

/** Whether a conversation has a text, in its title or in what was said. */
function has({ title, entries }: Conversation, text: string): boolean {
  return [title, ...entries.map(({ content }) => content)].some((said) => said.toLowerCase().includes(text));
}

function List() {
  const [sought, seek] = useState("");
  const all = conversations.value.filter(({ entries }) => entries.length > 0);
  if (all.length === 0) return <p class="faint small">No conversations yet.</p>;
  const isSearched = all.length >= SEARCHED_FROM;
  const text = isSearched ? sought.trim().toLowerCase() : "";
  const found = text === "" ? all : all.filter((conversation) => has(conversation, text));
  return (
    <>
      {isSearched && (
        <input
          id="search"
          type="search"
          aria-label="Search conversations"
          placeholder="Search"
          value={sought}
          onInput={(event) => seek(event.currentTarget.value)}
        />
      )}
      <Found found={found} />
      {found.length === 0 && <p class="faint small">No conversation has this text.</p>}
    </>
  );
}

function Found({ found }: { found: Conversation[] }) {
  const isAnswering = activity.value === "answering";
  return (
    <ul class="conversations">
      {found.map((conversation) => (
        <li key={conversation.id}>
          <button
            type="button"
            class="conversation"
            disabled={isAnswering}
            onClick={() => open(conversation)}
            aria-current={conversation.id === current.value.id ? "true" : undefined}
          >
            {conversation.title}
          </button>
          <IconButton
            icon="bin"
            label={`Delete “${conversation.title}”`}
            disabled={isAnswering}
            onClick={() => void remove(conversation)}
          />
        </li>
      ))}
    </ul>
  );
}

/** What can be done with all conversations, and what is known of the machine. */
function Foot({ children }: { children: ComponentChildren }) {
  const input = useRef<HTMLInputElement>(null);
  const take = () => {
    const file = input.current?.files?.[0];
    if (file) void imported(file);
    if (input.current) input.current.value = "";
  };
  return (
    <div class="sidebar-foot">
      <div class="row">
        <button type="button" class="quiet" onClick={() => download(exported())}>
          <Icon name="out" /> Export
        </button>
        <button type="button" class="quiet" onClick={() => input.current?.click()}>
          <Icon name="into" /> Import
        </button>
        <input
          ref={input}
          id="import"
          type="file"
          accept=".json,application/json"
          hidden
          aria-label="Import"
          onChange={take}
        />
      </div>
      <button
        type="button"
        class="quiet"
        onClick={() => {
          panel.value = "check";
        }}
      >
        <Icon name="check" /> Check this GPU
      </button>
      {children}
      <p class="faint small">
        {settings.value.keeps ? "Kept on this computer only." : "Not kept: gone when the page is closed."}
      </p>
    </div>
  );
}

export function Sidebar({ children }: { children: ComponentChildren }) {
  return (
    <>
      <nav class="sidebar" aria-label="Conversations">
        <div class="brand">
          <Fan size="small" />
          <h1>Fanlight</h1>
          <IconButton
            icon="close"
            id="close-list"
            label="Close the list"
            class="only-narrow"
            onClick={() => {
              isSidebarOpen.value = false;
            }}
          />
        </div>
        <button
          type="button"
          id="new"
          class="wide"
          onClick={startNew}
          disabled={activity.value === "answering"}
        >
          <Icon name="plus" /> New conversation
        </button>
        <List />
        <Foot>{children}</Foot>
      </nav>
      <button
        type="button"
        class="veil"
        aria-label="Close the list"
        tabIndex={-1}
        onClick={() => {
          isSidebarOpen.value = false;
        }}
      />
    </>
  );
}
