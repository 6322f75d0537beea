/** Whom a request serves, as the client names that person: the operator's own user is the key. */
import type { IncomingHttpHeaders } from "node:http";
import type { RequestBody } from "./request.js";

const HEADER = "x-millrace-user";
/** UTF-16 units; the rest is cut. */
const MAX_LENGTH = 128;

/**
 * The end user named by the header, else by the APIs' own fields, of which OpenAI's newer one counts first.
 * @returns "" if the request names none
 */
export function endUserOf(headers: IncomingHttpHeaders, body: RequestBody): string {
  const { metadata } = body as { metadata?: { user_id?: unknown } | null };
  const names = [headers[HEADER], body.safety_identifier, body.user, metadata?.user_id];
  const found = names.find((name): name is string => typeof name === "string" && name !== "") ?? "";
  return found.slice(0, MAX_LENGTH);
}
