/** The answer is in the language of the question. Where either is too short to tell, or the prompt names a language, the check says nothing. */
import { type Language, languageOf } from "../../routes/language.js";
import { type Check, namesLanguage, proseOf, questionIn, yesOrNo } from "./check.js";

/** Words of a question or an answer below which a guess is chance. */
const MIN_WORDS = 5;

function languageIn(text: string): Language | undefined {
  const prose = proseOf(text).slice(0, 4000);
  const words = prose.match(/\p{L}+/gu) ?? [];
  // Scripts without spaces have few words, and tell their language by themselves.
  const isLatin = /\p{Script=Latin}/u.test(prose);
  return isLatin && words.length < MIN_WORDS ? undefined : languageOf(prose);
}

export const language: Check = (sample) => {
  const asked = languageIn(questionIn(sample));
  const given = languageIn(sample.answer.text);
  if (asked === undefined || given === undefined || namesLanguage(sample)) return undefined;
  return yesOrNo(asked !== given, `${given} to a question in ${asked}`);
};
