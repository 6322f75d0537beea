/** The message box. */
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { attach, onPaste } from "./attach.js";
import { numDropped } from "./browser-chats.js";
import { beforeEdit, canAsk, isBusy, problem, putBack, send, startOver, stop, takeBack } from "./chat-state.js";
import { attached, bringBack, draft, putAside, setDraft } from "./draft.js";

const focusInput = () => document.getElementById("input")?.focus();

/** Puts a sent question with its files back into the box, for editing. */
export function edit(paneIndex: number, place: number): void {
  const question = takeBack(paneIndex, place);
  if (question === undefined) return;
  putAside();
  setDraft(question.content, question.files ?? []);
  focusInput();
}

function cancelEdit(): void {
  putBack();
  bringBack();
  focusInput();
}

export function beginAnew(): void {
  startOver();
  focusInput();
}

/** For browsers whose text fields do not grow automatically. */
function fitHeight(field: HTMLTextAreaElement): void {
  field.style.height = "auto";
  field.style.height = `${field.scrollHeight + field.offsetHeight - field.clientHeight}px`;
}

function DroppedNote({ count }: { readonly count: number }) {
  const what = count === 1 ? "the oldest chat is" : `the ${count} oldest chats are`;
  const forget = () => {
    numDropped.value = 0;
  };
  return (
    <p class="error" role="alert" id="dropped">
      This browser has no more room: {what} no longer kept. Export those that you want to keep, and delete what you do
      not need.{" "}
      <button type="button" class="quiet" onClick={forget}>
        OK
      </button>
    </p>
  );
}

export function Composer() {
  const input = useRef<HTMLTextAreaElement>(null);
  const picker = useRef<HTMLInputElement>(null);
  // An element that the visitor has focused keeps the focus.
  useEffect(() => {
    if (document.activeElement === document.body) focusInput();
  }, []);
  useLayoutEffect(() => {
    if (!CSS.supports("field-sizing", "content")) fitHeight(input.current!);
  }, [draft.value]);
  const submit = (event?: Event) => {
    event?.preventDefault();
    const text = draft.value.trim();
    const files = attached.value;
    if ((text === "" && files.length === 0) || isBusy.value || !canAsk()) return;
    bringBack();
    void send(text, files);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    // While an input method composes a character, the keys belong to it.
    if (event.isComposing) return;
    if (event.key === "Escape") (beforeEdit.value === undefined ? stop : cancelEdit)();
    if (event.key === "Enter" && !event.shiftKey) submit(event);
  };
  return (
    <form class="composer" id="form" onSubmit={submit}>
      {problem.value !== undefined && (
        <p class="error" role="alert">
          {problem.value}
        </p>
      )}
      {numDropped.value > 0 && <DroppedNote count={numDropped.value} />}
      {attached.value.length > 0 && (
        <ul class="attached">
          {attached.value.map((file) => (
            <li key={file.name}>
              {file.name}
              <button
                type="button"
                class="quiet"
                aria-label={`Remove ${file.name}`}
                onClick={() => {
                  attached.value = attached.value.filter((one) => one !== file);
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
          ref={input}
          id="input"
          dir="auto"
          rows={2}
          placeholder="Message (Enter sends, Shift+Enter breaks the line)"
          value={draft.value}
          onInput={({ currentTarget }) => {
            draft.value = currentTarget.value;
          }}
          onKeyDown={onKeyDown}
          onPaste={onPaste}
        />
        <input
          ref={picker}
          type="file"
          multiple
          hidden
          aria-label="Files to attach"
          id="files"
          onChange={({ currentTarget }) => {
            void attach([...(currentTarget.files ?? [])]);
            currentTarget.value = "";
          }}
        />
        <button type="button" class="plain" onClick={() => picker.current?.click()}>
          Attach
        </button>
        {beforeEdit.value !== undefined && (
          <button type="button" class="plain" onClick={cancelEdit}>
            Cancel
          </button>
        )}
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
