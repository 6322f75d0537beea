/**
 * Reads one line of a batch's input: its custom_id, and the body to send. The endpoint checks the body's fields when
 * the line runs.
 */
import { readBody } from "../../core/body-reader.js";
import { type MillraceError, toMillraceError } from "../../core/errors.js";
import { routeOf } from "../api/routes.js";
import { membersOf, parsed } from "../json-members.js";
import type { Caller, RequestBody } from "../request.js";
import { MAX_CUSTOM_ID_CHARS } from "./limits.js";
import type { BatchKind } from "./record.js";

/** Faults of lines, as `errors.data[].code` of a batch. Those that OpenAI and Azure have are named like theirs. */
export type LineFaultCode =
  | "invalid_json_line"
  | "line_too_long"
  | "missing_custom_id"
  | "invalid_custom_id"
  | "duplicate_custom_id"
  | "invalid_method"
  | "url_mismatch"
  | "missing_body"
  | "invalid_body"
  | "stream_unsupported"
  | "model_not_found"
  | "model_not_allowed"
  | "invalid_api_key"
  | "too_many_tasks"
  | "too_many_inputs"
  | "empty_file"
  | "file_too_large"
  | "file_unreadable";

/** Why a line cannot be run. */
export class LineError extends Error {
  constructor(
    readonly code: LineFaultCode,
    message: string,
    readonly param: string | null = null,
  ) {
    super(message);
  }
}

/**
 * @returns the model that a body's `model` stands for. Throws model_not_found, and model_not_allowed where the caller
 * may not use it
 */
export type LineModelOf = (body: RequestBody, caller: Caller) => string;

export interface LineTerms {
  readonly kind: BatchKind;
  /** The path of every line. */
  readonly endpoint: string;
  /** The caller for whom the line is sent. */
  readonly caller: Caller;
  readonly modelOf: LineModelOf;
}

export interface LineRequest {
  readonly customId: string;
  readonly body: Readonly<Record<string, unknown>>;
  readonly bytes: Buffer;
  /** The model's name as clients send it. */
  readonly model: string;
}

/** Largest value of a line beside its body: a custom_id of the largest size, every character escaped. */
const MAX_SMALL_BYTES = 8 * 1024;

/** Throws LineError. @param bytes a line, or an element of Anthropic's `requests` */
export async function readLine(bytes: Buffer, terms: LineTerms): Promise<LineRequest> {
  const { customId, at } = readEnvelope(bytes, terms);
  const { endpoint, caller } = terms;
  // A copy: the thread that reads large bodies takes over the memory.
  const sent = Buffer.from(bytes.subarray(at.start, at.end));
  const read = await readBody(sent, {
    idField: routeOf(endpoint)?.idField,
    tenant: caller.tenant,
    onWait: () => {},
  }).catch((thrown: unknown) => {
    throw ofBody(toMillraceError(thrown));
  });
  const field = bodyField(terms.kind);
  if (read.body.stream !== undefined && read.body.stream !== false && read.body.stream !== null) {
    throw new LineError("stream_unsupported", "expected no stream in a batch, got one", `${field}.stream`);
  }
  if (terms.kind === "anthropic" && read.body.max_tokens === 0) {
    throw new LineError("invalid_body", "expected max_tokens of at least 1 in a batch, got 0", `${field}.max_tokens`);
  }
  try {
    return { customId, ...read, model: terms.modelOf(read.body, caller) };
  } catch (thrown) {
    const error = toMillraceError(thrown);
    const code = error.code === "model_not_allowed" ? error.code : "model_not_found";
    throw new LineError(code, error.message, `${field}.model`);
  }
}

/** The custom_id alone, of a line that has been checked; undefined if it has none. */
export function customIdOf(bytes: Buffer): string | undefined {
  return textIn(bytes, "custom_id");
}

export function urlOf(bytes: Buffer): string | undefined {
  return textIn(bytes, "url");
}

function textIn(bytes: Buffer, name: string): string | undefined {
  try {
    const at = membersOf(bytes).get(name);
    const text = at === undefined ? undefined : parsed(bytes, at);
    return typeof text === "string" ? text : undefined;
  } catch {
    return undefined;
  }
}

const bodyField = (kind: BatchKind): string => (kind === "openai" ? "body" : "params");

function readEnvelope(bytes: Buffer, { kind, endpoint }: LineTerms) {
  const members = readMembers(bytes);
  const small = (name: string): unknown => {
    const at = members.get(name);
    if (at === undefined) return undefined;
    if (at.end - at.start > MAX_SMALL_BYTES) return null;
    try {
      return parsed(bytes, at);
    } catch (thrown) {
      throw new LineError("invalid_json_line", toMillraceError(thrown).message, name);
    }
  };
  const customId = checkedId(small("custom_id"), kind);
  if (kind === "openai") {
    const method = small("method");
    if (method !== "POST") {
      throw new LineError("invalid_method", `expected the method POST, got ${shown(method)}`, "method");
    }
    const url = small("url");
    if (url !== endpoint) {
      throw new LineError("url_mismatch", `expected the batch's endpoint ${endpoint}, got ${shown(url)}`, "url");
    }
  }
  const field = bodyField(kind);
  const at = members.get(field);
  if (at === undefined) throw new LineError("missing_body", `expected a ${field} in each line, got none`, field);
  return { customId, at };
}

function readMembers(bytes: Buffer) {
  try {
    return membersOf(bytes);
  } catch (thrown) {
    throw new LineError("invalid_json_line", `${toMillraceError(thrown).message}`);
  }
}

function checkedId(id: unknown, kind: BatchKind): string {
  if (id === undefined) throw new LineError("missing_custom_id", "expected a custom_id in each line, got none");
  const isWell =
    typeof id === "string" &&
    (kind === "anthropic" ? /^[a-zA-Z0-9_-]{1,64}$/.test(id) : id.length >= 1 && id.length <= MAX_CUSTOM_ID_CHARS);
  if (isWell) return id;
  const expected =
    kind === "anthropic" ? "1 to 64 of the characters a-z A-Z 0-9 _ -" : `1 to ${MAX_CUSTOM_ID_CHARS} characters`;
  throw new LineError("invalid_custom_id", `expected a custom_id of ${expected}, got ${shown(id)}`, "custom_id");
}

function ofBody(error: MillraceError): Error {
  // A busy or ended thread is no fault of the line.
  if (error.status >= 429) return error;
  return new LineError("invalid_body", error.message, null);
}

function shown(value: unknown): string {
  if (value === undefined) return "none";
  return typeof value === "string" ? JSON.stringify(value.slice(0, 80)) : "something else";
}
