/**
 * Conversations in the browser's own store. Stored and imported texts can have any form; only our own form counts as a
 * conversation.
 */
import { oneLine } from "../text/one-line.js";
import {
  CACHE_ID,
  type Conversation,
  DEFAULT_SETTINGS,
  type Feedback,
  NO_TITLE,
  type Pane,
  RATINGS,
  REQUEST_ID,
  type Settings,
  type Speed,
  TROUBLES,
  type Turn,
} from "./conversation.js";

import { isPicture } from "./picture.js";

export const CHATS_KEY = "millrace-chats";
const MOST_CHATS = 1000;

/** The part of localStorage that the store needs. */
export interface TextStore {
  getItem(key: string): string | null;
  setItem(key: string, value: string): void;
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null;

const textOf = (value: unknown): string => (typeof value === "string" ? value : "");

const isAmount = (value: unknown): value is number => typeof value === "number" && Number.isFinite(value) && value >= 0;

function speedOf(value: unknown): Speed | undefined {
  if (!isObject(value)) return undefined;
  const { numTokens, firstMs, restMs } = value;
  if (!isAmount(numTokens) || !Number.isSafeInteger(numTokens) || !isAmount(firstMs) || !isAmount(restMs))
    return undefined;
  return { numTokens, firstMs, restMs };
}

function feedbackOf(value: unknown): Feedback | undefined {
  if (!isObject(value)) return undefined;
  const requestId = textOf(value.requestId);
  if (!REQUEST_ID.test(requestId)) return undefined;
  const [correction, cacheId] = [textOf(value.correction), textOf(value.cacheId)];
  const rating = RATINGS.find((one) => one === value.rating);
  return {
    requestId,
    ...(rating === undefined ? {} : { rating }),
    ...(correction === "" ? {} : { correction }),
    ...(CACHE_ID.test(cacheId) ? { cacheId } : {}),
    ...(value.isWrong === true ? { isWrong: true } : {}),
  };
}

function turnOf(value: unknown): Turn | undefined {
  if (!isObject(value) || (value.role !== "user" && value.role !== "assistant")) return undefined;
  const files = (Array.isArray(value.files) ? value.files : []).filter(isObject).map(({ name, text, image }) => ({
    name: oneLine(textOf(name)),
    text: textOf(text),
    ...(isPicture(textOf(image)) ? { image: textOf(image) } : {}),
  }));
  const calls = (Array.isArray(value.toolCalls) ? value.toolCalls : [])
    .filter(isObject)
    .map((one) => ({ name: textOf(one.name), arguments: textOf(one.arguments) }));
  const speed = speedOf(value.speed);
  const feedback = feedbackOf(value.feedback);
  const trouble = TROUBLES.find((one) => one === value.trouble);
  return {
    role: value.role,
    content: textOf(value.content),
    ...(textOf(value.reasoning) === "" ? {} : { reasoning: textOf(value.reasoning) }),
    ...(files.length === 0 ? {} : { files }),
    ...(calls.length === 0 ? {} : { toolCalls: calls }),
    ...(speed === undefined ? {} : { speed }),
    ...(isAmount(value.cost) ? { cost: value.cost } : {}),
    ...(trouble === undefined ? {} : { trouble }),
    ...(trouble === undefined || textOf(value.error) === "" ? {} : { error: textOf(value.error) }),
    ...(feedback === undefined ? {} : { feedback }),
    ...(value.isDropped === true ? { isDropped: true } : {}),
  };
}

function paneOf(value: unknown): Pane | undefined {
  if (!isObject(value) || !Array.isArray(value.turns)) return undefined;
  return { model: textOf(value.model), turns: value.turns.flatMap((turn) => turnOf(turn) ?? []) };
}

function settingsOf(value: unknown): Settings {
  const given = isObject(value) ? value : {};
  const entries = Object.entries(DEFAULT_SETTINGS).map(([name, standard]) => {
    const own = given[name];
    return [name, typeof own === typeof standard ? own : standard];
  });
  const settings = Object.fromEntries(entries) as Settings;
  return ["text", "json", "schema"].includes(settings.format) ? settings : { ...settings, format: "text" };
}

export const titleFrom = (value: unknown): string => oneLine(textOf(value)) || NO_TITLE;

/** @returns undefined if the value is not a conversation */
export function conversationOf(value: unknown): Conversation | undefined {
  if (!isObject(value) || typeof value.id !== "string" || !Array.isArray(value.panes)) return undefined;
  const panes = value.panes.flatMap((pane) => paneOf(pane) ?? []).slice(0, 2);
  if (panes.length === 0) return undefined;
  const updatedMs = typeof value.updatedMs === "number" ? value.updatedMs : 0;
  const named = value.isNamed === true ? { isNamed: true } : {};
  return {
    id: value.id,
    title: titleFrom(value.title),
    ...named,
    updatedMs,
    settings: settingsOf(value.settings),
    panes,
  };
}

/** @returns the conversations of an exported text; empty if there are none */
export function parseChats(text: string): readonly Conversation[] {
  try {
    const value: unknown = JSON.parse(text);
    return (Array.isArray(value) ? value : [value]).flatMap((one) => conversationOf(one) ?? []);
  } catch {
    return [];
  }
}

/** Newest first. */
export const readChats = (store: TextStore): readonly Conversation[] => parseChats(store.getItem(CHATS_KEY) ?? "[]");

interface Written {
  /** The latest changed comes first. */
  readonly kept: readonly Conversation[];
  /** Ids of conversations that do not fit even alone; the store keeps their earlier states, if it had any. */
  readonly tooLarge: readonly string[];
  /** Number of other conversations that were dropped for lack of room. */
  readonly numDropped: number;
}

/** Writes the conversations. Where the browser lacks room, the oldest are dropped. */
export function writeChats(store: TextStore, chats: readonly Conversation[]): Written {
  const wanted = [...chats].sort(byTime).slice(0, MOST_CHATS);
  const texts = new Map(wanted.map((chat) => [chat, textOfChat(chat)]));
  const isWritten = (all: readonly Conversation[]): boolean => {
    try {
      store.setItem(CHATS_KEY, `[${all.map((chat) => texts.get(chat)).join(",")}]`);
      return true;
    } catch {
      return false;
    }
  };
  if (isWritten(wanted)) return { kept: wanted, tooLarge: [], numDropped: chats.length - wanted.length };
  const before = store.getItem(CHATS_KEY) ?? "[]";
  // A text no longer than its stored version fits. Longer ones are tried alone; a failed write changes nothing.
  const isTooLarge = (chat: Conversation) => texts.get(chat)!.length > before.length && !isWritten([chat]);
  const tooLarge = wanted.filter(isTooLarge).map(({ id }) => id);
  const earlier = parseChats(before).filter(({ id }) => tooLarge.includes(id));
  for (const chat of earlier) texts.set(chat, textOfChat(chat));
  const kept = [...wanted.filter(({ id }) => !tooLarge.includes(id)), ...earlier].sort(byTime);
  const numOthers = chats.length - tooLarge.length + earlier.length;
  while (!isWritten(kept) && kept.length > 0) kept.pop();
  return { kept, tooLarge, numDropped: numOthers - kept.length };
}

const byTime = (a: Conversation, b: Conversation): number => b.updatedMs - a.updatedMs;

/** Omits the tokens' probabilities, which are many times as long as the text. */
const textOfChat = (chat: Conversation): string => JSON.stringify(conversationOf(chat));
