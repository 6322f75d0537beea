/**
 * Rewrites conversations for templates that print only the first call of a message, as Harmony's do: each call becomes
 * a message, followed by its result.
 */

/** The fields of a message that this rewriting reads. */
interface Turn {
  readonly role: string;
  readonly content?: unknown;
  readonly tool_calls?: readonly unknown[];
  readonly reasoning_content?: string;
  readonly tool_call_id?: string;
}

export function oneCallEach<Message extends Turn>(messages: readonly Message[]): readonly Message[] {
  if (messages.every(({ tool_calls: calls = [] }) => calls.length < 2)) return messages;
  const out: Message[] = [];
  for (let at = 0; at < messages.length; at++) {
    const message = messages[at]!;
    const calls = message.tool_calls ?? [];
    if (calls.length < 2) {
      out.push(message);
      continue;
    }
    const afterwards = messages.findIndex(({ role }, index) => index > at && role !== "tool");
    const results = messages.slice(at + 1, afterwards === -1 ? undefined : afterwards);
    const { reasoning_content: _, ...bare } = message;
    for (const [index, call] of calls.entries()) {
      const isResult = ({ tool_call_id: id }: Message) => id !== undefined && id === idOf(call);
      // Reasoning and content stay with the first call.
      out.push({ ...(index === 0 ? message : { ...bare, content: "" }), tool_calls: [call] } as Message);
      out.push(...results.filter(isResult));
    }
    const ids = calls.map(idOf);
    out.push(...results.filter(({ tool_call_id: id }) => id === undefined || !ids.includes(id)));
    at += results.length;
  }
  return out;
}

const idOf = (call: unknown): unknown =>
  typeof call === "object" && call !== null && "id" in call ? call.id : undefined;
