/**
 * The administrator's key, which allows changes of a server. It comes in a header, which no other site's page can make
 * a browser send.
 */
import { createKeyCheck } from "./api-keys.js";
import { MillraceError } from "./errors.js";

/** A server without an administrator has no paths for one. @param remedy how it gets a key */
export const noAdminKey = (remedy: string): MillraceError =>
  new MillraceError("not_found", "expected a configured admin-key, got none", { hint: remedy });

/**
 * Throws not_found where there is no such key, and invalid_api_key.
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
