/** API keys: any of the configured ones, in either vendor's header, compared in constant time. */
import { createHash, timingSafeEqual } from "node:crypto";
import { MillraceError } from "./errors.js";

function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}

/**
 * Internal name of a key's tenant: stable over restarts, and useless for guessing the key or the digest compared below.
 */
function tenantOf(key: string): string {
  return digest(`tenant of ${key}`).toString("hex", 0, 16);
}

/** All requests of a server without keys belong to one tenant. */
const NOBODY = "";

/** The tenant of the Authorization and x-api-key headers. */
export type KeyCheck = (authorization: string | undefined, apiKey: string | undefined) => string;

/** The keys in the headers, that of Authorization first. */
export function givenKeys(authorization: string | undefined, apiKey: string | undefined): readonly string[] {
  const bearer = /^Bearer +(\S+)\s*$/i.exec(authorization ?? "")?.[1];
  return [bearer, apiKey?.trim()].filter((key) => key !== undefined && key !== "") as string[];
}

/** @param expected the accepted kind of key, in words */
export function noValidKey(given: readonly string[], expected = "a valid API key"): MillraceError {
  return new MillraceError(
    "invalid_api_key",
    `expected ${expected}, got ${given.length === 0 ? "none" : "an unknown one"}`,
    { hint: "send it as 'Authorization: Bearer KEY' or 'x-api-key: KEY'" },
  );
}

/**
 * Returns a function that finds the headers' key among the known ones and returns its index. The function throws
 * invalid_api_key if no header has a known key. If both headers have one, Authorization counts.
 * @param expected the accepted kind of key, in words
 */
export function createKeySearch(
  apiKeys: readonly string[],
  expected?: string,
): (authorization: string | undefined, apiKey: string | undefined) => number {
  const digests = apiKeys.map(digest);
  return (authorization, apiKey) => {
    const given = givenKeys(authorization, apiKey);
    let matched = -1;
    for (const key of [...given].reverse()) {
      const actual = digest(key);
      // Every key is compared, and a match is recorded without a branch, so that the time does not reveal which key
      // matched.
      digests.forEach((each, index) => {
        matched += Number(timingSafeEqual(each, actual)) * (index - matched);
      });
    }
    if (matched >= 0) return matched;
    throw noValidKey(given, expected);
  };
}

/** Returns a check that throws invalid_api_key unless one of the headers has a key. */
export function createKeyCheck(apiKeys: readonly string[]): KeyCheck {
  const tenants = apiKeys.map(tenantOf);
  const search = createKeySearch(apiKeys);
  return (authorization, apiKey) => (tenants.length === 0 ? NOBODY : tenants[search(authorization, apiKey)]!);
}
