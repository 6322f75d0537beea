/**
 * The administrator's key, which allows changes of a server. It comes in a header, which another site's page cannot
 * make
 * a browser send.
 */
import { createKeyCheck } from "./api-keys.js";
import { MillraceError } from "./errors.js";

/** The error for an administrator's path on a server without such a key. @param remedy how the server gets a key */
export const noAdminKey = (remedy: string): MillraceError =>
  new MillraceError("not_found", "expected a configured admin-key, got none", { hint: remedy });

/**
 * Throws not_found if the server has no such key, and invalid_api_key.
 *
 * @param remedy how the server gets a key
 */
export function assertAdminKey(
  key: string | undefined,
  authorization: string | undefined,
  apiKey: string | undefined,
  remedy: string,
): void {
  if (key === undefined) throw noAdminKey(remedy);
  createKeyCheck([key])(authorization, apiKey);
}
