/**
 * Chats with planted redundancy, as prompts have it that grew over years: a system prompt with background that no
 * answer needs, said twice and with empty lines and indented JSON; examples; a notice before each text; overlapping
 * pieces of the text, as a search returns them.
 */
import type { Chat } from "./chat.js";
import { chatAt, readMixture } from "./families.js";
import { createRandom, type Random } from "./random.js";

const INSTRUCTIONS = "You are a helpful assistant. Be short and clear.";
const BACKGROUND = [
  "The office was founded by two sisters in a small house near the river, and it has grown every year since then.",
  "Most of the people who work here like long walks, good bread and quiet evenings, and many of them play in the band.",
  "In spring the garden behind the house is full of flowers, and visitors are welcome to have a look at them.",
].join(" ");
const SETTINGS = { team: "office", style: { tone: "calm", length: "short" }, topics: ["texts", "letters", "notes"] };
const NOTICE =
  "This text was sent to everybody on the list. It is kept in the archive in the cellar, next to the old maps of the town.";

/** Chats that serve as examples come from a seed of their own. */
const EXAMPLE_SEED = 77_000_001;
const NUM_EXAMPLES = 2;
const LONGEST_EXAMPLE = 400;
/** Longer ones leave no room for what is planted. */
const LONGEST_CHAT = 1600;

function systemPrompt(): string {
  const settings = JSON.stringify(SETTINGS, null, 4);
  return `${INSTRUCTIONS}   \n\n\n\n${BACKGROUND}\n\n\nSettings:\n${settings}\n\n\n\n${BACKGROUND}   \n\n\n${INSTRUCTIONS}`;
}

/** Short first exchanges of other chats of the family. */
function examplesOf(family: string): Chat["messages"] {
  const mixture = readMixture(family);
  const examples: Chat["messages"][number][] = [];
  for (let index = 0; examples.length < 2 * NUM_EXAMPLES; index++) {
    const [question, answer] = chatAt(EXAMPLE_SEED, index, mixture).messages;
    const isShort = question!.content.length + answer!.content.length <= LONGEST_EXAMPLE;
    if (question!.role === "user" && isShort) examples.push(question!, answer!);
  }
  return examples;
}

/** Sentences of the text a second time, in pieces that overlap. */
function withOverlap(text: string, random: Random): string {
  const sentences = text.split(/(?<=[.!?]) (?=[A-Z])/);
  if (sentences.length < 4) return text;
  const start = random.int(0, sentences.length - 3);
  return `${sentences.slice(start, start + Math.ceil(sentences.length / 3)).join(" ")}\n${text}`;
}

/** The chat at `index` of the family; undefined if it is too long, or has a system prompt. */
function redundantChatAt(seed: number, index: number, family: string): Chat | undefined {
  const chat = chatAt(seed, index, readMixture(family));
  const length = chat.messages.reduce((sum, { content }) => sum + content.length, 0);
  if (chat.messages[0]!.role === "system" || length > LONGEST_CHAT) return undefined;
  const random = createRandom(seed + 1, index);
  const [first, ...rest] = chat.messages;
  const question = { ...first!, content: `${NOTICE}\n\n${withOverlap(first!.content, random)}` };
  const system = { role: "system", content: systemPrompt() } as const;
  return { ...chat, messages: [system, ...examplesOf(family), question, ...rest] };
}

/**
 * Chats of a family with planted redundancy.
 *
 * @param family one whose questions come with a text: "extract" or "passage"
 */
export function redundantChats(seed: number, count: number, family: string): Chat[] {
  const chats: Chat[] = [];
  for (let index = 0; chats.length < count; index++) {
    const chat = redundantChatAt(seed, index, family);
    if (chat !== undefined) chats.push(chat);
  }
  return chats;
}
