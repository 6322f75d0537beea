/** The interface of checks: each looks for one fault in one answer, by rules alone. */
import { LANGUAGE_NAMES } from "../../semantic/words/languages.js";
import type { Sample } from "./sample.js";

export interface Verdict {
  /**
   * How bad the answer is in this respect, from 0 to 1; the mean is watched for drift. Checks without degrees use 0 and
   * 1.
   */
  readonly badness: number;
  /** Whether the answer counts as failing. */
  readonly isFailing: boolean;
  /** Finding, without texts of the prompt or the answer. */
  readonly note?: string;
}

/** Pure. @returns undefined if the check does not apply to the answer */
export type Check = (sample: Sample) => Verdict | undefined;

export const yesOrNo = (isFailing: boolean, note?: string): Verdict => ({
  badness: Number(isFailing),
  isFailing,
  ...(isFailing && note !== undefined ? { note } : {}),
});

/** The text of the last message of the user: the question. */
export function questionIn({ messages }: Sample): string {
  return messages.findLast(({ role }) => role === "user")?.text ?? "";
}

/** The answer without code, which is in no human language. An open fence reaches to the end. */
export const proseOf = (text: string): string => text.replace(/```[\s\S]*?(?:```|$)/g, " ").replace(/`[^`\n]*`/g, " ");

const TRANSLATES = /\b(?:translat|übersetz|tradui|traduc|traduz|tradur|vertaal)/i;

/** Whether the prompt names a language, or asks for a translation: the answer's language may then differ. */
export function namesLanguage(sample: Sample): boolean {
  if (TRANSLATES.test(questionIn(sample))) return true;
  return sample.messages.some(({ text }) =>
    (
      text
        .slice(0, 20_000)
        .toLowerCase()
        .match(/\p{L}+/gu) ?? []
    ).some((word) => LANGUAGE_NAMES.has(word)),
  );
}
