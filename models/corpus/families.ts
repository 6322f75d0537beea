/** All families with their share of the corpus, and the one function that makes the n-th chat of a seed. */
import { makeArithmeticChat } from "./arithmetic.js";
import { makeChangeChat } from "./change.js";
import { type Chat, type Draft, type DraftMaker, type ExchangeMaker, toDraft } from "./chat.js";
import { makeCodeChat } from "./code.js";
import { makeConversation } from "./conversations.js";
import { makeCopyChat, makeEcho } from "./copy.js";
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
  { name: "extract", percent: 14, make: makeExtractChat },
  { name: "passage", percent: 14, make: makePassageChat },
  { name: "edit", percent: 26, make: makeEditChat },
  { name: "change", percent: 8, make: makeChangeChat },
  { name: "arithmetic", percent: 11, make: makeArithmeticChat },
  { name: "code", percent: 5, make: makeCodeChat },
  { name: "story", percent: 6, make: makeStoryChat },
  { name: "summary", percent: 3, make: makeSummaryChat },
  { name: "sort", percent: 1, make: makeSortChat },
  { name: "chat", percent: 3, make: makeConversation },
  { name: "copy", percent: 2, make: makeCopyChat },
  { name: "identity", percent: 2, make: severalOf(makeIdentity, 3) },
  { name: "fact", percent: 4, make: severalOf(makeFact, 3) },
  { name: "list", percent: 1, make: severalOf(makeList, 2) },
];

/**
 * Not of the corpus, and only drawn by name: short rows in which copying can be learnt and nothing else. A small model
 * learns it there in minutes.
 */
const exercises: readonly Family[] = [{ name: "echo", percent: 0, make: (random) => toDraft([makeEcho(random)]) }];

/** Families and how often each is drawn, against the others. */
export type Mixture = readonly (readonly [weight: number, family: Family])[];

const wholeCorpus: Mixture = families.map((family) => [family.percent, family]);

/**
 * Of "edit=40,change=30", or of one family's name.
 *
 * @throws RangeError where there is no such family, or where a share is no positive number
 */
export function readMixture(text: string): Mixture {
  return text.split(",").map((part) => {
    const [name, share = "1"] = part.split("=");
    const all = [...families, ...exercises];
    const family = all.find((known) => known.name === name);
    if (family === undefined) {
      throw new RangeError(`expected one of the families ${all.map(({ name }) => name).join(", ")}, got "${name}"`);
    }
    if (!(Number(share) > 0)) throw new RangeError(`expected a share above 0 for ${name}, got "${share}"`);
    return [Number(share), family];
  });
}

const systemPrompts = [
  "You are a helpful assistant.",
  "You are millrace, a small language model.",
  "You are a friendly assistant. Answer briefly.",
  "Answer the user's questions.",
  "You are a helpful assistant. Be short and clear.",
  "Do what the user asks, and nothing else.",
] as const;

/**
 * The chat at `index` depends on (seed, index, mixture) alone, so any part of the endless corpus can be made on its
 * own.
 */
export function chatAt(seed: number, index: number, mixture: Mixture = wholeCorpus): Chat {
  const random = createRandom(seed, index);
  const family = random.weighted(mixture);
  const { messages, check } = family.make(random);
  if (messages[0]?.role === "system" || !random.isChance(0.2)) return { family: family.name, messages, check };
  const system = { role: "system", content: random.pick(systemPrompts) } as const;
  return { family: family.name, messages: [system, ...messages], check };
}
