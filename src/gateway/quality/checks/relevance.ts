/**
 * The share of the question's words that the answer takes up. It compares words, not meanings: a good answer may use
 * none of them, so the mean over many answers shows more than one answer. Does not apply to long or short questions,
 * short answers, and answers that may be in another language.
 */
import { COMMON_WORDS } from "../../semantic/words/languages.js";
import { type Check, namesLanguage, questionIn } from "./check.js";

const MAX_QUESTION_LENGTH = 2000;
const MIN_QUESTION_WORDS = 3;
const MIN_ANSWER_WORDS = 8;
/** An answer of this many words with none of the question's is about something else. */
const LONG_ANSWER_WORDS = 25;
/** Letters that a word's inflections share. */
const STEM_LENGTH = 5;
const MAX_CHARACTERS = 50_000;

const COMMON = new Set(Object.values(COMMON_WORDS).flatMap((words) => [...words]));

const wordsOf = (text: string): readonly string[] => text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
const stemOf = (word: string): string => word.slice(0, STEM_LENGTH);

export const relevance: Check = (sample) => {
  const question = questionIn(sample);
  const { text, end } = sample.answer;
  if (question.length > MAX_QUESTION_LENGTH || end === "refusal" || end === "calls" || sample.format !== undefined)
    return undefined;
  const asked = new Set(
    wordsOf(question)
      .filter((word) => (word.length > 2 || /\d/.test(word)) && !COMMON.has(word))
      .map(stemOf),
  );
  const answered = wordsOf(text.slice(0, MAX_CHARACTERS));
  if (asked.size < MIN_QUESTION_WORDS || answered.length < MIN_ANSWER_WORDS || namesLanguage(sample)) return undefined;
  const stems = new Set(answered.map(stemOf));
  const share = [...asked].filter((stem) => stems.has(stem)).length / asked.size;
  const isFailing = share === 0 && answered.length >= LONG_ANSWER_WORDS;
  return { badness: 1 - share, isFailing, ...(isFailing ? { note: "none of the question's words" } : {}) };
};
