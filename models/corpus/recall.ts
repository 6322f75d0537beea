/**
 * Questions over long texts: the paragraphs of a passage, in order, at random places among paragraphs of other
 * passages. What the answer needs is far from the question, and most of the text is not needed.
 */
import type { Chat } from "./chat.js";
import { chatAt, readMixture } from "./families.js";
import { createRandom, type Random } from "./random.js";

interface Passage {
  readonly paragraphs: readonly string[];
  readonly question: string;
  readonly answer: string;
  readonly check: Chat["check"];
}

/** Letters of the passages that are asked about, at least. */
const SHORTEST = 200;
/** Passages whose paragraphs surround the questions' own: with few, each might hold the answer. */
const LEAST_STRANGERS = 64;
/** Paragraphs that name their subject: others say "it", and would be about another subject among strangers. */
const NAMES_SUBJECT = /^(?!It\b|The label\b|He\b|She\b|They\b|-)/;

/**
 * The first question over a passage; undefined where the text is too short, does not end with the question, or does not
 * have the answer.
 */
function passageAt(seed: number, index: number): Passage | undefined {
  const { messages, check } = chatAt(seed, index, readMixture("passage"));
  const first = messages.findIndex(({ role }) => role === "user");
  const [, text, question] = /^(.*\S)\n+([^\n]+)$/s.exec(messages[first]!.content) ?? [];
  const answer = messages[first + 1]!.content;
  const isUsable = text !== undefined && text.length >= SHORTEST && !text.includes("?") && question!.includes("?");
  const isAnswered = text?.toLowerCase().includes(answer.toLowerCase().replace(/\.$/, ""));
  return isUsable && isAnswered ? { paragraphs: text.split(/\n\n+/), question: question!, answer, check } : undefined;
}

function passagesFrom(seed: number, count: number): Passage[] {
  const passages: Passage[] = [];
  for (let index = 0; passages.length < count; index++) {
    const passage = passageAt(seed, index);
    if (passage !== undefined) passages.push(passage);
  }
  return passages;
}

/** Puts `own` into `others`, in order. */
function scattered(random: Random, own: readonly string[], others: readonly string[]): string[] {
  const places = own.map(() => random.int(0, others.length)).sort((a, b) => a - b);
  return [
    ...others.flatMap((other, place) => [...own.filter((_, i) => places[i] === place), other]),
    ...own.filter((_, i) => places[i] === others.length),
  ];
}

/** @param numLetters of each question's text, about; four are a token */
export function recallChats(seed: number, count: number, numLetters: number): Chat[] {
  const passages = passagesFrom(seed, count);
  const strangers = passagesFrom(seed + 1, Math.max(count, LEAST_STRANGERS)).flatMap(({ paragraphs }) => paragraphs);
  const named = strangers.filter((paragraph) => NAMES_SUBJECT.test(paragraph));
  return passages.map(({ paragraphs, question, answer, check }, index) => {
    const random = createRandom(seed, index);
    const others: string[] = [];
    let left = numLetters - paragraphs.join("\n\n").length;
    // A second text with the answer would make the question easier.
    const fitting = named.filter((other) => !other.toLowerCase().includes(answer.toLowerCase()));
    while (left > 0 && fitting.length > 0) {
      const other = fitting[random.int(0, fitting.length - 1)]!;
      others.push(other);
      left -= other.length + 2;
    }
    const text = scattered(random, paragraphs, others).join("\n\n");
    const content = `Context: ${text}\n\n${question}`;
    const messages = [{ role: "user", content } as const, { role: "assistant", content: answer } as const];
    return { family: `recall-${numLetters}`, messages, check };
  });
}
