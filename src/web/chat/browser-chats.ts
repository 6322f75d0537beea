/**
 * Conversations in this browser, which other tabs may change at any time. A conversation's revision is the time of its
 * last change.
 */
import { signal } from "@preact/signals";
import { type Conversation, newId } from "./conversation.js";
import { readChats, writeChats } from "./saved-chats.js";

export const inBrowser = signal<readonly Conversation[]>(readChats(localStorage));

/** Conversations that this page dropped for lack of room, as far as the visitor has not been told. */
export const numDropped = signal(0);

/** The revision of the text on the page, by conversation id. */
const bases = new Map<string, number>();

export const isInBrowser = (id: string): boolean => inBrowser.value.some((one) => one.id === id);

/**
 * The chats that are now in the browser. An unchanged one is the page's own copy, which has its tokens' probabilities.
 */
const readAgain = (): readonly Conversation[] =>
  readChats(localStorage).map((chat) => {
    const own = inBrowser.value.find(({ id }) => id === chat.id);
    return own?.updatedMs === chat.updatedMs ? own : chat;
  });

/** Takes over the changes that other tabs have written. */
export function lookInBrowser(): void {
  inBrowser.value = readAgain();
}

function write(chats: readonly Conversation[]): readonly string[] {
  const written = writeChats(localStorage, chats);
  inBrowser.value = written.kept;
  numDropped.value += written.numDropped;
  return written.tooLarge;
}

/** Replaces conversations with the same id. @returns the ids of those that are too large */
export function putInBrowser(chats: readonly Conversation[]): readonly string[] {
  const ids = new Set(chats.map(({ id }) => id));
  return write([...chats, ...readAgain().filter(({ id }) => !ids.has(id))]);
}

export function takeFromBrowser(id: string): void {
  write(readAgain().filter((one) => one.id !== id));
}

const isChanged = (id: string): boolean =>
  inBrowser.value.some((one) => one.id === id && one.updatedMs !== bases.get(id));

/** Whether the page's text of the conversation is outdated. */
export const isStaleInBrowser = (id: string): boolean => bases.has(id) && isChanged(id);

export function loadFromBrowser(id: string): Conversation | undefined {
  lookInBrowser();
  const found = inBrowser.value.find((one) => one.id === id);
  if (found !== undefined) bases.set(id, found.updatedMs);
  return found;
}

/**
 * Writes the page's conversation. @returns its id: a new one where another tab has changed the conversation, so both
 * versions stay
 */
export function keepInBrowser(chat: Conversation): { readonly id: string; readonly isTooLarge: boolean } {
  lookInBrowser();
  const own = isChanged(chat.id) ? { ...chat, id: newId() } : chat;
  const isTooLarge = putInBrowser([own]).includes(own.id);
  const written = inBrowser.value.find(({ id }) => id === own.id);
  bases.set(own.id, (written ?? own).updatedMs);
  return { id: own.id, isTooLarge };
}

/** Replaces a conversation by itself under another name. @returns whether there was room */
export function renameInBrowser(renamed: Conversation): boolean {
  const isShown = !isChanged(renamed.id);
  if (putInBrowser([renamed]).includes(renamed.id)) return false;
  if (isShown) bases.set(renamed.id, renamed.updatedMs);
  return true;
}
