/** The playground: conversations with one model, or with two side by side. */
import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { modelsError } from "../api/models.js";
import { onDragOver, onDrop } from "./attach.js";
import { announcement, chat, modelOf } from "./chat-state.js";
import { Composer } from "./composer.js";
import type { Pane } from "./conversation.js";
import { goToFound, target } from "./found-place.js";
import { HistoryList } from "./history-list.js";
import { SettingsPanel } from "./settings-panel.js";
import { TurnView } from "./turn-view.js";

/** Distance from the end within which the log follows the answer. */
const NEAR_PIXELS = 60;

/** The open drawer; on a narrow page a drawer covers the conversation. */
const drawer = signal<"history" | "settings" | undefined>(undefined);

function PaneView({
  pane,
  index,
  isPaired,
}: {
  readonly pane: Pane;
  readonly index: number;
  readonly isPaired: boolean;
}) {
  const log = useRef<HTMLElement>(null);
  const isAtEnd = useRef(true);
  useEffect(() => {
    if (isAtEnd.current) log.current!.scrollTop = log.current!.scrollHeight;
  }, [pane]);
  useEffect(() => {
    const wanted = target.value;
    const turn = wanted?.pane === index ? log.current!.querySelectorAll(".turn")[wanted.turn] : undefined;
    if (wanted === undefined || turn === undefined) return;
    target.value = undefined;
    goToFound(turn, wanted.pattern);
  }, [target.value]);
  const onScroll = ({ currentTarget: { scrollHeight, scrollTop, clientHeight } }: { currentTarget: HTMLElement }) => {
    isAtEnd.current = scrollHeight - scrollTop - clientHeight < NEAR_PIXELS;
  };
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: keyboard users scroll it
    <section class="log" ref={log} tabIndex={0} aria-label={`Conversation with ${modelOf(pane)}`} onScroll={onScroll}>
      {isPaired && <h2>{modelOf(pane)}</h2>}
      {pane.turns.length === 0 && <p class="hint">Ask something. The answer streams from this server.</p>}
      {pane.turns.map((_, place) => (
        <TurnView key={place} pane={pane} paneIndex={index} place={place} format={chat.value.settings.format} />
      ))}
    </section>
  );
}

/** Returns the focus to the drawer's button. */
function closeDrawer(): void {
  if (drawer.value === undefined) return;
  const button = document.getElementById(`opens-${drawer.value}`);
  drawer.value = undefined;
  button?.focus();
}

function onEscape({ key }: KeyboardEvent): void {
  if (key === "Escape") closeDrawer();
}

function DrawerButton({ name, label }: { readonly name: "history" | "settings"; readonly label: string }) {
  return (
    <button
      type="button"
      class="plain"
      id={`opens-${name}`}
      aria-expanded={drawer.value === name}
      onClick={() => {
        drawer.value = drawer.value === name ? undefined : name;
      }}
    >
      {label}
    </button>
  );
}

export function Playground() {
  const { panes } = chat.value;
  useEffect(() => {
    addEventListener("keydown", onEscape);
    return () => removeEventListener("keydown", onEscape);
  }, []);
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: files drop on it; the Attach button does the same by keys
    <div class={`playground shows-${drawer.value ?? "neither"}`} onDragOver={onDragOver} onDrop={onDrop}>
      <HistoryList
        onNew={() => {
          drawer.value = undefined;
        }}
        onOpen={closeDrawer}
      />
      <div class="conversation">
        <div class="drawers">
          <DrawerButton name="history" label="Chats" />
          <span id="model">{modelsError.value ?? panes.map(modelOf).join(" and ")}</span>
          <DrawerButton name="settings" label="Settings" />
        </div>
        <div class="panes">
          {panes.map((pane, i) => (
            <PaneView key={`${chat.value.id}-${i}`} pane={pane} index={i} isPaired={panes.length > 1} />
          ))}
        </div>
        <Composer />
      </div>
      <SettingsPanel />
      <p class="sr" role="status">
        {announcement.value}
      </p>
    </div>
  );
}
