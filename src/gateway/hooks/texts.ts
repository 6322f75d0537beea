/** The texts in requests and answers of all APIs: what people and models wrote, not ids, types, images or settings. */

import { MillraceError } from "../../core/errors.js";

export type Json = Readonly<Record<string, unknown>>;

/** Fields at the top of a request below which texts are. */
const REQUEST_FIELDS: ReadonlySet<string> = new Set([
  "messages",
  "prompt",
  "suffix",
  "input",
  "instructions",
  "system",
  "query",
  "queries",
  "documents",
  "text_1",
  "text_2",
  "content",
  "prediction",
]);

/** Of a whole answer, or of the part of a stream's event that has whole texts. */
const ANSWER_FIELDS: ReadonlySet<string> = new Set([
  "choices",
  "output",
  "output_text",
  "content",
  "content_block",
  "response",
  "item",
  "part",
  "text",
  "arguments",
  "citation",
  "results",
]);

/** Values that are no text, and must stay as they are. */
const SKIPPED: ReadonlySet<string> = new Set([
  "role",
  "type",
  "id",
  "call_id",
  "tool_call_id",
  "tool_use_id",
  "item_id",
  "name",
  "status",
  "finish_reason",
  "stop_reason",
  "model",
  "object",
  "image_url",
  "input_audio",
  "audio",
  "data",
  "file_data",
  "url",
  "signature",
  "encrypted_content",
  "cache_control",
  "format",
  "detail",
  "usage",
  "tools",
  "metadata",
]);

/** Tokens of a text spell it once more. */
const SPELLED: ReadonlySet<string> = new Set(["logprobs", "prompt_logprobs", "token_ids", "prompt_token_ids"]);

const MAX_DEPTH = 64;

/** Gets each text in turn. @returns the text to put in its place */
type VisitText = (text: string) => string;

/** @returns the same object if no text has changed */
export function mapRequestTexts(body: Json, visit: VisitText): Json {
  return mapFields(body, REQUEST_FIELDS, visit);
}

/** @returns the same object if no text has changed */
export function mapAnswerTexts(answer: Json, visit: VisitText): Json {
  return mapFields(answer, ANSWER_FIELDS, visit);
}

/** Whether a prompt, or part of it, is given as token ids, which cannot be read. */
export function hasTokenIds({ prompt, input }: Json): boolean {
  return isTokenIds(prompt) || isTokenIds(input);
}

/** Large lists of ids have been made Int32Arrays. */
function isTokenIds(value: unknown): boolean {
  if (value instanceof Int32Array) return true;
  const isList = (each: unknown) => each instanceof Int32Array || (Array.isArray(each) && typeof each[0] === "number");
  return Array.isArray(value) && value.some((each) => typeof each === "number" || isList(each));
}

function mapFields(value: Json, fields: ReadonlySet<string>, visit: VisitText): Json {
  return mapObject(value, (key, each) => (fields.has(key) ? mapTexts(each, visit, 0, false) : each));
}

/** @param isFree the object's keys are not the API's, as in the input of a tool */
function mapTexts(value: unknown, visit: VisitText, depth: number, isFree: boolean): unknown {
  if (typeof value === "string") return value === "" ? value : visit(value);
  if (typeof value !== "object" || value === null || ArrayBuffer.isView(value)) return value;
  if (depth > MAX_DEPTH) {
    throw new MillraceError("guardrail_failed", `expected texts at most ${MAX_DEPTH} levels deep, got deeper ones`);
  }
  if (Array.isArray(value)) {
    let isSame = true;
    const copy = value.map((each) => {
      const next = mapTexts(each, visit, depth + 1, isFree);
      isSame &&= next === each;
      return next;
    });
    return isSame ? value : copy;
  }
  const { type } = value as Json;
  return mapObject(value as Json, (key, each) => {
    if (!isFree && isSkipped(key, type)) return each;
    return mapTexts(each, visit, depth + 1, isFree || (type === "tool_use" && key === "input"));
  });
}

/** @param type of the object that has the key: data of a source of type text is text, that of others an image or a file */
function isSkipped(key: string, type: unknown): boolean {
  if (key === "data" && type === "text") return false;
  return SPELLED.has(key) || SKIPPED.has(key);
}

function mapObject(value: Json, map: (key: string, value: unknown) => unknown): Json {
  let isSame = true;
  const entries = Object.entries(value).map(([key, each]) => {
    const next = map(key, each);
    isSame &&= next === each;
    return [key, next] as const;
  });
  return isSame ? value : Object.fromEntries(entries);
}

/** A copy in which nothing spells texts token by token. The same value if nothing does. */
export function withoutSpelling(value: Json): Json {
  return mapObject(value, (key, each) => unspelled(key, each, 0));
}

function unspelled(key: string, value: unknown, depth: number): unknown {
  if (SPELLED.has(key)) return null;
  if (typeof value !== "object" || value === null || depth > MAX_DEPTH) return value;
  if (!Array.isArray(value)) return mapObject(value as Json, (name, each) => unspelled(name, each, depth + 1));
  const copy = value.map((each) => unspelled("", each, depth + 1));
  return copy.every((each, index) => each === value[index]) ? value : copy;
}
