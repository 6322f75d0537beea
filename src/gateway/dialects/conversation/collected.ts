/** Puts the pieces of an answer together, for clients that want it whole. */
import { isPlainObject } from "../../../core/is-plain-object.js";
import type { JsonObject } from "../../../core/json-body.js";
import type { TokenCounts } from "../../usage/record.js";
import { type AnswerPart, malformed, type StopReason } from "./answer-parts.js";

export type Block =
  | { readonly kind: "text"; text: string }
  | { readonly kind: "thought"; text: string; signature: string | undefined }
  | { readonly kind: "hidden-thought"; readonly data: string }
  | {
      readonly kind: "call";
      readonly id: string;
      readonly name: string;
      readonly signature: string | undefined;
      json: string;
    };

interface Collected {
  readonly id: string | undefined;
  readonly model: string | undefined;
  readonly blocks: readonly Block[];
  readonly stop: StopReason;
  readonly sequence: string | undefined;
  readonly counts: TokenCounts;
}

export const NO_COUNTS: TokenCounts = { fresh: 0, cacheRead: 0, cacheWrite: 0, output: 0, reasoning: 0 };

export function collected(parts: readonly AnswerPart[]): Collected {
  const blocks: Block[] = [];
  const calls = new Map<number, Block & { kind: "call" }>();
  let [id, model, sequence]: (string | undefined)[] = [];
  let stop: StopReason = "end";
  let counts = NO_COUNTS;
  for (const part of parts) {
    const last = blocks.at(-1);
    switch (part.kind) {
      case "begin":
        ({ id, model } = part);
        break;
      case "text":
        if (last?.kind === "text") last.text += part.text;
        else blocks.push({ kind: "text", text: part.text });
        break;
      case "thought":
        if (last?.kind === "thought" && last.signature === undefined) last.text += part.text;
        else blocks.push({ kind: "thought", text: part.text, signature: undefined });
        break;
      case "signature":
        if (last?.kind === "thought") last.signature = part.signature;
        break;
      case "hidden-thought":
        blocks.push(part);
        break;
      case "call": {
        const call = { kind: "call" as const, id: part.id, name: part.name, signature: part.signature, json: "" };
        calls.set(part.index, call);
        blocks.push(call);
        break;
      }
      case "arguments": {
        const call = calls.get(part.index);
        if (call === undefined) throw malformed("a call before its arguments", part.json);
        call.json += part.json;
        break;
      }
      case "stop":
        ({ reason: stop, sequence } = part);
        break;
      case "usage":
        ({ counts } = part);
        break;
    }
  }
  return { id, model, blocks, stop, sequence, counts };
}

/** Arguments as an object. A model may write anything, and Anthropic's clients accept only an object. */
export function argumentsObject(json: string): JsonObject {
  if (json.trim() === "") return {};
  try {
    const value: unknown = JSON.parse(json);
    if (isPlainObject(value)) return value;
  } catch {
    // The error below states the expected form.
  }
  throw malformed("the JSON of an object as arguments of a call", json);
}
