/** The session that groups the requests of one conversation or user, by the client's name for it. */
import type { IncomingHttpHeaders } from "node:http";
import type { RequestBody } from "./request.js";

/**
 * The session named by the header, else by the APIs' own fields: conversation, cache key or user.
 *
 * @param header name of the session's header, in lower case
 * @returns undefined if the request names none
 */
export function sessionOf(headers: IncomingHttpHeaders, header: string, body: RequestBody): string | undefined {
  const { conversation, metadata } = body as { conversation?: unknown; metadata?: { user_id?: unknown } | null };
  const conversationId = (conversation as { id?: unknown } | null | undefined)?.id ?? conversation;
  const names = [headers[header], conversationId, body.prompt_cache_key, body.user, metadata?.user_id];
  return names.find((name): name is string => typeof name === "string" && name !== "");
}
