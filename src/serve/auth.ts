/** API keys: any of the configured ones, compared in constant time. */
import { createHash, timingSafeEqual } from "node:crypto";
import { MillraceError } from "../core/errors.js";

function digest(key: string): Buffer {
  return createHash("sha256").update(key).digest();
}

/** Returns a check of an Authorization header that throws invalid_api_key. */
export function createKeyCheck(apiKeys: readonly string[]): (authorization: string | undefined) => void {
  const digests = apiKeys.map(digest);
  return (authorization) => {
    if (digests.length === 0) return;
    const key = /^Bearer +(\S+)\s*$/i.exec(authorization ?? "")?.[1];
    const given = digest(key ?? "");
    let isKnown = false;
    // Every key is compared, so that the time does not tell which one matched.
    for (const expected of digests) isKnown = timingSafeEqual(expected, given) || isKnown;
    if (key !== undefined && isKnown) return;
    throw new MillraceError(
      "invalid_api_key",
      `expected a valid API key, got ${key === undefined ? "none" : "an unknown one"}`,
      { hint: "send it as 'Authorization: Bearer KEY'" },
    );
  };
}
