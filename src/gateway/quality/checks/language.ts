/**
 * The answer is in the language of the question. Does not apply if either is too short to tell, or if the prompt names
 * a language.
 */
import { languageOf, scriptOf } from "../../routes/language.js";
import { COMMON_WORDS } from "../../semantic/words/languages.js";
import { type Check, namesLanguage, proseOf, questionIn, yesOrNo } from "./check.js";

/**
 * Different common words that a text must have of a language, and their multiple of the next language's: languages
 * share short words.
 */
const MIN_COMMON = 3;
const LEAD = 2;
const MAX_CHARACTERS = 4000;

/** Surer than a route needs to be: no language for a short text in Latin script. */
function languageIn(text: string): string | undefined {
  const prose = proseOf(text).slice(0, MAX_CHARACTERS);
  if (scriptOf(prose) !== "Latin") return languageOf(prose);
  const words = new Set(prose.toLowerCase().match(/[\p{L}'’-]+/gu) ?? []);
  const counts = Object.entries(COMMON_WORDS)
    .map(([language, common]) => ({ language, count: [...common].filter((word) => words.has(word)).length }))
    .sort((a, b) => b.count - a.count);
  const [first, second] = counts;
  return first!.count >= MIN_COMMON && first!.count >= LEAD * second!.count ? first!.language : undefined;
}

export const language: Check = (sample) => {
  const asked = languageIn(questionIn(sample));
  const given = languageIn(sample.answer.text);
  if (asked === undefined || given === undefined || namesLanguage(sample)) return undefined;
  return yesOrNo(asked !== given, `${given} to a question in ${asked}`);
};
