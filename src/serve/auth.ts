/** API keys: any of the configured ones, in either vendor's header, compared in constant time. */
import { createHash, timingSafeEqual } from "node:crypto";
import { MillraceError } from "../core/errors.js";

function digest(key: string): Buffer {
  return createHash("sha256").update(key).digest();
}

/** Returns a check of the Authorization and x-api-key headers that throws invalid_api_key unless one of them has a key. */
export function createKeyCheck(
  apiKeys: readonly string[],
): (authorization: string | undefined, apiKey: string | undefined) => void {
  const digests = apiKeys.map(digest);
  return (authorization, apiKey) => {
    if (digests.length === 0) return;
    const bearer = /^Bearer +(\S+)\s*$/i.exec(authorization ?? "")?.[1];
    const given = [bearer, apiKey?.trim()].filter((key) => key !== undefined && key !== "");
    let isKnown = false;
    for (const key of given) {
      const actual = digest(key ?? "");
      // Every key is compared, so that the time does not tell which one matched.
      for (const expected of digests) isKnown = timingSafeEqual(expected, actual) || isKnown;
    }
    if (isKnown) return;
    throw new MillraceError(
      "invalid_api_key",
      `expected a valid API key, got ${given.length === 0 ? "none" : "an unknown one"}`,
      { hint: "send it as 'Authorization: Bearer KEY' or 'x-api-key: KEY'" },
    );
  };
}
