/** Conversations as data: their turns, and the request for the next turn. */
import { oneLine } from "../text/one-line.js";

export interface Attachment {
  readonly name: string;
  /** Empty for a picture. */
  readonly text: string;
  /** A picture as a data URL. */
  readonly image?: string;
}

export interface ToolCall {
  readonly name: string;
  readonly arguments: string;
}

/** A token of an answer, its probability, and the likeliest tokens at its position. */
export interface TokenChoice {
  readonly text: string;
  readonly probability: number;
  readonly others: readonly { readonly text: string; readonly probability: number }[];
}

export interface Speed {
  readonly numTokens: number;
  /** Milliseconds to the first token; undefined: none has come. */
  readonly firstMs: number | undefined;
  /** Milliseconds from the first to the last token. */
  readonly restMs: number;
}

/**
 * Reasons why an answer is incomplete. cut: the token limit; full: the context is full; broken: the connection failed;
 * stopped: by the visitor; too-long: the conversation does not fit; failed: the server refused.
 */
export const TROUBLES = ["cut", "full", "broken", "stopped", "too-long", "failed"] as const;
export type Trouble = (typeof TROUBLES)[number];

export const RATINGS = ["up", "down"] as const;
export type Rating = (typeof RATINGS)[number];

/** The server's ids of an answer, and the visitor's feedback on it. */
export interface Feedback {
  readonly requestId: string;
  readonly rating?: Rating;
  /** The visitor's version of the right answer. */
  readonly correction?: string;
  /** Id of the cached answer that this is; its question was another one that the server considered equal. */
  readonly cacheId?: string;
  /** Whether the server was told that its cached answer is wrong, and dropped it. */
  readonly isWrong?: boolean;
}

/** The form of servers' request ids. An id becomes part of a path. */
export const REQUEST_ID = /^[\x21-\x7e]{1,200}$/;
export const CACHE_ID = /^[0-9a-f]{32}$/;

export interface Turn {
  readonly role: "user" | "assistant";
  readonly content: string;
  readonly reasoning?: string;
  readonly toolCalls?: readonly ToolCall[];
  readonly files?: readonly Attachment[];
  readonly tokens?: readonly TokenChoice[];
  readonly speed?: Speed;
  /** Cost in dollars, including the answers that this one continues; absent: the server does not report it. */
  readonly cost?: number;
  readonly trouble?: Trouble;
  /** The server's message about the error. */
  readonly error?: string;
  readonly feedback?: Feedback;
  /** Whether the turn is shown, but excluded from requests. */
  readonly isDropped?: boolean;
}

/** One model's side of a conversation; two can be side by side. */
export interface Pane {
  readonly model: string;
  readonly turns: readonly Turn[];
}

export interface Settings {
  readonly system: string;
  readonly temperature: string;
  readonly topP: string;
  readonly seed: string;
  readonly maxTokens: string;
  readonly topK: string;
  readonly minP: string;
  readonly frequencyPenalty: string;
  readonly presencePenalty: string;
  readonly repetitionPenalty: string;
  /** Stop strings, one per line. */
  readonly stop: string;
  readonly format: "text" | "json" | "schema";
  readonly schema: string;
  readonly showsTokens: boolean;
}

/** Numeric settings as the visitor typed them; empty: the server's default. */
export const NUMBER_SETTINGS = [
  "temperature",
  "topP",
  "seed",
  "maxTokens",
  "topK",
  "minP",
  "frequencyPenalty",
  "presencePenalty",
  "repetitionPenalty",
] as const;
export type NumberSetting = (typeof NUMBER_SETTINGS)[number];

export interface Conversation {
  readonly id: string;
  readonly title: string;
  /** Whether the visitor chose the title, instead of the first words. */
  readonly isNamed?: boolean;
  readonly updatedMs: number;
  readonly settings: Settings;
  readonly panes: readonly Pane[];
}

