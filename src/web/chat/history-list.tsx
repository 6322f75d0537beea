/** Conversations, in this browser and on the server: shown, removed, moved, taken out and brought in. */
import { useRef } from "preact/hooks";
import { errorText } from "../parts/load.js";
import { saveAs } from "../parts/save-as.js";
import { allChats, declineMove, entries, keptClient, numMovable } from "./chat-shelf.js";
import { chat, importChats, moveChats, problem, remove, show } from "./chat-state.js";
import { beginAnew } from "./composer.js";
import { parseChats } from "./saved-chats.js";

/** @param onNew a new chat has begun, and its message box has the focus */
export function HistoryList({ onNew }: { onNew(): void }) {
  const picker = useRef<HTMLInputElement>(null);
  const bringIn = async () => {
    const [file] = picker.current?.files ?? [];
    if (file === undefined) return;
    const imported = parseChats(await file.text());
    picker.current!.value = "";
    if (imported.length === 0) problem.value = `${file.name} has no conversations of this app.`;
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
      <ul>
        {entries.value.map(({ id, title, place }) => (
          <li key={id}>
            <button
              type="button"
              class="quiet title"
              dir="auto"
              aria-current={id === chat.value.id}
              onClick={() => void show(id)}
            >
              {title}
              {place === "browser" && keptClient.value !== undefined && <small> (in this browser)</small>}
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
