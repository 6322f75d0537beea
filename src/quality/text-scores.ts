/** Scorers that compare texts. */
import { runInNewContext } from "node:vm";
import type { Check } from "./check.js";
import { unfence } from "./fenced.js";
import type { Score } from "./score.js";

type CheckOf<Kind extends Check["kind"]> = Extract<Check, { kind: Kind }>;

const RIGHT: Score = { score: 1, exact: true };
const WRONG: Score = { score: 0, exact: false };

const yesOrNo = (isRight: boolean, note?: string): Score => ({
  ...(isRight ? RIGHT : WRONG),
  ...(note === undefined ? {} : { note }),
});

const trimLines = (text: string): string => text.replace(/[ \t\r]+$/gm, "").replace(/^\n+|\n+$/g, "");

/** Ignores white space at line ends, and a surrounding code fence; a fence is noted, and makes the answer inexact. */
export function scoreExact(expected: string, answer: string): Score {
  if (trimLines(answer) === trimLines(expected)) return RIGHT;
  if (trimLines(unfence(answer)) !== trimLines(expected)) return WRONG;
  return { score: 1, exact: false, note: "in a code fence" };
}

const QUOTES = /^["'`“‘]+|["'`”’]+$/g;
const normalise = (text: string): string =>
  text
    .trim()
    .replace(QUOTES, "")
    .replace(/[.!?]+$/, "")
    .replace(QUOTES, "")
    .replace(/\s+/g, " ")
    .toLowerCase();

export function scorePhrase(expected: string, answer: string): Score {
  return yesOrNo(normalise(answer) === normalise(expected));
}

export function scoreIncludes({ texts }: CheckOf<"includes">, answer: string): Score {
  return yesOrNo(texts.some((text) => answer.includes(text)));
}

/** Time limit of a match, for patterns that backtrack without end on a model's answer. */
const REGEX_MS = 1000;

export function scoreRegex({ pattern, flags = "" }: CheckOf<"regex">, answer: string): Score {
  try {
    const isMatch = runInNewContext(
      "new RegExp(pattern, flags).test(answer)",
      { pattern, flags, answer },
      { timeout: REGEX_MS },
    );
    return yesOrNo(isMatch === true);
  } catch {
    return { ...WRONG, note: `the pattern took longer than ${REGEX_MS / 1000} s` };
  }
}

export function scoreNumber({ value }: CheckOf<"number">, answer: string): Score {
  const plain = answer.replaceAll("\u2212", "-").replace(/(?<=\d),(?=\d{3}(?!\d))/g, "");
  // A minus after a digit or a letter is not a number's sign; commas may separate thousands.
  const numbers = plain.match(/(?:(?<![\w.])-)?(?:\d+(?:\.\d+)?|(?<!\d)\.\d+)(?:e[-+]?\d+(?!\w))?/gi);
  if (numbers === null) return { ...WRONG, note: "no number" };
  return yesOrNo(Number(numbers.at(-1)) === value);
}

/** Splits a sentence with commas and a final "and", or lines with numbers or bullets, into items. */
function itemsOf(answer: string): string[] {
  const text = answer.trim();
  const parts = text.includes("\n") ? text.split("\n") : text.replace(/,? and /g, ", ").split(",");
  return parts
    .map((part) =>
      part
        .replace(/^\s*(?:[-*•]|\d+[.)])\s*/, "")
        .replace(/[.\s]+$/, "")
        .trim()
        .toLowerCase(),
    )
    .filter((part) => part !== "");
}

export function scoreList({ numItems, items: allowed }: CheckOf<"list">, answer: string): Score {
  const items = itemsOf(answer);
  const numDistinct = new Set(items).size;
  const other = items.find((item) => allowed?.every((one) => one.toLowerCase() !== item));
  if (other !== undefined) return { ...WRONG, note: `"${other}" is none of them` };
  if (items.length === numItems && numDistinct === numItems) return RIGHT;
  return { ...WRONG, note: `${items.length} items, ${numDistinct} distinct, for ${numItems}` };
}

const MIN_REPEATED_LETTERS = 20;

function repeatsItself(answer: string): boolean {
  const sentences = answer.split(/(?<=[.!?"])\s+/).filter((sentence) => sentence.length >= MIN_REPEATED_LETTERS);
  return new Set(sentences).size < sentences.length;
}

/** Matches whole words: "hen" is not in "then", and 9 neither in 4.9 nor in 9,000. */
function includesText(answer: string, text: string): boolean {
  const literal = text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");
  const before = /^\d/.test(text) ? "(?<!\\d[.,])" : "";
  return new RegExp(`${before}(?<![\\p{L}\\p{N}])${literal}(?![\\p{L}\\p{N}]|(?<=\\d)[.,]\\d)`, "iu").test(answer);
}

export function scoreMentions({ words }: CheckOf<"mentions">, answer: string): Score {
  if (answer.trim() === "") return { ...WRONG, note: "no text" };
  const missing = words.filter((word) => !includesText(answer, word));
  const problems = [
    ...missing.map((word) => `no "${word}"`),
    ...(/[.!?]["”’)]?$/.test(answer.trim()) ? [] : ["no end"]),
    ...(repeatsItself(answer) ? ["repeats itself"] : []),
  ];
  const score = words.length === 0 ? 1 : (words.length - missing.length) / words.length;
  return { score, exact: problems.length === 0, ...(problems.length === 0 ? {} : { note: problems.join(", ") }) };
}

function wordPairs(text: string): Map<string, number> {
  const words = text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
  const pairs = new Map<string, number>();
  for (let index = 1; index < words.length; index++) {
    const pair = `${words[index - 1]} ${words[index]}`;
    pairs.set(pair, (pairs.get(pair) ?? 0) + 1);
  }
  return pairs;
}

const total = (counts: ReadonlyMap<string, number>): number =>
  [...counts.values()].reduce((sum, count) => sum + count, 0);

/** The harmonic mean of precision and recall of word pairs (ROUGE-2). */
function pairOverlap(expected: string, answer: string): number {
  const [wanted, got] = [wordPairs(expected), wordPairs(answer)];
  let numShared = 0;
  for (const [pair, count] of got) numShared += Math.min(count, wanted.get(pair) ?? 0);
  const numPairs = total(wanted) + total(got);
  return numPairs === 0 ? Number(expected === answer) : (2 * numShared) / numPairs;
}

/** A summary longer than this, relative to the expected one, fails. */
const MAX_LENGTH_RATIO = 2;

/** Mean of the share of facts stated and the overlap of word pairs; exact: all facts, and short. */
export function scoreOverlap({ facts }: CheckOf<"overlap">, expected: string, answer: string): Score {
  if (answer.trim() === "") return { ...WRONG, note: "no text" };
  const missing = facts.filter((fact) => !includesText(answer, fact));
  const share = facts.length === 0 ? 1 : (facts.length - missing.length) / facts.length;
  const isShort = answer.length <= MAX_LENGTH_RATIO * expected.length;
  const problems = [...missing.map((fact) => `no "${fact}"`), ...(isShort ? [] : ["too long"])];
  return {
    score: (share + pairOverlap(expected, answer)) / 2,
    exact: problems.length === 0,
    ...(problems.length === 0 ? {} : { note: problems.join(", ") }),
  };
}
