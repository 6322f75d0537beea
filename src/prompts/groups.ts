/** Groups requests of one application, and finds the text that they have in common. */
import type { PromptRequest } from "./requests.js";
import { withoutVolatile } from "./volatile.js";

export const isSystem = (role: string): boolean => role === "system" || role === "developer";

/** Requests of one application: the same tools, and the same system prompt but for what changes each time. */
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

/** Messages that all requests of a group begin with. */
export function sharedMessages(group: readonly PromptRequest[]): number {
  const [first, ...others] = group;
  // The system prompt may differ in volatile parts; the last message is the question.
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
