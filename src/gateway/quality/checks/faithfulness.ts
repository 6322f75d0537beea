/**
 * Finds numbers, names and quotations of the answer that the prompt lacks, if the prompt has a text to answer from. It
 * finds inventions, not confusions: a right number in the wrong place passes, and a sum that the model computed counts
 * as invented.
 */
import { languageOf } from "../../routes/language.js";
import { unitsOf } from "../../semantic/text/quantities.js";
import { looksLikeName, type Token, tokensOf } from "../../semantic/text/tokens.js";
import { type Check, proseOf } from "./check.js";

/** Words of a prompt that is more than a question. */
const MIN_CONTEXT_WORDS = 80;
/** A longer prompt is not read, and a part would not do: facts of the rest would look made up. In UTF-16 units. */
const MAX_PROMPT_LENGTH = 64 * 1024;
const MAX_ANSWER_LENGTH = 16 * 1024;
/** Smaller whole numbers count the answer's own lists. */
const MAX_COUNT = 12;
const MIN_QUOTE_LENGTH = 12;
const MIN_MADE_UP = 2;
const MAX_SHARE = 1 / 3;

const bare = (lower: string): string => lower.replace(/'s$/, "");

/** Values without their units: `5 km` may be `5 kilometres` or `5` elsewhere. Dates and times are one value. */
function numbersIn(tokens: readonly Token[]): ReadonlySet<string> {
  const values = unitsOf(tokens).flatMap(({ quantity }) =>
    quantity === undefined ? [] : /^\d/.test(quantity) ? [quantity.split(" ")[0]!] : [quantity],
  );
  return new Set(values.filter((value) => !(/^\d+$/.test(value) && Number(value) <= MAX_COUNT)));
}

/**
 * Headings, labels and the numbers of lists are the answer's own. Indents end with the line, so that the time is linear
 * in the text.
 */
export const withoutLayout = (text: string): string =>
  text
    .replace(/^[^\S\r\n\u2028\u2029]*#.*$/gm, "")
    .replace(/^[^\S\r\n\u2028\u2029]*(?:\d{1,3}[.)]|[-*•])\s+/gm, "")
    .replace(/\*\*[^*\n]{1,80}:?\*\*:?/g, "");

const plain = (text: string): string =>
  text
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]+/gu, " ")
    .trim();

export const faithfulness: Check = (sample) => {
  const { text, end } = sample.answer;
  const prompt = sample.messages.map((message) => message.text).join("\n");
  // A model's earlier answers are not a source: it may have told a story.
  const given = sample.messages.filter(({ role }) => role !== "assistant");
  const counts = given.map((message) => message.text.match(/\S+/g)?.length ?? 0);
  // A question after other texts is not a source; a single message may contain both the source and the question.
  const numWords = counts.reduce((sum, count) => sum + count, 0) - (given.length > 1 ? counts.at(-1)! : 0);
  const hasContext = Math.max(numWords, counts.at(-1) ?? 0) >= MIN_CONTEXT_WORDS;
  // Code rightly has names that the prompt lacks.
  if (prompt.includes("```")) return undefined;
  if (!hasContext || prompt.length > MAX_PROMPT_LENGTH || end === "refusal" || end === "calls") return undefined;
  const prose = withoutLayout(proseOf(text.slice(0, MAX_ANSWER_LENGTH)));
  const tokens = tokensOf(prose);
  const known = tokensOf(prompt);
  const knownNumbers = numbersIn(known);
  const numbers = [...numbersIn(tokens)];
  // German writes all nouns with capitals.
  const names =
    languageOf(prose) === "de" ? [] : [...new Set(tokens.filter(looksLikeName).map(({ lower }) => bare(lower)))];
  const quotes = tokens.filter(({ kind, text: quote }) => kind === "quote" && quote.length >= MIN_QUOTE_LENGTH);
  const all = plain(prompt);
  const knownWords = new Set(all.split(" "));
  const madeUp = [
    ...numbers.filter((number) => !knownNumbers.has(number)),
    ...names.filter(
      (name) =>
        !plain(name)
          .split(" ")
          .every((word) => knownWords.has(word)),
    ),
    ...quotes.filter(({ text: quote }) => !all.includes(plain(quote))),
  ].length;
  const numFacts = numbers.length + names.length + quotes.length;
  if (numFacts === 0) return undefined;
  const share = madeUp / numFacts;
  const isFailing = madeUp >= MIN_MADE_UP && share > MAX_SHARE;
  const note = `${madeUp} of ${numFacts} numbers, names and quotations are not in the prompt`;
  return { badness: share, isFailing, ...(isFailing ? { note } : {}) };
};
