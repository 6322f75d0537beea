/**
 * Keeps conversations: on the server, if it keeps those of the signed-in client, and otherwise in this browser. A
 * conversation that the server refuses is kept in the browser until it is moved.
 */
import { computed, signal } from "@preact/signals";
import { session } from "../api/session.js";
import { errorText } from "../parts/load.js";
import {
  inBrowser,
  isInBrowser,
  isStaleInBrowser,
  keepInBrowser,
  loadFromBrowser,
  lookInBrowser,
  putInBrowser,
  renameInBrowser,
  takeFromBrowser,
} from "./browser-chats.js";
import { type Conversation, newId } from "./conversation.js";
import {
  isConflict,
  isGone,
  isNoAnswer,
  listServerChats,
  readServerChat,
  removeServerChat,
  type ServerChat,
  withServerId,
  writeServerChat,
} from "./server-chats.js";

const DECLINED = "millrace-chats-not-moved";
const GOES_ON_BESIDE = "Another tab or browser has changed this conversation; yours goes on beside it.";
const NO_ROOM = "larger than the room that this browser gives";
export const NOT_HERE = "That conversation is not here: it was deleted, or is of another key or browser.";

export interface ShelfEntry {
  readonly id: string;
  readonly title: string;
  readonly updatedMs: number;
  readonly place: "browser" | "server";
}

/** The result of keeping a conversation. */
interface Kept {
  /** A new id if another page had changed the conversation: this version is then a copy. */
  readonly id: string;
  /** A message for the visitor. */
  readonly problem?: string;
}

const onServer = signal<readonly ServerChat[]>([]);
const isDeclined = signal(localStorage.getItem(DECLINED) !== null);

/** The client whose conversations the server keeps; undefined: the server keeps none for this visitor. */
export const keptClient = computed(() =>
  session.value?.keeps_chats === true ? (session.value.client_id ?? undefined) : undefined,
);

/**
 * The latest changed conversation comes first. If a conversation is in both places, the browser's version counts,
 * because the server did not take it.
 */
export const entries = computed<readonly ShelfEntry[]>(() => {
  const rows = keptClient.value === undefined ? [] : onServer.value;
  const ofServer = rows
    .filter(({ id }) => !isInBrowser(id))
    .map(({ id, title, updated_ms }): ShelfEntry => ({ id, title, updatedMs: updated_ms, place: "server" }));
  const ofBrowser = inBrowser.value.map(
    ({ id, title, updatedMs }): ShelfEntry => ({ id, title, updatedMs, place: "browser" }),
  );
  return ofServer.concat(ofBrowser).sort((a, b) => b.updatedMs - a.updatedMs);
});

/** Number of conversations that the visitor may move from the browser to the server. */
export const numMovable = computed(() =>
  keptClient.value === undefined || isDeclined.value ? 0 : inBrowser.value.length,
);

/** Texts of the server's conversations that a search has read. */
const readForSearch = signal<ReadonlyMap<string, { readonly revision: number; readonly chat: Conversation }>>(
  new Map(),
);

/** The conversations whose texts the page has, by id. */
export const knownChats = computed<ReadonlyMap<string, Conversation>>(
  () =>
    new Map([
      ...[...readForSearch.value].map(([id, { chat }]) => [id, chat] as const),
      ...inBrowser.value.map((chat) => [chat.id, chat] as const),
    ]),
);

/** The revision of the text on the page, by id. The list may name a newer one. */
const bases = new Map<string, number>();
/**
 * Incremented when another client, or none, is signed in, so that no answer to one client's call is kept where the next
 * client sees it.
 */
let numForgotten = 0;
/** Copies that replace conversations on this page, by the original's id. */
const copies = new Map<string, string>();

/**
 * Keeping, moving and deleting run one after another, because a write needs the revision of the write before. Each runs
 * for the client who was signed in when it was requested, even if another client is signed in when it runs.
 */
let last: Promise<unknown> = Promise.resolve();
function inTurn<T>(what: (client: string | undefined) => Promise<T>): Promise<T> {
  const client = keptClient.peek();
  const done = last.then(() => what(client));
  last = done.catch(() => {});
  return done;
}

/** @param isShown whether the page shows the written text; an import may replace what it shows */
async function putOnServer(chat: Conversation, revision: number, client: string, isShown: boolean): Promise<void> {
  const { row, removed } = await writeServerChat(chat, revision, client);
  if (keptClient.peek() !== client) return;
  if (isShown) bases.set(row.id, row.revision);
  onServer.value = [row, ...onServer.value.filter(({ id }) => id !== row.id && !removed.includes(id))];
}

async function readList(client: string): Promise<void> {
  const rows = await listServerChats(client);
  if (keptClient.peek() === client) onServer.value = rows;
}

/**
 * Reads the lists again; rejects if that fails.
 * @returns whether the conversation's revision now differs from the page's
 */
