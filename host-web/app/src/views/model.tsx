// Choosing a model: where it comes from, what it is and needs, and how far its load is.

import { useEffect, useState } from "preact/hooks";
import { findModels, type FoundModel, type StoredModel } from "fanlight";

import {
  choose,
  load,
  nameOf,
  offer,
  running,
  showFailure,
  stored,
  start,
  type Offer,
} from "../engine.js";
import { bytes, sentence } from "../format.js";
import { lastModel, type LastModel } from "../last.js";
import { activity, chosen, isBusy, noGpu } from "../state.js";
import { readFolders, rememberFolder } from "../store.js";
import { typedSource, type Typed } from "../typed.js";
import { ChosenCard, LoadedCard } from "./card.js";
import { Fan, Icon } from "./icons.js";
import { Loading } from "./loading.js";
import { DeleteButton, Panel, IconButton } from "./parts.js";

/** The picker of folders, where the browser has one. */
type FolderPicker = () => Promise<FileSystemDirectoryHandle>;

function FoundList({ found, onClose }: { found: FoundModel[]; onClose: () => void }) {
  const count = ["No model", "One model"][found.length] ?? `${found.length} models`;
  return (
    <section class="card" aria-label="Models in the folder">
      <div class="row between">
        <h3>{count} in the folder</h3>
        <IconButton icon="close" label="Close the folder" onClick={onClose} />
      </div>
      {found.length === 0 && (
        <p class="faint">
          Model files begin with the letters GGUF, whatever they are called. None of the files here does.
        </p>
      )}
      <ul class="sources">
        {found.map(({ path, files, bytes: size }) => (
          <li key={path}>
            <button type="button" class="source" onClick={() => void choose({ name: path, source: files })}>
              <Icon name="file" />
              <span class="grow">{path}</span>
              <span class="faint numbers">{bytes(size)}</span>
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** The model files of a repository of the hub. */
type Repository = Extract<Typed, { repository: string }>;

function RepositoryList({ repository, onClose }: { repository: Repository; onClose: () => void }) {
  return (
    <section class="card" aria-label="Models in the repository">
      <div class="row between">
        <h3>{repository.repository}</h3>
        <IconButton icon="close" label="Close the repository" onClick={onClose} />
      </div>
      <ul class="sources">
        {repository.files.map(({ path, bytes: size, url }) => (
          <li key={path}>
            <button type="button" class="source" onClick={() => void choose(stored(url))}>
              <Icon name="file" />
              <span class="grow">{path}</span>
              <span class="faint numbers">{bytes(size)}</span>
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Kept() {
  const [all, setAll] = useState<StoredModel[]>([]);
  const read = () => void running().stored().then(setAll, showFailure);
  useEffect(read, []);
  const forget = (url: string) => void running().forget(url).then(read, showFailure);
  if (all.length === 0) return null;
  return (
    <>
      <h3 class="label">Kept in this browser</h3>
      <ul class="sources">
        {all.map(({ url, length, keptBytes, isComplete }) => (
          <li key={url}>
            <button
              type="button"
              class="source"
              disabled={isBusy.value}
              onClick={() => void choose(stored(url))}
            >
              <Icon name="disk" />
              <span class="grow">{nameOf(url)}</span>
              <span class="faint numbers">
                {isComplete ? bytes(length) : `${bytes(keptBytes)} of ${bytes(length)}`}
              </span>
            </button>
            <DeleteButton
              label={`Remove ${nameOf(url)}`}
              question={`Delete ${bytes(keptBytes)}?`}
              disabled={isBusy.value}
              onDelete={() => forget(url)}
            />
          </li>
        ))}
      </ul>
    </>
  );
}

function AddressForm({ onRepository }: { onRepository: (repository: Repository) => void }) {
  const [text, setText] = useState("");
  const submit = (event: Event) => {
    event.preventDefault();
    const take = (typed: Typed) => ("files" in typed ? onRepository(typed) : void choose(typed));
    void typedSource(text).then(take, showFailure);
  };
  return (
    <form class="address" onSubmit={submit}>
      <label class="grow">
        <span class="label">Address, or owner/repository on Hugging Face</span>
        <input
          id="address"
          type="text"
          inputMode="url"
          spellcheck={false}
          autocomplete="off"
          value={text}
          placeholder="https://…/model.gguf or owner/repository"
          onInput={(event) => setText(event.currentTarget.value)}
        />
      </label>
      <button type="submit" disabled={isBusy.value || text.trim() === ""}>
        <Icon name="link" /> Look it up
      </button>
    </form>
  );
}

/** Folders: by the browser's own picker, which can be remembered, or by a file input. */
function useFolders() {
  const [found, setFound] = useState<FoundModel[] | null>(null);
  const [known, setKnown] = useState<FileSystemDirectoryHandle[]>([]);
  useEffect(() => void readFolders().then(setKnown), []);
  const look = (folder: FileSystemDirectoryHandle | readonly File[]) => {
    void findModels(folder).then(setFound, showFailure);
  };
  const pick = async (): Promise<void> => {
    const { showDirectoryPicker } = window as { showDirectoryPicker?: FolderPicker };
    if (!showDirectoryPicker) return document.getElementById("folder")?.click();
    try {
      const folder = await showDirectoryPicker.call(window);
      await rememberFolder(folder).catch(() => {});
      look(folder);
    } catch (failure) {
      // Who closes the picker has changed his mind.
      if (!(failure instanceof DOMException && failure.name === "AbortError")) showFailure(failure);
    }
  };
  const again = async (folder: FileSystemDirectoryHandle): Promise<void> => {
    const { requestPermission } = folder as {
      requestPermission?: (how: { mode: "read" }) => Promise<string>;
    };
    const answer = await requestPermission?.call(folder, { mode: "read" });
    if (answer === "denied")
      showFailure(new Error(`${folder.name} may not be read: allow it, or pick it anew`));
    else look(folder);
  };
  return { found, setFound, known, look, pick, again };
}

function chosenFiles(input: HTMLInputElement): File[] {
  const files = [...(input.files ?? [])];
  // So that choosing the same file again is a change.
  input.value = "";
  return files;
}

function chooseFiles(files: File[]): void {
  const first = files[0];
  if (!first) return;
  const name = files.length > 1 ? `${first.name} and ${files.length - 1} more` : first.name;
  void choose({ name, source: files });
}

function absolute(url: string): string {
  return new URL(url, document.baseURI).href;
}

/** The model of the last visit, one click away. */
function LastButton({ last: { name, url } }: { last: LastModel }) {
  return (
    <button
      type="button"
      id="last-model"
      class="source offer"
      disabled={isBusy.value}
      onClick={() => void load({ name, source: { url } })}
    >
      <Icon name="chip" />
      <span class="grow">
        <strong>Continue with {name}</strong>
        <span class="faint">The model that you used last</span>
      </span>
    </button>
  );
}

/** The model that the host of the page offers, one click away. */
function OfferButton({ offered }: { offered: Offer }) {
  return (
    <button
      type="button"
      id="default-model"
      class="source offer"
      disabled={isBusy.value}
      onClick={() =>
        void load({ ...stored(absolute(offered.url)), name: offered.name })
      }
    >
      <Icon name="chip" />
      <span class="grow">
        <strong>{offered.name}</strong>
        <span class="faint">{offered.note}</span>
      </span>
      <span class="numbers">{bytes(offered.bytes)}</span>
    </button>
  );
}

/** Files and folders of this computer. */
function Pickers({ folders }: { folders: ReturnType<typeof useFolders> }) {
  const disabled = isBusy.value;
  return (
    <>
      <div class="pick-row">
        <label class={`pick ${disabled ? "disabled" : ""}`}>
          <Icon name="file" />
          <span>
            <strong>Open a file</strong>
            <span class="faint">GGUF; all parts of a split model at once</span>
          </span>
          <input
            id="files"
            type="file"
            multiple
            disabled={disabled}
            class="unseen"
            onChange={(event) => chooseFiles(chosenFiles(event.currentTarget))}
          />
        </label>
        <button type="button" class="pick" disabled={disabled} onClick={() => void folders.pick()}>
          <Icon name="folder" />
          <span>
            <strong>Open a folder</strong>
            <span class="faint">Models are found by what is in them</span>
          </span>
        </button>
        <input
          id="folder"
          type="file"
          hidden
          aria-label="Folder"
          disabled={disabled}
          {...{ webkitdirectory: true }}
          onChange={(event) => folders.look(chosenFiles(event.currentTarget))}
        />
      </div>
      {folders.known.length > 0 && (
        <p class="row small">
          <span class="faint">Opened before:</span>
          {folders.known.map((folder) => (
            <button type="button" class="quiet" key={folder.name} onClick={() => void folders.again(folder)}>
              <Icon name="folder" /> {folder.name}
            </button>
          ))}
        </p>
      )}
    </>
  );
}

function Sources() {
  const [offered, setOffered] = useState<Offer | null>(null);
  const [repository, setRepository] = useState<Repository | null>(null);
  const folders = useFolders();
  useEffect(() => void offer().then(setOffered), []);
  const disabled = isBusy.value;
  const { value: last } = lastModel;
  const isSame = last !== null && offered !== null && last.url === absolute(offered.url);
  const take = (event: DragEvent) => {
    event.preventDefault();
    chooseFiles([...(event.dataTransfer?.files ?? [])]);
  };
  if (repository) return <RepositoryList repository={repository} onClose={() => setRepository(null)} />;
  if (folders.found) return <FoundList found={folders.found} onClose={() => folders.setFound(null)} />;
  return (
    <div class="picker" onDragOver={(event) => event.preventDefault()} onDrop={take}>
      {last && <LastButton last={last} />}
      {offered && !isSame && <OfferButton offered={offered} />}
      <Pickers folders={folders} />
      <AddressForm onRepository={setRepository} />
      {!disabled && <Kept />}
    </div>
  );
}

/** Sources, then the card of what was chosen, then its load. */
function Steps() {
  if (activity.value === "loading" || activity.value === "inspecting") return <Loading />;
  return chosen.value ? <ChosenCard /> : <Sources />;
}

export function Welcome() {
  const isChosen = chosen.value !== null || activity.value === "loading" || activity.value === "inspecting";
  return (
    <div class="welcome">
      <Fan size="large" />
      <h2>{isChosen ? "Loading a model" : "A language model on your own GPU"}</h2>
      {!isChosen && <p class="lead">It runs in this page. What you write stays on this computer.</p>}
      <Steps />
    </div>
  );
}

export function ModelPanel() {
  return (
    <Panel title="Model">
      {activity.value === "idle" && !chosen.value && <LoadedCard />}
      <Steps />
    </Panel>
  );
}

const HINTS: Record<string, string> = {
  "secure-context": "Open this page by its https address.",
  webgpu:
    "Current versions of Chrome, Edge, Safari and Firefox have WebGPU. On Linux it may have to be switched " +
    "on in the browser's settings.",
  adapter: "Update the graphics driver, or allow the GPU in the browser's settings (hardware acceleration).",
};

export function NoGpu() {
  const { value } = noGpu;
  return (
    <div class="welcome" role="alert">
      <Fan size="large" />
      <h2>No GPU can be used here</h2>
      <p class="lead">{value && sentence(value)}</p>
      <p class="faint">{HINTS[value?.missing ?? ""]}</p>
      <button type="button" onClick={() => void start()}>
        Try again
      </button>
    </div>
  );
}
