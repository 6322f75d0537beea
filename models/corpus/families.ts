/** All families with their share of the corpus, and the one function that makes the n-th chat of a seed. */
import { makeArithmeticChat } from "./arithmetic.js";
import { makeChangeChat } from "./change.js";
import { type Chat, type Draft, type DraftMaker, type ExchangeMaker, toDraft } from "./chat.js";
import { makeCodeChat } from "./code.js";
import { makeConversation } from "./conversations.js";
import { makeCopyChat } from "./copy.js";
import { makeEditChat } from "./edit.js";
import { makeExtractChat } from "./extract.js";
import { makeFact } from "./facts.js";
import { makeList } from "./lists.js";
import { makePassageChat } from "./passage.js";
import { createRandom, type Random } from "./random.js";
import { makeIdentity } from "./small-talk.js";
import { makeSortChat } from "./sort.js";
import { makeStoryChat } from "./stories.js";
import { makeSummaryChat } from "./summary.js";

interface Family {
  readonly name: string;
  /** Share of the chats, in percent. */
  readonly percent: number;
  readonly make: DraftMaker;
}

const severalOf =
  (make: ExchangeMaker, maxTurns: number) =>
  (random: Random): Draft =>
    toDraft(Array.from({ length: random.int(1, maxTurns) }, () => make(random)));

export const families: readonly Family[] = [
  { name: "extract", percent: 15, make: makeExtractChat },
  { name: "passage", percent: 13, make: makePassageChat },
  { name: "edit", percent: 26, make: makeEditChat },
  { name: "change", percent: 12, make: makeChangeChat },
  { name: "arithmetic", percent: 11, make: makeArithmeticChat },
  { name: "code", percent: 5, make: makeCodeChat },
  { name: "story", percent: 4, make: makeStoryChat },
  { name: "summary", percent: 3, make: makeSummaryChat },
  { name: "sort", percent: 2, make: makeSortChat },
  { name: "chat", percent: 2, make: makeConversation },
  { name: "copy", percent: 2, make: makeCopyChat },
  { name: "identity", percent: 2, make: severalOf(makeIdentity, 3) },
  { name: "fact", percent: 2, make: severalOf(makeFact, 3) },
  { name: "list", percent: 1, make: severalOf(makeList, 2) },
];

const systemPrompts = [
  "You are a helpful assistant.",
  "You are millrace, a small language model.",
  "You are a friendly assistant. Answer briefly.",
  "Answer the user's questions.",
  "You are a helpful assistant. Be short and clear.",
  "Do what the user asks, and nothing else.",
] as const;

/**
 * The chat at `index` depends on (seed, index, onlyFamily) alone, so any part of the endless corpus can be made on its own.
 *
 * @param onlyFamily every chat is of this family
 * @throws RangeError where there is no such family
 */
export function chatAt(seed: number, index: number, onlyFamily?: string): Chat {
  const random = createRandom(seed, index);
  const drawn = random.weighted(families.map((family) => [family.percent, family]));
  const family = onlyFamily === undefined ? drawn : families.find(({ name }) => name === onlyFamily);
  if (family === undefined) {
    throw new RangeError(
      `expected one of the families ${families.map(({ name }) => name).join(", ")}, got "${onlyFamily}"`,
    );
  }
  const { messages, check } = family.make(random);
  if (messages[0]?.role === "system" || !random.isChance(0.2)) return { family: family.name, messages, check };
  const system = { role: "system", content: random.pick(systemPrompts) } as const;
  return { family: family.name, messages: [system, ...messages], check };
}
