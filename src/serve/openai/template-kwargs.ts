/** The further arguments that a chat template may get from a request, or from the server for requests without them. */

export const MAX_KWARGS_DEPTH = 16;
/** Names of the server's own arguments. */
export const RESERVED_KWARGS = ["messages", "tools", "add_generation_prompt", "chat_template"] as const;

export function isShallow(value: unknown, depth = MAX_KWARGS_DEPTH): boolean {
  if (typeof value !== "object" || value === null) return true;
  return depth > 0 && Object.values(value).every((inner) => isShallow(inner, depth - 1));
}
