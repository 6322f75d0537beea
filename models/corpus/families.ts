/** All families with their share of the corpus, and the one function that makes the n-th chat of a seed. */
import { type Chat, type ExchangeMaker, type Message, toMessages } from "./chat.js";
import { makeConversation } from "./conversations.js";
import { makeFact } from "./facts.js";
import { makeJson } from "./json.js";
import { makeList } from "./lists.js";
import { makePassageChat } from "./passages.js";
import { createRandom, mixSeeds, type Random } from "./random.js";
import { makeRewrite } from "./rewrites.js";
import { makeFeeling, makeGreeting, makeIdentity, makeUnknown } from "./small-talk.js";
import { makeStory } from "./stories.js";
import { makeSum } from "./sums.js";

interface Family {
  readonly name: string;
  /** Share of the chats, in percent. Small talk is few distinct dialogues, so it needs few samples. */
  readonly percent: number;
  readonly makeMessages: (random: Random) => Message[];
}

const single =
  (make: ExchangeMaker) =>
  (random: Random): Message[] =>
    toMessages(make(random));

export const families: readonly Family[] = [
  { name: "greeting", percent: 3, makeMessages: single(makeGreeting) },
  { name: "identity", percent: 3, makeMessages: single(makeIdentity) },
  { name: "feeling", percent: 4, makeMessages: single(makeFeeling) },
  { name: "unknown", percent: 2, makeMessages: single(makeUnknown) },
  { name: "fact", percent: 15, makeMessages: single(makeFact) },
  { name: "sum", percent: 9, makeMessages: single(makeSum) },
  { name: "list", percent: 8, makeMessages: single(makeList) },
  { name: "rewrite", percent: 6, makeMessages: single(makeRewrite) },
  { name: "json", percent: 11, makeMessages: single(makeJson) },
  { name: "story", percent: 9, makeMessages: single(makeStory) },
  { name: "passage", percent: 18, makeMessages: makePassageChat },
  { name: "conversation", percent: 12, makeMessages: makeConversation },
];

const systemPrompts = [
  "You are a helpful assistant.",
  "You are millrace, a small language model.",
  "You are a friendly assistant. Answer briefly.",
  "Answer the user's questions.",
  "You are a helpful assistant. Be short and clear.",
] as const;

/** The chat at `index` depends on (seed, index) alone, so any part of the endless corpus can be made on its own. */
export function chatAt(seed: number, index: number): Chat {
  const random = createRandom(mixSeeds(seed, index));
  let roll = random.next() * families.reduce((total, family) => total + family.percent, 0);
  const family = families.find((candidate) => {
    roll -= candidate.percent;
    return roll < 0;
  }) as Family;
  const messages = family.makeMessages(random);
  const hasSystem = messages[0]?.role === "system";
  if (hasSystem || !random.isChance(0.2)) return { family: family.name, messages };
  return { family: family.name, messages: [{ role: "system", content: random.pick(systemPrompts) }, ...messages] };
}
