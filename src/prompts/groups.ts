/** Groups requests by application, and finds their common text. */
import type { PromptRequest } from "./requests.js";
import { withoutVolatile } from "./volatile.js";

export const isSystem = (role: string): boolean => role === "system" || role === "developer";

/** Groups requests by application: the same tools, and the same system prompt except for its volatile parts. */
export function groupsOf(requests: readonly PromptRequest[]): readonly (readonly PromptRequest[])[] {
  const groups = new Map<string, PromptRequest[]>();
  for (const request of requests) {
    const system = request.messages.find(({ role }) => isSystem(role))?.content ?? "";
    const tools = request.tools.map(({ name }) => name).sort();
    const key = JSON.stringify([withoutVolatile(system), tools]);
    const group = groups.get(key) ?? [];
    group.push(request);
    groups.set(key, group);
  }
  return [...groups.values()];
}

/** Number of messages with which all requests of a group begin. */
export function sharedMessages(group: readonly PromptRequest[]): number {
  const [first, ...others] = group;
  // Volatile parts of the system prompt may differ; the last message is the question.
  const sameAt = (index: number): boolean => {
    const message = first!.messages[index]!;
    return others.every(({ messages }) => {
      const other = messages[index];
      return other?.role === message.role && (isSystem(message.role) || other.content === message.content);
    });
  };
  const most = group.reduce((least, { messages }) => Math.min(least, messages.length - 1), Number.POSITIVE_INFINITY);
  let count = 0;
  while (count < most && sameAt(count)) count++;
  return count;
}
