/** A provider's error of any form, in the client's dialect. Quoted keys are removed. */

import type { IncomingHttpHeaders } from "node:http";
import { isPlainObject } from "../../core/is-plain-object.js";
import { objectOf } from "../../core/json-body.js";
import type { Redactor } from "./wire/redact.js";

interface ProviderError {
  readonly message: string;
  /** The provider's own word for the kind of error. */
  readonly code: string | undefined;
  /** The kind of error in the provider's dialect, for a client that speaks it too. */
  readonly type?: string;
  readonly param?: string;
}

const MAX_MESSAGE = 1000;
const MAX_WORD = 80;

/** Statuses that blame the gateway's key, about which the client can do nothing. */
const OF_THE_KEY: readonly number[] = [401, 402, 403, 407];
const OVERLOADED = 529;

export function readProviderError(
  provider: string,
  status: number,
  headers: IncomingHttpHeaders,
  body: Buffer,
  redactor: Redactor,
): ProviderError {
  if (OF_THE_KEY.includes(status)) {
    return {
      message: `expected an answer from ${provider}, got status ${status}: it does not accept the gateway's key`,
      code: "upstream_failed",
    };
  }
  const { message, code, ...own } = partsOf(body, headers);
  const shown =
    message === undefined ? `expected an answer from ${provider}, got status ${status}` : `${provider}: ${message}`;
  const words = Object.entries(own).map(([name, word]) => [name, redactor.text(word.slice(0, MAX_WORD))]);
  return {
    message: redactor.text(shown.slice(0, MAX_MESSAGE)),
    code: code === undefined ? undefined : redactor.text(code.slice(0, MAX_WORD)),
    ...Object.fromEntries(words),
  };
}

type Parts = Readonly<Partial<Record<"message" | "code" | "type" | "param", string>>>;

function partsOf(body: Buffer, headers: IncomingHttpHeaders): Parts {
  let value: unknown;
  try {
    value = objectOf(`{"body":${body.toString("utf8")}}`, body.length).body;
  } catch {
    // The page of a proxy in between tells a client nothing.
    return {};
  }
  // Google's streams hold errors in a list.
  const outer = Array.isArray(value) ? value[0] : value;
  if (!isPlainObject(outer)) return {};
  const error = isPlainObject(outer.error) ? outer.error : outer;
  const message = [error.message, outer.message, outer.Message, outer.error, outer.detail].find(
    (each) => typeof each === "string",
  );
  const amazon = headers["x-amzn-errortype"];
  const named = [error.code, error.type, error.status, typeof amazon === "string" ? amazon.split(":")[0] : undefined];
  const code = named.find((each) => typeof each === "string" && each !== "error");
  return {
    ...(typeof message === "string" ? { message } : {}),
    ...(typeof code === "string" ? { code } : {}),
    ...(typeof error.type === "string" ? { type: error.type } : {}),
    ...(typeof error.param === "string" ? { param: error.param } : {}),
  };
}

export type ClientDialect = "openai" | "anthropic";

/** The status that a client gets for a provider's. */
export function clientStatus(status: number, dialect: ClientDialect): number {
  if (OF_THE_KEY.includes(status) || status < 400 || status > 599) return 502;
  return status === OVERLOADED && dialect === "openai" ? 503 : status;
}

const OPENAI_TYPES: ReadonlyMap<number, string> = new Map([[429, "rate_limit_error"]]);
const ANTHROPIC_TYPES: ReadonlyMap<number, string> = new Map([
  [404, "not_found_error"],
  [413, "request_too_large"],
  [429, "rate_limit_error"],
  [503, "overloaded_error"],
  [504, "timeout_error"],
  [OVERLOADED, "overloaded_error"],
]);

/** @param status that the client gets */
export function clientErrorBody(
  { message, code, type: own, param }: ProviderError,
  status: number,
  dialect: ClientDialect,
): object {
  const isTheirs = status < 500;
  if (dialect === "anthropic") {
    const type = own ?? ANTHROPIC_TYPES.get(status) ?? (isTheirs ? "invalid_request_error" : "api_error");
    return {
      type: "error",
      error: { type, message, ...(code === undefined || code === own ? {} : { details: { error_code: code } }) },
    };
  }
  const type = own ?? OPENAI_TYPES.get(status) ?? (isTheirs ? "invalid_request_error" : "server_error");
  return { error: { message, type, param: param ?? null, code: code ?? "upstream_failed" } };
}
