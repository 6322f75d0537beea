/** Drops the oldest turns of a conversation that is too long, for APIs whose clients expect that. */
import { MillraceError } from "../../core/errors.js";
import type { PromptContext } from "../http/context.js";
import type { PlainMessage } from "./chat-messages.js";
import type { ChatPlan } from "./chat-plan.js";

/** Tokens to leave for an answer if the request has no limit. */
export const ANSWER_ROOM = 256;

/**
 * Drops as few of the oldest turns as necessary, each complete from its user message on; then the oldest steps of the
 * last
 * turn: an answer with calls and their results. Instructions, the last user message and the last step stay. Rejects
 * with
 * context_length_exceeded if these are too long.
 *
 * @param room tokens to leave for the answer, but at most half of the context
 */
export async function planWithinContext(
  { engine: { info } }: PromptContext,
  messages: readonly PlainMessage[],
  plan: (kept: readonly PlainMessage[]) => Promise<ChatPlan>,
  room = ANSWER_ROOM,
): Promise<{ readonly plan: ChatPlan; readonly isCut: boolean }> {
  const mostTokens = info.maxModelLen - Math.min(room, Math.floor(info.maxModelLen / 2));
  const shorter = shorterThan(messages);
  const attempt = async (make: () => Promise<ChatPlan>): Promise<ChatPlan | undefined> => {
    try {
      const made = await make();
      return made.promptIds.length <= mostTokens ? made : undefined;
    } catch (thrown) {
      if (thrown instanceof MillraceError && thrown.code === "context_length_exceeded") return undefined;
      throw thrown;
    }
  };
  const whole = await attempt(() => plan(messages));
  if (whole !== undefined) return { plan: whole, isCut: false };
  let [low, high] = [0, shorter.length];
  let best: ChatPlan | undefined;
  while (low < high) {
    const middle = (low + high) >> 1;
    const made = await attempt(() => plan(shorter[middle]!()));
    if (made === undefined) low = middle + 1;
    else [best, high] = [made, middle];
  }
  // If even the shortest is too long, planning it throws the usual error.
  return { plan: best ?? (await plan(shorter.at(-1)?.() ?? messages)), isCut: shorter.length > 0 };
}

/** Functions that return the conversation with less and less of its beginning. */
function shorterThan(messages: readonly PlainMessage[]): readonly (() => readonly PlainMessage[])[] {
  const placesOf = (role: string) => messages.flatMap((message, index) => (message.role === role ? [index] : []));
  const numFirst = Math.max(
    messages.findIndex(({ role }) => role !== "system"),
    0,
  );
  const first = messages.slice(0, numFirst);
  const users = placesOf("user").filter((index) => index >= numFirst);
  const lastUser = users.at(-1) ?? messages.length;
  const [, ...steps] = placesOf("assistant").filter((index) => index > lastUser);
  return [
    ...users.filter((index) => index > numFirst).map((index) => () => [...first, ...messages.slice(index)]),
    ...steps.map((index) => () => [...first, messages[lastUser]!, ...messages.slice(index)]),
  ];
}
