/**
 * One line of a batch's results, in the form of the API that made the batch. The body of an answer is copied unchanged.
 */
import { anthropicErrorBody, errorBody } from "../../core/error-body.js";
import type { MillraceError } from "../../core/errors.js";
import type { BatchKind, BatchUsage } from "./record.js";
import type { Outcome } from "./result-log.js";

export interface LineId {
  readonly kind: BatchKind;
  /**
   * Id of the line's request, made of the batch's id and the number of the line, so that it is the same in every
   * attempt.
   */
  readonly requestId: string;
  readonly customId: string;
}

/** The result of a line. */
export interface LineResult {
  readonly outcome: Outcome;
  readonly usage: BatchUsage;
  readonly json: Buffer;
}

const NEWLINE = 0x0a;
/** Larger answers of engines are not parsed on the main thread. */
const MAX_PARSED_BYTES = 256 * 1024;

/** @returns the bytes as one line of JSON. An answer that is not JSON becomes a string */
function inlineJson(body: Buffer): Buffer {
  const isLarge = body.length > MAX_PARSED_BYTES;
  if (isLarge && looksLikeObject(body) && !body.includes(NEWLINE)) return body;
  try {
    const value: unknown = JSON.parse(body.toString("utf8"));
    return body.includes(NEWLINE) ? Buffer.from(JSON.stringify(value)) : body;
  } catch {
    return Buffer.from(JSON.stringify(body.toString("utf8")));
  }
}

function looksLikeObject(body: Buffer): boolean {
  const text = `${body.toString("latin1", 0, 1)}${body.toString("latin1", body.length - 1)}`;
  return text === "{}";
}

/** The line for an answer, whatever its status. */
export function answeredLine({ kind, requestId, customId }: LineId, status: number, body: Buffer): Buffer {
  const inline = inlineJson(body);
  const id = JSON.stringify(customId);
  if (kind === "openai") {
    const head = `{"id":"batch_req_${requestId}","custom_id":${id},"response":{"status_code":${status},"request_id":"${requestId}","body":`;
    return Buffer.concat([Buffer.from(head), inline, Buffer.from('},"error":null}')]);
  }
  const [type, field] = status < 400 ? ["succeeded", "message"] : ["errored", "error"];
  const head = `{"custom_id":${id},"result":{"type":"${type}","${field}":`;
  return Buffer.concat([Buffer.from(head), inline, Buffer.from("}}")]);
}

/** The line for a request that the gateway itself refused. */
export function refusedLine(line: LineId, error: MillraceError): Buffer {
  const dialect = line.kind === "openai" ? errorBody : anthropicErrorBody;
  return answeredLine(line, error.status, Buffer.from(JSON.stringify(dialect(error, line.requestId))));
}

const UNRUN: Readonly<Record<"expired" | "cancelled", { readonly code: string; readonly message: string }>> = {
  expired: {
    code: "batch_expired",
    message: "This request could not be executed before the completion window expired.",
  },
  cancelled: { code: "batch_cancelled", message: "This request was not executed: the batch was cancelled before." },
};

/** The line for a request that was never answered. */
export function unrunLine({ kind, requestId, customId }: LineId, outcome: "expired" | "cancelled"): Buffer {
  if (kind === "openai") {
    const line = { id: `batch_req_${requestId}`, custom_id: customId, response: null, error: UNRUN[outcome] };
    return Buffer.from(JSON.stringify(line));
  }
  const type = outcome === "cancelled" ? "canceled" : "expired";
  return Buffer.from(JSON.stringify({ custom_id: customId, result: { type } }));
}