export async function refresh(id: string): Promise<boolean> {
  return await inTurn(async (client) => {
    lookInBrowser();
    if (client === undefined) return isStaleInBrowser(id);
    await readList(client).catch((thrown: unknown) => {
      // After a sign-out nobody waits for the list, so its error does not matter.
      if (keptClient.peek() === client) throw thrown;
    });
    const row = onServer.value.find((one) => one.id === id);
    const base = bases.get(id);
    if (isInBrowser(id)) return isStaleInBrowser(id);
    return row !== undefined && base !== undefined && row.revision !== base;
  });
}

let reading: Promise<void> | undefined;

/**
 * Reads the texts of the server's conversations, so that they can be searched. Rejects if some could not be read, after
 * the others have been.
 */
export function readServerTexts(): Promise<void> {
  if (reading === undefined) {
    const pass = readChanged().finally(() => {
      if (reading === pass) reading = undefined;
    });
    reading = pass;
  }
  return reading;
}

async function readChanged(): Promise<void> {
  const client = keptClient.peek();
  const numBefore = numForgotten;
  const problems = new Map<string, unknown>();
  const isUnread = ({ id, revision }: ServerChat) =>
    !problems.has(id) && readForSearch.peek().get(id)?.revision !== revision;
  for (;;) {
    const row = onServer.peek().find(isUnread);
    if (row === undefined || client === undefined) break;
    try {
      const { chat } = await readServerChat(row.id, client);
      if (numForgotten !== numBefore) return;
      readForSearch.value = new Map(readForSearch.peek()).set(row.id, { revision: row.revision, chat });
    } catch (thrown) {
      if (numForgotten !== numBefore) return;
      // The server does not answer, so the others could not be read either.
      if (isNoAnswer(thrown)) throw thrown;
      if (isGone(thrown)) onServer.value = onServer.peek().filter(({ id }) => id !== row.id);
      else problems.set(row.id, thrown);
    }
  }
  for (const thrown of problems.values()) throw thrown;
}

/** Forgets all data from the server. Call it when another client, or none, is signed in. */
export function forgetServer(): void {
  numForgotten++;
  onServer.value = [];
  readForSearch.value = new Map();
  reading = undefined;
  bases.clear();
  copies.clear();
}

export const load = (id: string): Promise<Conversation | undefined> =>
  inTurn(async (client) => {
    const found = loadFromBrowser(id);
    copies.delete(id);
    if (found !== undefined || client === undefined) return found;
    const { chat, revision } = await readServerChat(id, client);
    bases.set(id, revision);
    return chat;
  });

/** Keeps the conversation. A sign-out drops it unless the server has taken it by then. */
export const keep = (chat: Conversation): Promise<Kept> => {
  const numBefore = numForgotten;
  return inTurn(async (client) => {
    const id = copies.get(chat.id) ?? chat.id;
    const own = { ...chat, id };
    // Sends again a conversation that the server has, but refused last time.
    if (client === undefined || (isInBrowser(id) && !bases.has(id))) {
      return keepHere(own);
    }
    try {
      await putOnServer(own, bases.get(id) ?? 0, client, true);
      if (isInBrowser(id)) takeFromBrowser(id);
      return { id };
    } catch (thrown) {
      if (numForgotten !== numBefore) return { id };
      return isConflict(thrown) ? await keepBeside(own, client) : keepHere(own, errorText(thrown));
    }
  });
};

/** @param refusal the server's reason for not keeping it; undefined: it was not asked */
function keepHere(chat: Conversation, refusal?: string): Kept {
  const { id, isTooLarge } = keepInBrowser(chat);
  if (id !== chat.id) copies.set(chat.id, id);
  if (refusal !== undefined) setDeclined(false);
  const onPage = "its last state is on this page only.";
  if (isTooLarge) {
    const problem =
      refusal === undefined
        ? `This conversation is ${NO_ROOM}: ${onPage}`
        : `The server did not keep this conversation, and it is ${NO_ROOM}: ${onPage} (${refusal})`;
    return { id, problem };
  }
  if (refusal !== undefined) {
    return { id, problem: `The server did not keep this conversation; it is in this browser. (${refusal})` };
  }
  return id === chat.id ? { id } : { id, problem: GOES_ON_BESIDE };
}

/** Another page has changed the conversation: keeps this page's version as a copy beside it. */
async function keepBeside(chat: Conversation, client: string): Promise<Kept> {
  const numBefore = numForgotten;
  try {
    await readList(client);
    if (numForgotten !== numBefore) return { id: chat.id };
    // The conversation was deleted, or belongs to a client who was signed in before: the server must not keep it for
    // the current one.
    if (!onServer.value.some(({ id }) => id === chat.id)) return keepHere(chat, "it was deleted there");
    const copy = { ...chat, id: newId() };
    await putOnServer(copy, 0, client, true);
    if (isInBrowser(chat.id)) takeFromBrowser(chat.id);
    copies.set(chat.id, copy.id);
    return { id: copy.id, problem: GOES_ON_BESIDE };
  } catch (thrown) {
    return numForgotten === numBefore ? keepHere(chat, errorText(thrown)) : { id: chat.id };
  }
}

