/** The texts in requests and answers of all APIs: what people and models wrote, not ids, types, images or settings. */

import { MillraceError } from "../../core/errors.js";
import { isTooDeep, type JsonObject } from "../../core/json-body.js";

/** Fields at the top of a request, in any API, below which texts are. */
const TEXT_FIELDS: ReadonlySet<string> = new Set(
  `messages prompt suffix input instructions system query queries text_1 text_2 content prediction tools functions response_format text output_config format
  stop stop_sequences chat_template grammar regex ebnf reasoning thinking`.split(/\s+/),
);

/**
 * Settings and labels at the top of a request, which no model reads. All other fields are searched, unknown ones with
 * all their keys.
 */
const REQUEST_SETTINGS: ReadonlySet<string> = new Set([
  "user",
  "request_id",
  "chat_id",
  "session_id",
  "guided_decoding_backend",
  "safety_identifier",
  "prompt_cache_key",
  "cache_salt",
  "service_tier",
  "previous_response_id",
  "conversation",
  "tool_choice",
  "function_call",
  "reasoning_effort",
  "stream_options",
  "include",
  "truncation",
  "encoding_format",
  "keep_alive",
  "audio",
]);

/** Roles that APIs have. Any other role is a text, which a chat template may print. */
const ROLES: ReadonlySet<string> = new Set(["system", "developer", "user", "assistant", "model", "tool", "function"]);

/** Fields below which keys are texts too, since the API does not define them. */
const FREE: ReadonlySet<string> = new Set([
  "parameters",
  "input_schema",
  "schema",
  "arguments",
  "json_schema",
  "value",
]);

/** Values that are not text, and must stay as they are. */
const SKIPPED: ReadonlySet<string> = new Set([
  "role",
  "type",
  "id",
  "call_id",
  "tool_call_id",
  "tool_use_id",
  "item_id",
  "status",
  "finish_reason",
  "stop_reason",
  "model",
  "object",
  "image_url",
  "input_audio",
  "data",
  "file_data",
  "signature",
  "encrypted_content",
  "cache_control",
  "detail",
  "usage",
  "metadata",
]);

/**
 * Addresses of images and files, and the names of spoken answers. Those in an answer are shown to its reader, and its
 * audio has a transcript.
 */
const SKIPPED_IN_REQUESTS: ReadonlySet<string> = new Set(["url", "audio"]);

/** An answer repeats its request's settings. */
const SKIPPED_IN_ANSWERS: ReadonlySet<string> = new Set([
  "tools",
  "tool_choice",
  "format",
  "instructions",
  "user",
  "safety_identifier",
  "prompt_cache_key",
  "service_tier",
  "system_fingerprint",
]);

/** Members with a text's tokens, which spell it once more. */
const SPELLED: ReadonlySet<string> = new Set(["logprobs", "prompt_logprobs", "token_ids", "prompt_token_ids"]);

const MAX_DEPTH = 64;

/**
 * Gets each text in turn, and, for a part of a list, the list whose other texts follow it without a gap.
 * @returns the text to put in its place
 */
type VisitText = (text: string, list?: object) => string;

/** @returns the same object if no text has changed */
export function mapRequestTexts(body: JsonObject, visit: VisitText): JsonObject {
  const isSearched = (name: string): boolean => !(REQUEST_SETTINGS.has(name) || isSkipped(name, undefined));
  return new Walk(visit, SKIPPED_IN_REQUESTS).fields(body, isSearched, (name) => !TEXT_FIELDS.has(name));
}

/** @returns the same object if no text has changed */
export function mapAnswerTexts(answer: JsonObject, visit: VisitText): JsonObject {
  const isSearched = (name: string): boolean => !(SKIPPED_IN_ANSWERS.has(name) || isSkipped(name, undefined));
  return new Walk(visit, SKIPPED_IN_ANSWERS).fields(answer, isSearched);
}

/** All texts, in the order of their visits. */
export class FoundTexts {
  readonly texts: string[] = [];
  /** Indices of texts that are read as one. */
  readonly groups: number[][] = [];
  readonly #lists = new Map<object, number[]>();

  /** For `mapRequestTexts` and `mapAnswerTexts`. */
  readonly visit: VisitText = (text, list) => {
    const index = this.texts.push(text) - 1;
    const known = list === undefined ? undefined : this.#lists.get(list);
    if (known !== undefined) {
      known.push(index);
      return text;
    }
    const group = [index];
    this.groups.push(group);
    if (list !== undefined) this.#lists.set(list, group);
    return text;
  };
}

/** Whether a prompt, or part of it, is given as token ids, which cannot be read. */
export function hasTokenIds({ prompt, input }: JsonObject): boolean {
  return isTokenIds(prompt) || isTokenIds(input);
}

