/**
 * Where conversations are kept: on the server, where it keeps those of the client who is signed in, and else in this
 * browser. What the server does not take is kept in the browser, and what is there stays there until it is moved.
 */
import { computed, signal } from "@preact/signals";
import { session } from "../api/session.js";
import { errorText } from "../parts/load.js";
import { type Conversation, newId } from "./conversation.js";
import { readChats, writeChats } from "./saved-chats.js";
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
export const NOT_HERE = "That conversation is not here: it was deleted, or is of another key or browser.";

export interface ShelfEntry {
  readonly id: string;
  readonly title: string;
  readonly updatedMs: number;
  readonly place: "browser" | "server";
}

/** What became of a conversation that was to be kept. */
interface Kept {
  /** Another one than before where another page had changed the conversation: this is a copy. */
  readonly id: string;
  /** What the visitor should know. */
  readonly problem?: string;
}

const inBrowser = signal<readonly Conversation[]>(readChats(localStorage));
const onServer = signal<readonly ServerChat[]>([]);
const isDeclined = signal(localStorage.getItem(DECLINED) !== null);

/** The client whose conversations the server keeps; undefined: it keeps none of this visitor's. */
export const keptClient = computed(() =>
  session.value?.keeps_chats === true ? (session.value.client_id ?? undefined) : undefined,
);

/** The one that changed last comes first. Where one is in both places, the server did not take the browser's. */
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

/** How many conversations of the browser the visitor may move to the server; 0: there is nothing to offer. */
export const numMovable = computed(() =>
  keptClient.value === undefined || isDeclined.value ? 0 : inBrowser.value.length,
);

/** Texts of the server's that a search has read. */
const readForSearch = signal<ReadonlyMap<string, { readonly revision: number; readonly chat: Conversation }>>(
  new Map(),
);

/** Those whose texts the page has, by id. */
export const knownChats = computed<ReadonlyMap<string, Conversation>>(
  () =>
    new Map([
      ...[...readForSearch.value].map(([id, { chat }]) => [id, chat] as const),
      ...inBrowser.value.map((chat) => [chat.id, chat] as const),
    ]),
);

/** The revision of which the page has the text. The list's may be newer. */
const bases = new Map<string, number>();
/** The same of conversations in the browser, where the time of the last change is the revision. */
const browserBases = new Map<string, number>();
/**
 * Raised when another client, or none, is signed in: what one client asked for is kept nowhere that the next one sees.
 */
let numForgotten = 0;
/** Ids of conversations that go on as copies. */
const copies = new Map<string, string>();

/**
 * What is kept, moved and deleted is so one after another: a write needs the revision of the one before. It is done for
 * the client who is signed in when it is asked for, whoever is when its turn comes.
 */
let last: Promise<unknown> = Promise.resolve();
function inTurn<T>(what: (client: string | undefined) => Promise<T>): Promise<T> {
  const client = keptClient.peek();
  const done = last.then(() => what(client));
  last = done.catch(() => {});
  return done;
}

/**
 * What the browser has by now, of which other tabs may have written some. What is unchanged is the page's own, with the
 * probabilities of its tokens.
 */
const readBrowser = (): readonly Conversation[] =>
  readChats(localStorage).map((chat) => {
    const own = inBrowser.value.find(({ id }) => id === chat.id);
    return own?.updatedMs === chat.updatedMs ? own : chat;
  });

const putInBrowser = (chats: readonly Conversation[]): void => {
  const ids = new Set(chats.map(({ id }) => id));
  inBrowser.value = writeChats(localStorage, [...chats, ...readBrowser().filter(({ id }) => !ids.has(id))]);
};

const takeFromBrowser = (id: string): void => {
  inBrowser.value = writeChats(
    localStorage,
    readBrowser().filter((one) => one.id !== id),
  );
};

const isChangedInBrowser = (id: string): boolean =>
  inBrowser.value.some((one) => one.id === id && one.updatedMs !== browserBases.get(id));

/** Whether the page has an earlier text of it. */
const isStaleInBrowser = (id: string): boolean => browserBases.has(id) && isChangedInBrowser(id);

/** Where another tab has changed the conversation meanwhile, both stay. */
function keepInBrowser(chat: Conversation): Kept {
  inBrowser.value = readBrowser();
  const isBeside = isChangedInBrowser(chat.id);
  const own = isBeside ? { ...chat, id: newId() } : chat;
  if (isBeside) copies.set(chat.id, own.id);
  browserBases.set(own.id, own.updatedMs);
  putInBrowser([own]);
  return { id: own.id, ...(isBeside ? { problem: GOES_ON_BESIDE } : {}) };
}

export const isInBrowser = (id: string): boolean => inBrowser.value.some((one) => one.id === id);

/** @param isShown whether the page has the text that is written; an import may replace what it shows */
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
 * Reads the lists again, and rejects where that fails.
 * @returns whether the conversation has another revision by now than the page has
 */
