/** Conversations that the server keeps for the signed-in client: /v1/chats. */
import { ApiError, call } from "../api/client.js";
import { type Conversation, NUMBER_SETTINGS, newId } from "./conversation.js";
import { conversationOf, titleFrom } from "./saved-chats.js";

/** A conversation's row in the server's list. */
export interface ServerChat {
  readonly id: string;
  readonly title: string;
  readonly updated_ms: number;
  /** Changes with each write. */
  readonly revision: number;
}

/** The server's limits. */
const MOST_NAME_CHARACTERS = 512;
const ID = /^[\w-]{1,64}$/;

const PATH = "v1/chats";

export async function listServerChats(client: string): Promise<readonly ServerChat[]> {
  const { data } = (await (await call(PATH, { client })).json()) as { readonly data: readonly ServerChat[] };
  return data.map((row) => ({ ...row, title: titleFrom(row.title) }));
}

export async function readServerChat(
  id: string,
  client: string,
): Promise<{ readonly chat: Conversation; readonly revision: number }> {
  const { conversation, revision } = (await (await call(`${PATH}/${id}`, { client })).json()) as {
    readonly conversation: object;
    readonly revision: number;
  };
  const chat = conversationOf({ ...conversation, id });
  if (chat === undefined) throw new Error("the server's conversation is none of this app");
  return { chat, revision };
}

/**
 * Throws an ApiError.
 * @param revision the revision that it replaces; 0: none
 * @returns the conversation's row, and the ids of conversations that the server deleted to make room
 */
export async function writeServerChat(
  chat: Conversation,
  revision: number,
  client: string,
): Promise<{ readonly row: ServerChat; readonly removed: readonly string[] }> {
  const json = { revision, conversation: uploadOf(chat) };
  const answer = await call(`${PATH}/${chat.id}`, { method: "PUT", json, client });
  const { removed, ...row } = (await answer.json()) as ServerChat & { readonly removed: readonly string[] };
  return { row, removed };
}

export async function removeServerChat({ id, revision }: ServerChat, client: string): Promise<void> {
  await call(`${PATH}/${id}?revision=${revision}`, { method: "DELETE", client });
}

/** Whether another page has changed or deleted the conversation. */
export const isConflict = (thrown: unknown): boolean =>
  thrown instanceof ApiError && thrown.code === "conversation_changed";

/** Whether the server no longer has the conversation. */
export const isGone = (thrown: unknown): boolean => thrown instanceof ApiError && thrown.status === 404;

/** Whether the server is unreachable, or no longer knows the client. */
export const isNoAnswer = (thrown: unknown): boolean =>
  thrown instanceof TypeError || (thrown instanceof ApiError && thrown.status === 401);

/** The chat under an id that the server accepts, since imported chats may have any id. */
export const withServerId = (chat: Conversation): Conversation => (ID.test(chat.id) ? chat : { ...chat, id: newId() });

/** The chat in the server's form: without the fields of a turn that only the page uses, and with shortened names. */
function uploadOf(chat: Conversation): object {
  const { id: _id, title, isNamed, updatedMs, settings, panes } = conversationOf(chat)!;
  const cut = (text: string): string => text.slice(0, MOST_NAME_CHARACTERS);
  return {
    title,
    ...(isNamed === true ? { isNamed } : {}),
    updatedMs: Math.max(0, Math.floor(updatedMs)) || 0,
    settings: { ...settings, ...Object.fromEntries(NUMBER_SETTINGS.map((one) => [one, cut(settings[one])])) },
    panes: panes.map(({ model, turns }) => ({
      model: cut(model),
      turns: turns.map(({ files, toolCalls, ...turn }) => ({
        ...turn,
        ...(files === undefined ? {} : { files }),
        ...(toolCalls === undefined
          ? {}
          : { toolCalls: toolCalls.map((one) => ({ name: cut(one.name), arguments: one.arguments })) }),
      })),
    })),
  };
}
