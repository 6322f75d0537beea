/** Leaves out the oldest turns of a conversation that is too long, for the APIs whose clients expect that. */
import { MillraceError } from "../../core/errors.js";
import type { PromptContext } from "../http/context.js";
import type { PlainMessage } from "./chat-messages.js";
import type { ChatPlan } from "./chat-plan.js";

/** Tokens that are left for an answer if the request has no limit. */
export const ANSWER_ROOM = 256;

/**
 * Drops as few of the oldest turns as necessary. Instructions stay, and a turn is dropped as a whole, beginning with
 * its user message. Rejects with context_length_exceeded if the last turn alone is too long.
 *
 * @param room tokens that are left for the answer, but at most half of the context
 */
export async function planWithinContext(
  { engine: { info } }: PromptContext,
  messages: readonly PlainMessage[],
  plan: (kept: readonly PlainMessage[]) => Promise<ChatPlan>,
  room = ANSWER_ROOM,
): Promise<{ readonly plan: ChatPlan; readonly isCut: boolean }> {
  const mostTokens = info.maxModelLen - Math.min(room, Math.floor(info.maxModelLen / 2));
  const isUsers = ({ role }: PlainMessage) => role === "user";
  const numKeptFirst = Math.max(
    messages.findIndex(({ role }) => role !== "system"),
    0,
  );
  const cuts = messages.flatMap((message, index) => (index > numKeptFirst && isUsers(message) ? [index] : []));
  const cutAt = (index: number) => plan([...messages.slice(0, numKeptFirst), ...messages.slice(index)]);
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
  let [low, high] = [0, cuts.length];
  let best: ChatPlan | undefined;
  while (low < high) {
    const middle = (low + high) >> 1;
    const made = await attempt(() => cutAt(cuts[middle]!));
    if (made === undefined) low = middle + 1;
    else [best, high] = [made, middle];
  }
  // If even the last turn alone is too long, planning it reports the usual error.
  const last = cuts.at(-1);
  return { plan: best ?? (await (last === undefined ? plan(messages) : cutAt(last))), isCut: last !== undefined };
}