export const DEFAULT_SETTINGS: Settings = {
  system: "",
  temperature: "",
  topP: "",
  seed: "",
  maxTokens: "",
  topK: "",
  minP: "",
  frequencyPenalty: "",
  presencePenalty: "",
  repetitionPenalty: "",
  stop: "",
  format: "text",
  schema: "",
  showsTokens: false,
};

const NUM_ALTERNATIVES = 5;
const TITLE_CHARACTERS = 60;
export const NO_TITLE = "New chat";

/** A fence longer than every fence in the text. */
function fenceFor(text: string): string {
  const longest = Math.max(2, ...[...text.matchAll(/`{3,}/g)].map(([ticks]) => ticks.length));
  return "`".repeat(longest + 1);
}

const textsIn = (files: readonly Attachment[]) => files.filter(({ image }) => image === undefined);

/** The words of a turn for the model: attached texts, then the message. */
function sentText({ content, files = [] }: Turn): string {
  const parts = textsIn(files).map(({ name, text }) => `File ${name}:\n${fenceFor(text)}\n${text}\n${fenceFor(text)}`);
  return [...parts, content].join("\n\n");
}

/** A turn's content for the model: its text, or with pictures, a list of parts with the pictures last. */
export function sentContent(turn: Turn): string | readonly object[] {
  const text = sentText(turn);
  const pictures = (turn.files ?? []).flatMap(({ image }) =>
    image === undefined ? [] : [{ type: "image_url", image_url: { url: image } }],
  );
  if (pictures.length === 0) return text;
  return [...(text === "" ? [] : [{ type: "text", text }]), ...pictures];
}

/** Whether a turn is part of requests; an answer without text is not. */
const isSent = ({ role, content, isDropped, files }: Turn): boolean =>
  isDropped !== true && (content !== "" || (role === "user" && (files?.length ?? 0) > 0));

const numberOf = (text: string): number | undefined => (text.trim() === "" ? undefined : Number(text));

function responseFormat({ format, schema }: Settings): object | undefined {
  if (format === "json") return { type: "json_object" };
  if (format !== "schema") return undefined;
  if (schema.trim() === "") throw new SyntaxError("it is empty");
  const parsed: unknown = JSON.parse(schema);
  if (typeof parsed !== "object" || parsed === null || Array.isArray(parsed)) throw new SyntaxError("it is no object");
  return { type: "json_schema", json_schema: { name: "answer", strict: true, schema: parsed } };
}

/** Stop strings, one per line; `\n` and `\t` within one are a line break and a tab. */
function stopStrings({ stop }: Settings): readonly string[] | undefined {
  const lines = stop.split("\n").filter((line) => line !== "");
  return lines.length === 0 ? undefined : lines.map((line) => line.replaceAll("\\n", "\n").replaceAll("\\t", "\t"));
}

/** Omits unset fields, so that the server's defaults apply. Throws a SyntaxError for a malformed schema. */
export function requestOf({ model, turns }: Pane, settings: Settings): Record<string, unknown> {
  const system = settings.system.trim() === "" ? [] : [{ role: "system", content: settings.system }];
  const sent = turns.filter(isSent);
  const messages = [...system, ...sent.map((turn) => ({ role: turn.role, content: sentContent(turn) }))];
  const isContinued = sent.at(-1)?.role === "assistant";
  const fields: Record<string, unknown> = {
    model,
    messages,
    stream: true,
    stream_options: { include_usage: true },
    temperature: numberOf(settings.temperature),
    top_p: numberOf(settings.topP),
    seed: numberOf(settings.seed),
    max_tokens: numberOf(settings.maxTokens),
    top_k: numberOf(settings.topK),
    min_p: numberOf(settings.minP),
    frequency_penalty: numberOf(settings.frequencyPenalty),
    presence_penalty: numberOf(settings.presencePenalty),
    repetition_penalty: numberOf(settings.repetitionPenalty),
    stop: stopStrings(settings),
    response_format: responseFormat(settings),
    ...(settings.showsTokens ? { logprobs: true, top_logprobs: NUM_ALTERNATIVES } : {}),
    ...(isContinued ? { add_generation_prompt: false, continue_final_message: true } : {}),
  };
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

/** A random id. Over plain HTTP from another machine, browsers lack `crypto.randomUUID`. */
export const newId = (): string =>
  [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

/** Index of the last question; −1: there is none. */
export const lastQuestion = (turns: readonly Turn[]): number => turns.findLastIndex(({ role }) => role === "user");

/** The turns that can be dropped to make room: those before the last question that are still sent. */
export function droppable(turns: readonly Turn[]): readonly number[] {
  const until = lastQuestion(turns);
  return [...turns.keys()].filter((i) => i < until && turns[i]!.isDropped !== true);
}

/** The older half of the droppable turns, in whole exchanges of a question and its answer. */
export function proposedDrop(turns: readonly Turn[]): readonly number[] {
  const all = droppable(turns);
  return all.slice(0, 2 * Math.ceil(all.length / 4));
}

export const dropTurns = (turns: readonly Turn[], dropped: readonly number[]): readonly Turn[] =>
  turns.map((turn, i) => (dropped.includes(i) ? { ...turn, isDropped: true } : turn));

/** The turns, with the last answer marked as stopped. */
export const stopped = (turns: readonly Turn[]): readonly Turn[] =>
  turns.map((turn, i) => (i === turns.length - 1 ? { ...turn, trouble: "stopped" } : turn));

/** Adds the question. An earlier question that got no answer is removed first, so that no half exchange remains. */
export function withQuestion(turns: readonly Turn[], question: Turn): readonly Turn[] {
  const last = turns.at(-1);
  const kept = last?.role === "assistant" && last.content === "" ? turns.slice(0, lastQuestion(turns)) : turns;
  return [...kept, question, { role: "assistant", content: "" }];
}

/**
 * A pane's turns before the first question that another pane withdraws. Panes can differ: one lacks a question that its
 * model failed to answer.
 *
 * @param withdrawn the other pane's turns from the question on
 */
export function withoutTurns(turns: readonly Turn[], withdrawn: readonly Turn[]): readonly Turn[] {
  const placesOf = (all: readonly Turn[], { content }: Turn) =>
    [...all.keys()].filter((i) => all[i]!.role === "user" && all[i]!.content === content);
  for (const [i, question] of withdrawn.entries()) {
    if (question.role !== "user") continue;
    // Equal questions are distinguished by their number from the end.
    const numEqual = placesOf(withdrawn.slice(i), question).length;
    const place = placesOf(turns, question).at(-numEqual);
    if (place !== undefined) return turns.slice(0, place);
  }
  return turns;
}

/** The first words of the first question. */
export function titleOf(panes: readonly Pane[]): string {
  const first = panes[0]?.turns.find(({ role }) => role === "user");
  return oneLine(first?.content || first?.files?.[0]?.name || "", TITLE_CHARACTERS) || NO_TITLE;
}

/**
 * @example describeSpeed({ numTokens: 41, firstMs: 120, restMs: 1000 })
 *   // "41 tokens · 40.0 tokens/s · first token after 120 ms"
 */
export function describeSpeed({ numTokens, firstMs, restMs }: Speed): string {
  if (firstMs === undefined) return "";
  const first = `first token after ${Math.round(firstMs)} ms`;
  if (numTokens < 2 || restMs <= 0) return `${numTokens} token${numTokens === 1 ? "" : "s"} · ${first}`;
  return `${numTokens} tokens · ${(((numTokens - 1) / restMs) * 1000).toFixed(1)} tokens/s · ${first}`;
}

/** To the nano-dollar, the precision of a gateway's ledger. @example describeCost(0.0000123) // "$0.0000123" */
export const describeCost = (dollars: number): string => `$${dollars.toFixed(9).replace(/\.?0+$/, "")}`;

/** The request as a shell command, without the key. */
export function curlOf(request: Record<string, unknown>, base: string): string {
  const body = JSON.stringify(request).replaceAll("'", "'\\''");
  return `curl -N ${base}v1/chat/completions -H "Authorization: Bearer $API_KEY" -H 'Content-Type: application/json' -d '${body}'`;
}
