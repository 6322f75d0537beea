/** API keys: any of the configured ones, in either vendor's header, compared in constant time. */
import { createHash, timingSafeEqual } from "node:crypto";
import { MillraceError } from "./errors.js";

function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}

/** Internal name of a key's tenant: stable over restarts, and no help in guessing the key or the digest compared below. */
function tenantOf(key: string): string {
  return digest(`tenant of ${key}`).toString("hex", 0, 16);
}

/** The requests of a server without keys are all of one tenant. */
const NOBODY = "";

/** The tenant that the Authorization and x-api-key headers speak for. */
export type KeyCheck = (authorization: string | undefined, apiKey: string | undefined) => string;

/** The texts of keys in the headers, the one of Authorization first. */
export function givenKeys(authorization: string | undefined, apiKey: string | undefined): readonly string[] {
  const bearer = /^Bearer +(\S+)\s*$/i.exec(authorization ?? "")?.[1];
  return [bearer, apiKey?.trim()].filter((key) => key !== undefined && key !== "") as string[];
}

export function noValidKey(given: readonly string[]): MillraceError {
  return new MillraceError(
    "invalid_api_key",
    `expected a valid API key, got ${given.length === 0 ? "none" : "an unknown one"}`,
    { hint: "send it as 'Authorization: Bearer KEY' or 'x-api-key: KEY'" },
  );
}

/** Returns a check that throws invalid_api_key unless one of the headers has a key. With keys in both, Authorization counts. */
export function createKeyCheck(apiKeys: readonly string[]): KeyCheck {
  const known = apiKeys.map((key) => ({ digest: digest(key), tenant: tenantOf(key) }));
  return (authorization, apiKey) => {
    if (known.length === 0) return NOBODY;
    const given = givenKeys(authorization, apiKey);
    let matched = -1;
    for (const key of [...given].reverse()) {
      const actual = digest(key);
      // Every key is compared, and the match is taken over without a branch, so that the time does not tell which one it was.
      known.forEach((each, index) => {
        matched += Number(timingSafeEqual(each.digest, actual)) * (index - matched);
      });
    }
    const match = known[matched];
    if (match !== undefined) return match.tenant;
    throw noValidKey(given);
  };
}
