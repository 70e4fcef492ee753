// The conversation: questions, answers, and what can be done with each.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

import { answerAgain, dropOldest, edit, regenerate, turnTo, unanswered } from "../chat.js";
import { withCopyButtons } from "../code.js";
import { path, siblings, type Entry } from "../conversation.js";
import { duration } from "../format.js";
import { rendered } from "../markdown.js";
import { activity, current, model, modelName, thoughts } from "../state.js";
import { scrollToEnd, writerOf } from "../writer.js";
import { Fan } from "./icons.js";
import { CopyIcon, IconButton } from "./parts.js";

const ENDINGS: Record<NonNullable<Entry["ending"]>, string> = {
  stop: "",
  length: "Cut off at the longest answer that the settings allow",
  full: "The context is full",
  cancelled: "Stopped",
  broken: "Interrupted by an error",
};

/** Which of several branches is shown, with the way to the others. */
function Branches({ entry }: { entry: Entry }) {
  const all = siblings(current.value, entry);
  if (all.length < 2) return null;
  const at = all.findIndex(({ id }) => id === entry.id);
  const isIdle = activity.value === "idle";
  return (
    <span class="branches">
      <IconButton
        icon="left"
        label="The version before"
        disabled={at === 0 || !isIdle}
        onClick={() => turnTo(entry, -1)}
      />
      <span class="numbers small">
        {at + 1} of {all.length}
      </span>
      <IconButton
        icon="right"
        label="The version after"
        disabled={at === all.length - 1 || !isIdle}
        onClick={() => turnTo(entry, 1)}
      />
    </span>
  );
}

function Editor({ entry, onEnd }: { entry: Entry; onEnd: () => void }) {
  const [text, setText] = useState(entry.content);
  const send = () => {
    onEnd();
    void edit(entry, text);
  };
  return (
    <form
      class="editor"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      <textarea
        aria-label="Edit the question"
        value={text}
        rows={Math.min(12, text.split("\n").length + 1)}
        onInput={(event) => setText(event.currentTarget.value)}
        ref={(area) => area?.focus()}
        onKeyDown={(event) => {
          if (event.key === "Escape") onEnd();
        }}
      />
      <div class="row end">
        <button type="button" onClick={onEnd}>
          Cancel
        </button>
        <button type="submit" class="primary" disabled={text.trim() === ""}>
          Ask this instead
        </button>
      </div>
    </form>
  );
}

function Question({ entry }: { entry: Entry }) {
  const [isEdited, setEdited] = useState(false);
  const isIdle = activity.value === "idle";
  return (
    <article class="question" aria-label="You">
      {isEdited ? (
        <Editor entry={entry} onEnd={() => setEdited(false)} />
      ) : (
        <div class="said">{entry.content}</div>
      )}
      {!isEdited && (
        <div class="tools">
          <Branches entry={entry} />
          <IconButton
            icon="pen"
            label="Edit and ask again"
            disabled={!isIdle || !model.value}
            onClick={() => setEdited(true)}
          />
          <CopyIcon text={entry.content} />
        </div>
      )}
    </article>
  );
}

/** The text of an answer: written by the writer as it comes, and whole when it is complete. */
function AnswerText({ entry, isWriting }: { entry: Entry; isWriting: boolean }) {
  const place = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    if (!place.current) return;
    if (isWriting) writerOf(entry.id)?.attach(place.current);
    else place.current.replaceChildren(withCopyButtons(rendered(entry.content)));
  }, [entry.content, isWriting]);
  return <div class={`text ${isWriting ? "writing" : ""}`} ref={place} />;
}

/** What the model thought before its answer, folded away. */
function Thoughts({ entry, isWriting }: { entry: Entry; isWriting: boolean }) {
  const text = isWriting ? thoughts.value : entry.thoughts;
  if (!text?.trim()) return null;
  const seconds = (entry.thoughtMs ?? 0) / 1000;
  return (
    <details class="thoughts">
      <summary>{isWriting ? "Thinking …" : `Thought for ${duration(seconds)}`}</summary>
      <p>{text.trim()}</p>
    </details>
  );
}

function Answer({ entry }: { entry: Entry }) {
  const isWriting = activity.value === "answering" && entry.ending === undefined;
  const isIdle = activity.value === "idle";
  return (
    <article class="answer" aria-label="Answer" aria-busy={isWriting}>
      <Thoughts entry={entry} isWriting={isWriting} />
      <AnswerText entry={entry} isWriting={isWriting} />
      {entry.ending && ENDINGS[entry.ending] && <p class="ending">{ENDINGS[entry.ending]}</p>}
      {entry.ending === "full" && !current.value.dropsOldest && (
        <p class="row">
          <button type="button" id="drop" onClick={dropOldest}>
            Leave out the oldest turns from now on
          </button>
        </p>
      )}
      {!isWriting && (
        <div class="tools">
          <Branches entry={entry} />
          <IconButton
            icon="redo"
            label="Answer again"
            disabled={!isIdle || !model.value}
            onClick={() => void regenerate(entry)}
          />
          <CopyIcon text={entry.content} />
          <span class="note numbers">
            {[entry.model === modelName.value ? "" : entry.model, entry.note].filter(Boolean).join(" · ")}
          </span>
        </div>
      )}
    </article>
  );
}

export function Chat() {
  const { value: conversation } = current;
  const shown = path(conversation);
  useEffect(scrollToEnd, [conversation.id, shown.length]);
  const open = activity.value === "idle" && model.value ? unanswered() : null;
  return (
    <section id="log" class="log" role="log" aria-live="polite" aria-label="Conversation" tabIndex={0}>
      <div class="column">
        {shown.length === 0 && (
          <div class="empty">
            <Fan size="large" />
            <h2>Ask something</h2>
            <p class="faint">{modelName.value} is ready and answers on this computer.</p>
          </div>
        )}
        {shown.map((entry) =>
          entry.role === "user" ? (
            <Question key={entry.id} entry={entry} />
          ) : (
            <Answer key={entry.id} entry={entry} />
          ),
        )}
        {open && (
          <p class="row">
            <button type="button" onClick={() => void answerAgain(open.id)}>
              Answer this
            </button>
          </p>
        )}
      </div>
    </section>
  );
}
