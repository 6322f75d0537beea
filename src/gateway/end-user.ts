/** The end user of a request, as the client names that person: the operator's own user is the key. */
import type { IncomingHttpHeaders } from "node:http";
import type { RequestBody } from "./request.js";

const HEADER = "x-millrace-user";
/** UTF-16 units; longer names are cut. */
const MAX_LENGTH = 128;

/**
 * The end user named by the header, else by the APIs' own fields, OpenAI's newer one first.
 * @returns "" if the request names none
 */
export function endUserOf(headers: IncomingHttpHeaders, body: RequestBody): string {
  const { metadata } = body as { metadata?: { user_id?: unknown } | null };
  const names = [headers[HEADER], body.safety_identifier, body.user, metadata?.user_id];
  const found = names.find((name): name is string => typeof name === "string" && name !== "") ?? "";
  return found.slice(0, MAX_LENGTH);
}
