/** Reads a request's directives to caches from `cache-control` (RFC 9111) and `x-millrace-cache-tag`. */
import type { IncomingHttpHeaders } from "node:http";
import { MillraceError } from "../../core/errors.js";

const TAG_HEADER = "x-millrace-cache-tag";
const MAX_TAGS = 8;
const TAG = /^[\w.:/@+-]{1,128}$/;

export interface Directives {
  /** No kept answer is used; the new one is kept. */
  readonly noCache: boolean;
  /** No answer is looked up or kept. */
  readonly noStore: boolean;
  /** Only a kept answer may be used. */
  readonly onlyIfCached: boolean;
  /** Greatest age of a kept answer in seconds. */
  readonly maxAgeSeconds: number | undefined;
}

const NONE: Directives = { noCache: false, noStore: false, onlyIfCached: false, maxAgeSeconds: undefined };

/** RFC 9111, 1.2.2: a larger number of seconds counts as this one. */
const MAX_SECONDS = 2 ** 31;

/** Unknown directives are ignored, as RFC 9111 wants; a `max-age` that is not a number counts as 0. */
export function directivesOf({ "cache-control": header, pragma }: IncomingHttpHeaders): Directives {
  if (header === undefined) return pragma === "no-cache" ? { ...NONE, noCache: true } : NONE;
  const words = header.toLowerCase().split(",", 32);
  const values = new Map(words.map((word) => splitWord(word.trim())));
  const maxAge = values.get("max-age");
  const seconds = maxAge !== undefined && /^"?\d+"?$/.test(maxAge) ? Number(maxAge.replaceAll('"', "")) : 0;
  return {
    noCache: values.has("no-cache"),
    noStore: values.has("no-store"),
    onlyIfCached: values.has("only-if-cached"),
    maxAgeSeconds: maxAge === undefined ? undefined : Math.min(seconds, MAX_SECONDS),
  };
}

function splitWord(word: string): [string, string] {
  const equals = word.indexOf("=");
  return equals < 0 ? [word, ""] : [word.slice(0, equals).trim(), word.slice(equals + 1).trim()];
}

/** Names under which an answer can be purged, such as the documents it is about. */
export function tagsOf(headers: IncomingHttpHeaders): readonly string[] {
  const header = headers[TAG_HEADER];
  if (header === undefined) return [];
  const tags = (typeof header === "string" ? header : header.join(","))
    .split(",", MAX_TAGS + 1)
    .map((tag) => tag.trim());
  if (tags.length <= MAX_TAGS && tags.every((tag) => TAG.test(tag))) return [...new Set(tags)];
  throw new MillraceError(
    "invalid_request",
    `expected ${TAG_HEADER} to hold at most ${MAX_TAGS} tags of 1 to 128 letters, digits and . : / @ + - _, got something else`,
  );
}
