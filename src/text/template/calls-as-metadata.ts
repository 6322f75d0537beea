/**
 * Rewrites conversations for GLM-4-0414's templates, which have no calls: each call becomes an assistant message with
 * the function's name as its metadata, and results get another role name.
 */

interface Turn {
  readonly role: string;
  readonly content?: unknown;
  readonly tool_calls?: readonly unknown[];
}

export const takesMetadata = (templateSource: string): boolean =>
  templateSource.includes("<|observation|>") && /\bmetadata\b/.test(templateSource);

export function callsAsMetadata<Message extends Turn>(messages: readonly Message[]): readonly Message[] {
  return messages.flatMap((message) => {
    const { tool_calls: calls = [], ...rest } = message;
    if (message.role === "tool") return { ...message, role: "observation" };
    if (calls.length === 0) return message;
    const called = (
      calls as readonly { readonly function: { readonly name: string; readonly arguments: string } }[]
    ).map((call) => ({ ...rest, metadata: call.function.name, content: call.function.arguments || "{}" }));
    return [...((message.content ?? "") === "" ? [] : [rest]), ...called] as unknown as Message[];
  });
}