export async function refresh(id: string): Promise<boolean> {
  return await inTurn(async (client) => {
    inBrowser.value = readBrowser();
    if (client === undefined) return isStaleInBrowser(id);
    await readList(client).catch((thrown: unknown) => {
      // A client who has left meanwhile misses no list.
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
 * Reads the texts of the server's conversations, so that they can be searched. Rejects where it does not give some of
 * them, once it has given the others.
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
      // The others would not be read, either.
      if (isNoAnswer(thrown)) throw thrown;
      if (isGone(thrown)) onServer.value = onServer.peek().filter(({ id }) => id !== row.id);
      else problems.set(row.id, thrown);
    }
  }
  for (const thrown of problems.values()) throw thrown;
}

/** Another client, or none, is signed in. */
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
    inBrowser.value = readBrowser();
    const found = inBrowser.value.find((one) => one.id === id);
    copies.delete(id);
    if (found !== undefined) browserBases.set(id, found.updatedMs);
    if (found !== undefined || client === undefined) return found;
    const { chat, revision } = await readServerChat(id, client);
    bases.set(id, revision);
    return chat;
  });

/** After a sign-out, what the server has not taken by then is dropped. */
export const keep = (chat: Conversation): Promise<Kept> => {
  const numBefore = numForgotten;
  return inTurn(async (client) => {
    const id = copies.get(chat.id) ?? chat.id;
    const own = { ...chat, id };
    // One that the server has, and did not take the last time, is tried again.
    if (client === undefined || (isInBrowser(id) && !bases.has(id))) {
      return keepInBrowser(own);
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

function keepHere(chat: Conversation, reason: string): Kept {
  const { id } = keepInBrowser(chat);
  setDeclined(false);
  return { id, problem: `The server did not keep this conversation; it is in this browser. (${reason})` };
}

/** Another page has changed the conversation: both stay. */
async function keepBeside(chat: Conversation, client: string): Promise<Kept> {
  const numBefore = numForgotten;
  try {
    await readList(client);
    if (numForgotten !== numBefore) return { id: chat.id };
    // It may also be one of a client who was signed in before, and is not this one's to have.
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

/** @returns what the visitor should know */
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

/** @returns what the visitor should know */
export const rename = (id: string, title: string): Promise<string | undefined> =>
  inTurn(async (client) => {
    inBrowser.value = readBrowser();
    const own = inBrowser.value.find((one) => one.id === id);
    if (own !== undefined) {
      if (!isChangedInBrowser(id)) browserBases.set(id, own.updatedMs + 1);
      putInBrowser([named(own, title)]);
      return undefined;
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

/** Conversations of the same id are replaced. @returns what the visitor should know */
export const bringIn = (chats: readonly Conversation[]): Promise<string | undefined> =>
  inTurn(async (client) => {
    if (client === undefined) {
      putInBrowser(chats);
      return undefined;
    }
    const revisionOf = (id: string) => onServer.value.find((one) => one.id === id)?.revision ?? 0;
    return await putAll(chats, client, revisionOf, false);
  });

/** Newer ones first: what the server has no room for stays here. @returns what the visitor should know */
export const moveToServer = (): Promise<string | undefined> =>
  inTurn(async (client) => {
    return client === undefined ? undefined : await putAll(inBrowser.value, client, () => 0, true);
  });

async function putAll(
  chats: readonly Conversation[],
  client: string,
  revisionOf: (id: string) => number,
  isShown: boolean,
): Promise<string | undefined> {
  const numBefore = numForgotten;
  let [numLeft, reason] = [0, ""];
  for (const chat of [...chats].sort((a, b) => b.updatedMs - a.updatedMs)) {
    const fitting = withServerId(chat);
    try {
      await putOnServer(fitting, revisionOf(fitting.id), client, isShown).catch(async (thrown: unknown) => {
        if (!isConflict(thrown)) throw thrown;
        await putOnServer({ ...fitting, id: newId() }, 0, client, isShown);
      });
      takeFromBrowser(chat.id);
    } catch (thrown) {
      if (numForgotten !== numBefore) return undefined;
      putInBrowser([chat]);
      [numLeft, reason] = [numLeft + 1, errorText(thrown)];
    }
  }
  return numLeft === 0
    ? undefined
    : `The server did not keep ${numLeft} of them; they are in this browser. (${reason})`;
}

export const declineMove = (): void => setDeclined(true);

function setDeclined(isWanted: boolean): void {
  isDeclined.value = isWanted;
  if (isWanted) localStorage.setItem(DECLINED, "yes");
  else localStorage.removeItem(DECLINED);
}

/** For a file. Rejects where the server does not give one of them. */
export async function allChats(): Promise<readonly Conversation[]> {
  // As they are now: one that moves meanwhile is in the file once.
  const [rows, ofBrowser, client] = [entries.value, inBrowser.value, keptClient.value];
  const all: Conversation[] = [];
  for (const { id, place } of rows) {
    if (place === "browser") all.push(ofBrowser.find((one) => one.id === id)!);
    else if (client !== undefined) all.push((await readServerChat(id, client)).chat);
  }
  return all;
}
