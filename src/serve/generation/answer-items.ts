/**
 * The items of an answer, for APIs that list them: each run of content or reasoning, and each tool call. Complete and
 * streamed answers share this code.
 */
import { randomUUID } from "node:crypto";
import type { AnswerPart } from "../../text/answer/answer-part.js";

export interface AnswerItem {
  readonly kind: "content" | "reasoning" | "call";
  /** Unique, without the API's prefix. */
  readonly id: string;
  /** The function's name in a call; empty otherwise. */
  readonly name: string;
  /** The text; in a call, its arguments as the model wrote them. */
  text: string;
  /** The log-probabilities of the content's tokens in the API's form; empty unless the request asked for them. */
  readonly logprobs: object[];
}

export function newItem(kind: AnswerItem["kind"], name = ""): AnswerItem {
  return { kind, id: randomUUID().replaceAll("-", ""), name, text: "", logprobs: [] };
}

/** The text that the part adds to its item. */
export function textOfPart(part: AnswerPart): string {
  return part.kind === "call" ? "" : part.text;
}

/** Appends the part to the last item or to a new one. @returns whether the item is new */
export function addPart(items: AnswerItem[], part: AnswerPart): boolean {
  const kind = part.kind === "arguments" ? "call" : part.kind;
  const last = items.at(-1);
  const isNew = part.kind === "call" || last?.kind !== kind;
  const item = isNew || last === undefined ? newItem(kind, part.kind === "call" ? part.name : "") : last;
  if (isNew) items.push(item);
  item.text += textOfPart(part);
  return isNew;
}

/** An update's parts; unsplit text becomes one part of content. */
export function partsOf(news: { readonly text: string; readonly parts: readonly AnswerPart[] | undefined }) {
  if (news.parts !== undefined) return news.parts;
  return news.text === "" ? [] : [{ kind: "content", text: news.text } as const];
}

export function itemsOf(answer: Parameters<typeof partsOf>[0]): AnswerItem[] {
  const items: AnswerItem[] = [];
  for (const part of partsOf(answer)) addPart(items, part);
  return items;
}
