/** Where the visitor writes. */
import { signal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { canAsk, isBusy, problem, send, stop } from "./chat-state.js";
import type { Attachment, Turn } from "./conversation.js";

/** The message that is being written. */
const draft = signal("");
/** What goes with it. */
const files = signal<readonly Attachment[]>([]);

/** A question that was sent comes back with its files, to be changed. */
export function editAgain(question: Turn | undefined): void {
  draft.value = question?.content ?? "";
  files.value = question?.files ?? [];
}

const MOST_FILE_BYTES = 1024 * 1024;

async function readText(file: File): Promise<Attachment | string> {
  if (file.size > MOST_FILE_BYTES) return `${file.name} has more than 1 MiB.`;
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    if (!text.includes("\0")) return { name: file.name, text };
  } catch {
    // It is no text.
  }
  return `${file.name} is no text.`;
}

export function Composer() {
  const picker = useRef<HTMLInputElement>(null);
  const submit = (event?: Event) => {
    event?.preventDefault();
    const text = draft.value.trim();
    if ((text === "" && files.value.length === 0) || isBusy.value || !canAsk()) return;
    draft.value = "";
    const attached = files.value;
    files.value = [];
    void send(text, attached);
  };
  const attach = async () => {
    const read = await Promise.all([...(picker.current?.files ?? [])].map(readText));
    const refused = read.filter((each) => typeof each === "string");
    problem.value = refused.length === 0 ? undefined : refused.join(" ");
    files.value = [...files.value, ...read.filter((each) => typeof each !== "string")];
    picker.current!.value = "";
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Escape") stop();
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) submit(event);
  };
  return (
    <form class="composer" id="form" onSubmit={submit}>
      {problem.value !== undefined && (
        <p class="error" role="alert">
          {problem.value}
        </p>
      )}
      {files.value.length > 0 && (
        <ul class="attached">
          {files.value.map((file) => (
            <li key={file.name}>
              {file.name}
              <button
                type="button"
                class="quiet"
                aria-label={`Remove ${file.name}`}
                onClick={() => {
                  files.value = files.value.filter((one) => one !== file);
                }}
              >
                ×
              </button>
            </li>
          ))}
        </ul>
      )}
      <div class="row">
        <label class="sr" for="input">
          Message
        </label>
        <textarea
          id="input"
          dir="auto"
          rows={2}
          placeholder="Message (Enter sends, Shift+Enter breaks the line)"
          value={draft.value}
          onInput={({ currentTarget }) => {
            draft.value = currentTarget.value;
          }}
          onKeyDown={onKeyDown}
        />
        <input
          ref={picker}
          type="file"
          multiple
          hidden
          aria-label="Files to attach"
          id="files"
          onChange={() => void attach()}
        />
        <button type="button" class="plain" onClick={() => picker.current?.click()}>
          Attach
        </button>
        {isBusy.value ? (
          <button type="button" id="stop" onClick={stop}>
            Stop
          </button>
        ) : (
          <button type="submit" id="send">
            Send
          </button>
        )}
      </div>
    </form>
  );
}
