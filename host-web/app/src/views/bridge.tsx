// The developer bridge in the settings: switch, key, origins, code to copy.

import { useId, useState } from "preact/hooks";

import { addOrigin, bridge, removeOrigin, rotate, setOn, status } from "../bridge.js";
import { sentence } from "../format.js";
import { snippets } from "../snippets.js";
import { IconButton } from "./parts.js";

/** How long a button says that it has copied. */
const COPIED_MS = 1500;
/** Stands for the key in what is shown while the key is hidden. */
const HIDDEN_KEY = "fl_sk_…";

/** A button that copies; what it came to is told to everybody. */
function CopyButton({ text, label, id }: { text: string; label: string; id?: string }) {
  const [said, say] = useState("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      say("Copied");
    } catch {
      say("Select and copy it yourself");
    }
    setTimeout(() => say(""), COPIED_MS);
  };
  return (
    <>
      <button type="button" id={id} class="quiet" aria-label={said || label} onClick={() => void copy()}>
        {said || "Copy"}
      </button>
      <span class="unseen" role="status">
        {said}
      </span>
    </>
  );
}

function Key({ isShown, show }: { isShown: boolean; show: (isShown: boolean) => void }) {
  const key = bridge.value.key ?? "";
  const [told, tell] = useState("");
  const replace = () => {
    rotate();
    tell("There is a new key; the old one has stopped.");
  };
  return (
    <div class="bridge-part">
      <label class="label" for="bridge-key">
        Key
      </label>
      <div class="row nowrap">
        <input
          id="bridge-key"
          // The element's types know no input that changes.
          type={(isShown ? "text" : "password") as "password"}
          value={key}
          readOnly
          autocomplete="off"
          spellcheck={false}
          aria-describedby="bridge-key-about"
          onFocus={(event) => event.currentTarget.select()}
        />
        <button
          type="button"
          id="bridge-show"
          class="quiet"
          aria-label={isShown ? "Hide the key" : "Show the key"}
          onClick={() => show(!isShown)}
        >
          {isShown ? "Hide" : "Show"}
        </button>
        <CopyButton text={key} label="Copy the key" id="bridge-copy" />
        <button type="button" id="bridge-rotate" class="quiet" onClick={replace}>
          New key
        </button>
      </div>
      <p id="bridge-key-about" class="faint small">
        Whoever has it can use the model as long as this page is open. A new key stops the old one at once.
      </p>
      <p class="small" role="status">
        {told}
      </p>
    </div>
  );
}

function Origins() {
  const [typed, type] = useState("");
  const [problem, tell] = useState<string | null>(null);
  const about = useId();
  const { origins } = bridge.value;
  const add = () => {
    const found = addOrigin(typed);
    tell(found === null ? null : sentence(found));
    if (found === null) type("");
  };
  return (
    <div class="bridge-part">
      <label class="label" for="bridge-origin">
        Origins that may frame or open this page and use the bridge
      </label>
      {origins.length > 0 && (
        <ul class="origins" aria-label="Origins in the list">
          {origins.map((origin) => (
            <li key={origin}>
              <span class="grow">{origin}</span>
              <IconButton icon="bin" label={`Remove ${origin}`} onClick={() => removeOrigin(origin)} />
            </li>
          ))}
        </ul>
      )}
      <form
        class="row nowrap"
        onSubmit={(event) => {
          event.preventDefault();
          add();
        }}
      >
        <input
          id="bridge-origin"
          type="text"
          inputMode="url"
          autocomplete="off"
          spellcheck={false}
          placeholder="https://app.example"
          value={typed}
          aria-invalid={problem !== null}
          aria-describedby={about}
          onInput={(event) => type(event.currentTarget.value)}
        />
        <button type="submit" id="bridge-add">
          Add
        </button>
      </form>
      <p id={about} class={problem === null ? "faint small" : "small alarm"} role="status">
        {problem ?? "Pages of this site need not be listed; they only need the key."}
      </p>
    </div>
  );
}

function Status() {
  const { value } = status;
  if (!value) return null;
  const { answersChannel, clients, running } = value;
  const where = answersChannel ? "This tab answers" : "Another tab answers pages of this site";
  const count = (number: number, one: string) => `${number} ${one}${number === 1 ? "" : "s"}`;
  return (
    <p id="bridge-status" class="small" role="status">
      {where}: {count(clients, "page")} connected, {count(running, "request")} running.
    </p>
  );
}

function Snippets({ shownKey }: { shownKey: string }) {
  const page = new URL("./", document.baseURI).href;
  return (
    <div class="bridge-part">
      <h3 class="label">Code to copy</h3>
      {snippets(page, shownKey).map(({ id, title, about, code }) => (
        <details key={id} id={`snippet-${id}`} class="snippet">
          <summary>{title}</summary>
          <p class="faint small">{about}</p>
          <div class="code">
            <div class="code-head">
              <span>{shownKey === HIDDEN_KEY ? "Show the key to have it in the code" : "With your key"}</span>
              <CopyButton text={code} label={`Copy: ${title}`} />
            </div>
            <pre tabIndex={0} role="region" aria-label={title}>
              <code>{code}</code>
            </pre>
          </div>
        </details>
      ))}
      <p class="faint small">
        All of them use <a href="bridge-client.js">bridge-client.js</a>, which lies beside this page. Pages of
        other sites take a copy of it along.
      </p>
    </div>
  );
}

export function BridgeSection() {
  const { isOn, key } = bridge.value;
  const [isShown, show] = useState(false);
  return (
    <fieldset id="bridge" class="bridge">
      <legend>Developer bridge</legend>
      <label class="check">
        <input
          id="bridge-on"
          type="checkbox"
          checked={isOn}
          onChange={(event) => setOn(event.currentTarget.checked)}
        />
        <span>
          Let other pages in this browser use the model
          <span class="faint small">
            Those of this site, and of origins that you list; each needs the key. Nothing leaves this computer
            by it, but such a page can do with the replies what it likes.
          </span>
        </span>
      </label>
      {isOn && (
        <>
          <Status />
          <Key isShown={isShown} show={show} />
          <Origins />
          <Snippets shownKey={isShown && key !== null ? key : HIDDEN_KEY} />
        </>
      )}
    </fieldset>
  );
}
