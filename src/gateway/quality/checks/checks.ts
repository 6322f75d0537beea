/** All checks of one answer, by name. */

import type { Check, Verdict } from "./check.js";
import { faithfulness } from "./faithfulness.js";
import { format } from "./format.js";
import { language } from "./language.js";
import { length } from "./length.js";
import { refusal } from "./refusal.js";
import { relevance } from "./relevance.js";
import { repetition } from "./repetition.js";
import type { Sample } from "./sample.js";
import { uncertainty } from "./uncertainty.js";

export const CHECK_NAMES = [
  "refusal",
  "language",
  "format",
  "repetition",
  "length",
  "uncertainty",
  "relevance",
  "faithfulness",
] as const;

export type CheckName = (typeof CHECK_NAMES)[number];

const CHECKS: Readonly<Record<CheckName, Check>> = {
  refusal,
  language,
  format,
  repetition,
  length,
  uncertainty,
  relevance,
  faithfulness,
};

export type Verdicts = Readonly<Partial<Record<CheckName, Verdict>>>;

/** @returns the verdicts of the checks that apply */
export function judgeSample(sample: Sample, names: readonly CheckName[] = CHECK_NAMES): Verdicts {
  const verdicts: Partial<Record<CheckName, Verdict>> = {};
  for (const name of names) {
    const verdict = CHECKS[name](sample);
    if (verdict !== undefined) verdicts[name] = verdict;
  }
  return verdicts;
}