/** @returns a message for the visitor, if there is one */
export const discard = (id: string): Promise<string | undefined> =>
  inTurn(async (client) => {
    if (isInBrowser(id)) takeFromBrowser(id);
    const row = onServer.value.find((one) => one.id === id);
    if (row === undefined || client === undefined) return undefined;
    try {
      await removeServerChat(row, client);
      bases.delete(id);
      onServer.value = onServer.value.filter((one) => one.id !== id);
      return undefined;
    } catch (thrown) {
      await readList(client).catch(() => {});
      if (!onServer.value.some((one) => one.id === id)) return undefined;
      return isConflict(thrown) ? "The conversation has changed meanwhile, and is still there." : errorText(thrown);
    }
  });

const named = (chat: Conversation, title: string): Conversation => ({
  ...chat,
  title,
  isNamed: true,
  // Other pages see the change, and its place in the list stays.
  updatedMs: chat.updatedMs + 1,
});

/** @returns a message for the visitor, if there is one */
export const rename = (id: string, title: string): Promise<string | undefined> =>
  inTurn(async (client) => {
    lookInBrowser();
    const own = inBrowser.value.find((one) => one.id === id);
    if (own !== undefined) {
      return renameInBrowser(named(own, title)) ? undefined : `With this name the conversation is ${NO_ROOM}.`;
    }
    if (client === undefined) return NOT_HERE;
    try {
      const { chat, revision } = await readServerChat(id, client);
      await putOnServer(named(chat, title), revision, client, bases.get(id) === revision);
      return undefined;
    } catch (thrown) {
      return errorText(thrown);
    }
  });

/** Replaces conversations with the same id. @returns a message for the visitor, if there is one */
export const bringIn = (chats: readonly Conversation[]): Promise<string | undefined> =>
  inTurn(async (client) => {
    if (client === undefined) {
      const numLeft = putInBrowser(chats).length;
      return numLeft === 0 ? undefined : `${numLeft} of them are not imported: each is ${NO_ROOM}.`;
    }
    const revisionOf = (id: string) => onServer.value.find((one) => one.id === id)?.revision ?? 0;
    return await putAll(chats, client, revisionOf, false);
  });

/** Moves the newest chats first; chats beyond the server's limit stay here. @returns a message for the visitor */
export const moveToServer = (): Promise<string | undefined> =>
  inTurn(async (client) => {
    if (client === undefined) return undefined;
    // The server may have an earlier state of a conversation that it refused last time.
    const revisionOf = (id: string) => (onServer.value.some((one) => one.id === id) ? (bases.get(id) ?? 0) : 0);
    return await putAll(inBrowser.value, client, revisionOf, true);
  });

async function putAll(
  chats: readonly Conversation[],
  client: string,
  revisionOf: (id: string) => number,
  isShown: boolean,
): Promise<string | undefined> {
  const numBefore = numForgotten;
  let [numLeft, numLost, reason] = [0, 0, ""];
  for (const chat of [...chats].sort((a, b) => b.updatedMs - a.updatedMs)) {
    try {
      const id = await putOrCopy(withServerId(chat), revisionOf, client, isShown);
      // Later changes of the chat on this page are kept under the new id.
      if (isShown && id !== chat.id) copies.set(chat.id, id);
      takeFromBrowser(chat.id);
    } catch (thrown) {
      if (numForgotten !== numBefore) return undefined;
      numLost += putInBrowser([chat]).length;
      [numLeft, reason] = [numLeft + 1, errorText(thrown)];
    }
  }
  if (numLeft === 0) return undefined;
  const where = numLost === 0 ? "they are in this browser" : `${numLost} of these are nowhere: each is ${NO_ROOM}`;
  return `The server did not keep ${numLeft} of them; ${where}. (${reason})`;
}

/** @returns the conversation's id on the server: a new one where another page has changed it */
async function putOrCopy(
  chat: Conversation,
  revisionOf: (id: string) => number,
  client: string,
  isShown: boolean,
): Promise<string> {
  try {
    await putOnServer(chat, revisionOf(chat.id), client, isShown);
    return chat.id;
  } catch (thrown) {
    if (!isConflict(thrown)) throw thrown;
    const copy = { ...chat, id: newId() };
    await putOnServer(copy, 0, client, isShown);
    return copy.id;
  }
}

export const declineMove = (): void => setDeclined(true);

function setDeclined(isWanted: boolean): void {
  isDeclined.value = isWanted;
  if (isWanted) localStorage.setItem(DECLINED, "yes");
  else localStorage.removeItem(DECLINED);
}

/** All conversations, for an export. Rejects if the server fails to return one of them. */
export async function allChats(): Promise<readonly Conversation[]> {
  // A snapshot, so that the file has a conversation only once if it moves meanwhile.
  const [rows, ofBrowser, client] = [entries.value, inBrowser.value, keptClient.value];
  const all: Conversation[] = [];
  for (const { id, place } of rows) {
    if (place === "browser") all.push(ofBrowser.find((one) => one.id === id)!);
    else if (client !== undefined) all.push((await readServerChat(id, client)).chat);
  }
  return all;
}
