/** What an answer consists of for APIs that list it: each stretch of content or reasoning, and each call. Whole and streamed answers are both made of these. */
import { randomUUID } from "node:crypto";
import type { AnswerPart } from "../../text/answer/answer-part.js";

export interface AnswerItem {
  readonly kind: "content" | "reasoning" | "call";
  /** Of its own; APIs put their prefixes before it. */
  readonly id: string;
  /** The function's, where it is a call. */
  readonly name: string;
  /** A call's is its arguments, as the model wrote them. */
  text: string;
  /** As the API shows them, of a content's tokens, where they were asked for. */
  readonly logprobs: object[];
}

export function newItem(kind: AnswerItem["kind"], name = ""): AnswerItem {
  return { kind, id: randomUUID().replaceAll("-", ""), name, text: "", logprobs: [] };
}

/** The text that a part adds to its item. */
export function textOfPart(part: AnswerPart): string {
  return part.kind === "call" ? "" : part.text;
}

/** Adds the part to the item it belongs to, the last or a new one, and says whether it is new. */
export function addPart(items: AnswerItem[], part: AnswerPart): boolean {
  const kind = part.kind === "arguments" ? "call" : part.kind;
  const last = items.at(-1);
  const isNew = part.kind === "call" || last?.kind !== kind;
  const item = isNew || last === undefined ? newItem(kind, part.kind === "call" ? part.name : "") : last;
  if (isNew) items.push(item);
  item.text += textOfPart(part);
  return isNew;
}

/** News of an answer in parts, also where it is not taken apart. */
export function partsOf(news: { readonly text: string; readonly parts: readonly AnswerPart[] | undefined }) {
  if (news.parts !== undefined) return news.parts;
  return news.text === "" ? [] : [{ kind: "content", text: news.text } as const];
}

export function itemsOf(answer: Parameters<typeof partsOf>[0]): AnswerItem[] {
  const items: AnswerItem[] = [];
  for (const part of partsOf(answer)) addPart(items, part);
  return items;
}
