/** Conversations in this browser and on the server: open, search, rename, delete, move, export and import them. */
import { computed, signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { errorText } from "../parts/load.js";
import { saveAs } from "../parts/save-as.js";
import { oneLine } from "../text/one-line.js";
import { allChats, declineMove, entries, keptClient, numMovable, type ShelfEntry } from "./chat-shelf.js";
import { chat, importChats, moveChats, problem, remove, renameChat, show } from "./chat-state.js";
import { beginAnew } from "./composer.js";
import { target } from "./found-place.js";
import { parseChats } from "./saved-chats.js";
import { type FoundChat, foundChats, pattern, searchError, wanted } from "./search.js";

const MOST_FOUND = 100;

const shownId = computed(() => chat.value.id);
/** Id of the chat whose title the visitor is editing. */
const renamed = signal<string | undefined>(undefined);

function TitleField({ id, title }: ShelfEntry) {
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    field.current!.focus();
    field.current!.select();
  }, []);
  const end = (isKept: boolean) => {
    if (renamed.value !== id) return;
    renamed.value = undefined;
    if (isKept && field.current!.value !== title) void renameChat(id, field.current!.value);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.isComposing || (event.key !== "Enter" && event.key !== "Escape")) return;
    // Escape ends the renaming, and leaves the drawer open.
    event.stopPropagation();
    const entry = field.current!.closest("li")!;
    end(event.key === "Enter");
    requestAnimationFrame(() => entry.querySelector<HTMLButtonElement>(".title")?.focus());
  };
  return (
    <input
      ref={field}
      class="title"
      dir="auto"
      aria-label={`Name of the chat ${title}`}
      maxLength={200}
      defaultValue={title}
      onKeyDown={onKeyDown}
      onBlur={() => end(true)}
    />
  );
}

/** @param onOpen called when its conversation is shown */
function Entry({ entry, place, onOpen }: FoundChat & { onOpen(): void }) {
  const { id, title } = entry;
  if (renamed.value === id) {
    return (
      <li>
        <TitleField {...entry} />
      </li>
    );
  }
  const open = async () => {
    await show(id);
    onOpen();
    if (place !== undefined && pattern.value !== undefined && shownId.value === id) {
      target.value = { ...place, pattern: pattern.value };
    }
  };
  return (
    <li>
      <button
        type="button"
        class="quiet title"
        dir="auto"
        aria-current={id === shownId.value}
        onClick={() => void open()}
      >
        {title}
        {entry.place === "browser" && keptClient.value !== undefined && <small> (in this browser)</small>}
        {place !== undefined && (
          <small class="excerpt">
            {place.before}
            <mark>{place.match}</mark>
            {place.after}
          </small>
        )}
      </button>
      <button
        type="button"
        class="quiet"
        aria-label={`Rename ${title}`}
        onClick={() => {
          renamed.value = id;
        }}
      >
        ✎
      </button>
      <button
        type="button"
        class="quiet"
        aria-label={`Delete ${title}`}
        onClick={() => {
          if (confirm(`Delete the chat "${title}"? It cannot be brought back.`)) void remove(id);
        }}
      >
        ×
      </button>
    </li>
  );
}

function SearchField() {
  const onKeyDown = (event: KeyboardEvent & { readonly currentTarget: HTMLInputElement }) => {
    if (event.key === "Escape" && wanted.value !== "") {
      wanted.value = "";
      // Keeps the drawer open.
      event.stopPropagation();
    }
    if (event.key === "ArrowDown") {
      event.preventDefault();
      event.currentTarget.closest("nav")!.querySelector<HTMLElement>("li .title")?.focus();
    }
  };
  return (
    <input
      id="search-chats"
      type="search"
      dir="auto"
      aria-label="Search chats"
      placeholder="Search chats"
      maxLength={200}
      value={wanted.value}
      onInput={({ currentTarget }) => {
        wanted.value = currentTarget.value;
      }}
      onKeyDown={onKeyDown}
    />
  );
}

function foundText(found: readonly FoundChat[] | undefined): string {
  if (found === undefined) return "";
  if (found.length === 0) return "No chat has these words.";
  const beyond = found.length > MOST_FOUND ? ` The first ${MOST_FOUND} are shown.` : "";
  return `${found.length} ${found.length === 1 ? "chat has" : "chats have"} these words.${beyond}`;
}

/**
 * @param onNew called when a new chat has begun and its message box has the focus
 * @param onOpen called when another conversation is shown
 */
export function HistoryList({ onNew, onOpen }: { onNew(): void; onOpen(): void }) {
  const found = foundChats.value;
  const shown = found?.slice(0, MOST_FOUND) ?? entries.value.map((entry) => ({ entry, place: undefined }));
  const picker = useRef<HTMLInputElement>(null);
  const bringIn = async () => {
    const [file] = picker.current?.files ?? [];
    if (file === undefined) return;
    const imported = parseChats(await file.text());
    picker.current!.value = "";
    if (imported.length === 0) problem.value = `${oneLine(file.name)} has no conversations of this app.`;
    else await importChats(imported);
  };
  const takeOut = async () => {
    try {
      saveAs("millrace-chats.json", JSON.stringify(await allChats(), undefined, 2));
    } catch (thrown) {
      problem.value = errorText(thrown);
    }
  };
  return (
    <nav class="history" aria-label="Conversations">
      <button
        type="button"
        id="clear"
        onClick={() => {
          beginAnew();
          onNew();
        }}
      >
        New chat
      </button>
      <div>
        <SearchField />
        <p class="hint" role="status">
          {searchError.value ?? foundText(found)}
        </p>
      </div>
      <ul>
        {shown.map((one) => (
          <Entry key={one.entry.id} {...one} onOpen={onOpen} />
        ))}
      </ul>
      <p class="place" id="place">
        {keptClient.value === undefined ? "Kept in this browser." : "Kept on this server, for your key."}
      </p>
      {numMovable.value > 0 && (
        <div class="offers" id="move">
          <button type="button" class="plain" onClick={() => void moveChats()}>
            Move the {numMovable.value} of this browser to the server
          </button>
          <button type="button" class="quiet" onClick={declineMove}>
            Not now
          </button>
        </div>
      )}
      <div class="offers">
        <button type="button" class="plain" disabled={entries.value.length === 0} onClick={() => void takeOut()}>
          Export
        </button>
        <button type="button" class="plain" onClick={() => picker.current?.click()}>
          Import
        </button>
        <input
          ref={picker}
          type="file"
          accept=".json"
          hidden
          aria-label="Conversations to import"
          onChange={() => void bringIn()}
        />
      </div>
    </nav>
  );
}
