/** Conversations of this browser: shown, removed, taken out and brought in. */
import { useRef } from "preact/hooks";
import { saveAs } from "../parts/save-as.js";
import { chat, chats, importChats, problem, remove, show, startOver } from "./chat-state.js";
import { parseChats } from "./saved-chats.js";

export function HistoryList() {
  const picker = useRef<HTMLInputElement>(null);
  const bringIn = async () => {
    const [file] = picker.current?.files ?? [];
    if (file === undefined) return;
    const imported = parseChats(await file.text());
    picker.current!.value = "";
    problem.value = imported.length === 0 ? `${file.name} has no conversations of this app.` : undefined;
    importChats(imported);
  };
  return (
    <nav class="history" aria-label="Conversations">
      <button type="button" id="clear" onClick={startOver}>
        New chat
      </button>
      <ul>
        {chats.value.map(({ id, title }) => (
          <li key={id}>
            <button type="button" class="quiet title" aria-current={id === chat.value.id} onClick={() => show(id)}>
              {title}
            </button>
            <button type="button" class="quiet" aria-label={`Delete ${title}`} onClick={() => remove(id)}>
              ×
            </button>
          </li>
        ))}
      </ul>
      <div class="offers">
        <button
          type="button"
          class="plain"
          disabled={chats.value.length === 0}
          onClick={() => saveAs("millrace-chats.json", JSON.stringify(chats.value, undefined, 2))}
        >
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
