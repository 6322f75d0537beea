/** The address of the shown conversation, for reloads, bookmarks and the browser's Back. */
import { computed, effect, untracked } from "@preact/signals";
import { isInBrowser } from "./browser-chats.js";
import { keptClient } from "./chat-shelf.js";
import { beforeEdit, chat, show, startOver } from "./chat-state.js";

/** Address of a conversation that has no question yet. */
const NEW = "#/";
const PREFIX = "#/chat/";

const isChat = (hash: string): boolean => hash === "" || hash === NEW || hash.startsWith(PREFIX);

/** The id of the address's conversation; undefined: the address has none. */
function idOf(hash: string): string | undefined {
  if (!hash.startsWith(PREFIX)) return undefined;
  try {
    return decodeURIComponent(hash.slice(PREFIX.length));
  } catch {
    // The address is truncated or mistyped.
    return undefined;
  }
}

export const chatHash = computed(() =>
  (beforeEdit.value ?? chat.value.panes).every(({ turns }) => turns.length === 0)
    ? NEW
    : PREFIX + encodeURIComponent(chat.value.id),
);
export const chatTitle = computed(() => chat.value.title);

/** Shows the conversation of the address. */
async function follow(): Promise<void> {
  const { hash } = location;
  if (!isChat(hash) || hash === chatHash.value) return;
  const id = idOf(hash);
  if (id === undefined) {
    if (chatHash.value !== NEW) startOver();
    return;
  }
  await show(id);
  // If the conversation cannot be shown, the address returns to the one on the page.
  if (location.hash === hash && chatHash.value !== hash) history.replaceState(null, "", chatHash.value);
}

let isFirst = true;
effect(() => {
  const wanted = chatHash.value;
  const { hash } = location;
  // The page opens with the address of a conversation that it has yet to show.
  if (!isFirst && isChat(hash) && hash !== wanted) {
    // A new chat gets its address with its first question; Back leads to the page before it.
    if (hash.startsWith(PREFIX)) history.pushState(null, "", wanted);
    else history.replaceState(null, "", wanted);
  }
  isFirst = false;
});
addEventListener("hashchange", () => void follow());

// A conversation that the browser lacks may be on the server; the page looks there when it knows the client.
if (isInBrowser(idOf(location.hash) ?? "")) void follow();
effect(() => {
  if (keptClient.value !== undefined) untracked(() => queueMicrotask(() => void follow()));
});