/** Large lists of ids have been made Int32Arrays. */
function isTokenIds(value: unknown): boolean {
  if (value instanceof Int32Array) return true;
  const isList = (each: unknown) => each instanceof Int32Array || (Array.isArray(each) && typeof each[0] === "number");
  return Array.isArray(value) && value.some((each) => typeof each === "number" || isList(each));
}

class Walk {
  constructor(
    private readonly visit: VisitText,
    private readonly skipped: ReadonlySet<string>,
  ) {}

  /** @param isFree whether the keys below a field are not the API's */
  fields(
    value: JsonObject,
    isSearched: (name: string) => boolean,
    isFree = (_name: string): boolean => false,
  ): JsonObject {
    return mapObject(value, (key, each) => (isSearched(key) ? this.#member(value, key, each, 0, isFree(key)) : each));
  }

  /** @param isFree the object's keys are not the API's, as in the input of a tool */
  #texts(value: unknown, depth: number, isFree: boolean, list?: object): unknown {
    if (typeof value === "string") return value === "" ? value : this.visit(value, list);
    if (typeof value !== "object" || value === null || ArrayBuffer.isView(value)) return value;
    if (depth > MAX_DEPTH) {
      throw new MillraceError("guardrail_failed", `expected texts at most ${MAX_DEPTH} levels deep, got deeper ones`);
    }
    if (Array.isArray(value)) {
      let isSame = true;
      const copy = value.map((each) => {
        const next = isTextPart(each)
          ? this.#object(each, depth + 1, isFree, value)
          : this.#texts(each, depth + 1, isFree);
        isSame &&= next === each;
        return next;
      });
      return isSame ? value : copy;
    }
    return this.#object(value as JsonObject, depth, isFree);
  }

  /** @param list that the object is a part of */
  #object(value: JsonObject, depth: number, isFree: boolean, list?: object): JsonObject {
    const { type } = value;
    const map = (key: string, each: unknown): unknown => {
      const isOtherRole = key === "role" && typeof each === "string" && !ROLES.has(each);
      if (!isFree && !isOtherRole && (isSkipped(key, type) || this.skipped.has(key))) return each;
      return this.#member(value, key, each, depth + 1, isFree, key === "text" ? list : undefined);
    };
    return mapObject(value, map, isFree ? (key) => (key === "" ? key : this.visit(key)) : undefined);
  }

  #member({ type }: JsonObject, key: string, value: unknown, depth: number, isFree: boolean, list?: object): unknown {
    if (isFree) return this.#texts(value, depth, true);
    if (key === "arguments" && typeof value === "string") return this.#arguments(value, depth);
    const isInput = key === "input" && typeof type === "string" && type.endsWith("tool_use");
    return this.#texts(value, depth, FREE.has(key) || isInput, list);
  }

  /** Arguments of a tool call are JSON, whose escapes may hide what the tool reads. */
  #arguments(json: string, depth: number): unknown {
    const raw = this.#texts(json, depth, true);
    const value = json.includes("\\") ? parsed(json) : undefined;
    const decoded = this.#texts(value, depth, true);
    return decoded === value ? raw : JSON.stringify(decoded);
  }
}

/** Texts of a message that a template writes one after another. */
function isTextPart(value: unknown): value is JsonObject {
  const { type, text } = (value ?? {}) as JsonObject;
  return typeof text === "string" && typeof type === "string" && type.endsWith("text");
}

function parsed(json: string): unknown {
  try {
    return isTooDeep(Buffer.from(json)) ? undefined : JSON.parse(json);
  } catch {
    return undefined;
  }
}

/**
 * @param type of the object that has the key: data of a source of type text is text, that of others an image or a file
 */
function isSkipped(key: string, type: unknown): boolean {
  if (key === "data" && type === "text") return false;
  return SPELLED.has(key) || SKIPPED.has(key);
}

function mapObject(
  value: JsonObject,
  map: (key: string, value: unknown) => unknown,
  mapKey = (key: string) => key,
): JsonObject {
  let isSame = true;
  const entries = Object.entries(value).map(([key, each]) => {
    const name = mapKey(key);
    const next = map(key, each);
    isSame &&= next === each && name === key;
    return [name, next] as const;
  });
  return isSame ? value : Object.fromEntries(entries);
}

/** A copy without members that spell texts token by token. The same value if there are none. */
export function withoutSpelling(value: JsonObject): JsonObject {
  return mapObject(value, (key, each) => unspelled(key, each, 0));
}

function unspelled(key: string, value: unknown, depth: number): unknown {
  if (SPELLED.has(key)) return null;
  if (typeof value !== "object" || value === null || depth > MAX_DEPTH) return value;
  if (!Array.isArray(value)) return mapObject(value as JsonObject, (name, each) => unspelled(name, each, depth + 1));
  const copy = value.map((each) => unspelled("", each, depth + 1));
  return copy.every((each, index) => each === value[index]) ? value : copy;
}
