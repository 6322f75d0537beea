/** An answer in pieces that all dialects share: a stream yields them one by one, a whole answer all at once. */

import { MillraceError } from "../../../core/errors.js";
import { isPlainObject } from "../../../core/is-plain-object.js";
import type { JsonObject } from "../../../core/json-body.js";
import type { TokenCounts } from "../../usage/record.js";
import { countsOf } from "../../usage/token-counts.js";
import { described } from "./fields.js";

/** filter: the provider withheld the answer; refusal: the model did. */
export type StopReason = "end" | "length" | "sequence" | "calls" | "filter" | "refusal" | "pause";

export type AnswerPart =
  | { readonly kind: "begin"; readonly id: string | undefined; readonly model: string | undefined }
  | { readonly kind: "text" | "thought"; readonly text: string }
  /** Ends the thought before it. */
  | { readonly kind: "signature"; readonly signature: string }
  | { readonly kind: "hidden-thought"; readonly data: string }
  | {
      readonly kind: "call";
      /** Number of the call in the answer. */
      readonly index: number;
      readonly id: string;
      readonly name: string;
      readonly signature?: string | undefined;
    }
  /** A piece of the JSON of a call's arguments. */
  | { readonly kind: "arguments"; readonly index: number; readonly json: string }
  | { readonly kind: "stop"; readonly reason: StopReason; readonly sequence?: string | undefined }
  /** Replaces earlier counts. */
  | { readonly kind: "usage"; readonly counts: TokenCounts };

/**
 * Reads one answer of a provider. Throws upstream_failed for an answer of another form; unknown events and members are
 * skipped.
 */
export interface AnswerReader {
  /** @param name type of the event, if the dialect states it beside the data */
  event(event: JsonObject, name: string): readonly AnswerPart[];
  /** The stream has ended. Throws if the answer is not complete. */
  end(): readonly AnswerPart[];
  whole(body: JsonObject): readonly AnswerPart[];
}

/** Writes one answer in a client's dialect. */
export interface AnswerWriter {
  /** @returns server-sent events */
  stream(parts: readonly AnswerPart[]): string;
  /** The events after the last part. */
  streamEnd(): string;
  whole(parts: readonly AnswerPart[]): object;
}

/** Upper bound of an answer that is kept until it is whole. No model writes as many. */
export const MAX_CHARACTERS = 16 * 2 ** 20;

/** Upper bound of the calls in an answer. No model makes as many, and a writer remembers each. */
const MAX_CALLS = 1024;

export function malformed(what: string, got: unknown): MillraceError {
  return new MillraceError("upstream_failed", `expected ${what} in the provider's answer, got ${described(got)}`);
}

/** The error of a provider that fails in the middle of an answer. */
export function failedInStream(message: unknown): MillraceError {
  const text = typeof message === "string" ? message.slice(0, 500) : described(message);
  return new MillraceError("upstream_failed", `expected the rest of the provider's answer, got its error: ${text}`);
}

export function textAt(object: JsonObject, key: string): string | undefined {
  const value = object[key];
  if (value === undefined || value === null || typeof value === "string") return value ?? undefined;
  throw malformed(`text as ${key}`, value);
}

export function objectAt(object: JsonObject, key: string): JsonObject | undefined {
  const value = object[key];
  if (value === undefined || value === null || isPlainObject(value)) return value ?? undefined;
  throw malformed(`an object as ${key}`, value);
}

export function objectsAt(object: JsonObject, key: string): readonly JsonObject[] {
  const value = object[key];
  if (value === undefined || value === null) return [];
  if (Array.isArray(value) && value.every(isPlainObject)) return value;
  throw malformed(`a list of objects as ${key}`, value);
}

/** A part for a provider's counts; none if it reports none that can be read. */
export function usageParts(usage: JsonObject | undefined): readonly AnswerPart[] {
  const counts = usage === undefined ? undefined : countsOf(usage);
  return counts === undefined ? [] : [{ kind: "usage", counts }];
}

export function assertFewCalls(index: number): void {
  if (index >= MAX_CALLS) throw malformed(`at most ${MAX_CALLS} calls`, index + 1);
}
