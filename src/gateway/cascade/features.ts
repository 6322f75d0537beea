/**
 * A judge's view of a small model's answer, as numbers: the model's certainty, the answer's form, and the prompt's
 * words.
 */
import type { AnswerSignals } from "./answer-signals.js";

/** Names of the features, in their order; a router's file lists those it was trained on. */
const ANSWER_FEATURES = [
  "mean_logprob",
  "min_logprob",
  "q10_logprob",
  "mean_margin",
  "min_margin",
  "q10_margin",
  "log_tokens",
  "truncated",
  "refusal",
  "empty",
  "repeats",
  "is_json",
  "log_prompt",
] as const;

/** A prompt's words fall into this many sums. */
const NUM_PROMPT_FEATURES = 64;

export const FEATURE_NAMES: readonly string[] = [
  ...ANSWER_FEATURES,
  ...Array.from({ length: NUM_PROMPT_FEATURES }, (_, index) => `prompt_${index}`),
];

/** A pre-filter only: the classifier catches refusals in other words by their log-probabilities. */
const REFUSAL =
  /^\W*(?:i(?:['’]m| am) (?:sorry|afraid|unable|not able)|sorry,|i (?:can(?:no|['’])t|cannot|won['’]t)|as an ai\b|unfortunately,? i)/i;
/** Least log-probability that counts, since one token of a name may be far below all others. */
const LEAST_LOGPROB = -12;
const MOST_MARGIN = 12;
const MAX_WORDS = 400;
const REPEATED = 8;

/** @param prompt the text of the last message */
export function featuresOf(signals: AnswerSignals, prompt: string): number[] {
  const { text, logprobs, margins, finishReason } = signals;
  const chosen = logprobs.map((each) => Math.max(LEAST_LOGPROB, each));
  const leads = margins.map((each) => Math.min(MOST_MARGIN, Math.max(LEAST_LOGPROB, each)));
  return [
    mean(chosen),
    least(chosen),
    quantile(chosen, 0.1),
    mean(leads),
    least(leads),
    quantile(leads, 0.1),
    Math.log1p(signals.numOutputTokens ?? chosen.length),
    Number(finishReason === "length"),
    Number(isRefusal(text)),
    Number(text.trim() === ""),
    Number(repeatsItself(text)),
    Number(isJson(text)),
    Math.log1p(prompt.length),
    ...promptFeatures(prompt),
  ];
}

export const isRefusal = (text: string): boolean => REFUSAL.test(text);

export function isJson(text: string): boolean {
  const inner = /^\s*```[^\n]*\n([\s\S]*?)\n?```\s*$/.exec(text)?.[1] ?? text;
  if (!/^\s*[[{]/.test(inner)) return false;
  try {
    JSON.parse(inner);
    return true;
  } catch {
    return false;
  }
}

/** Whether the text ends in one word or line, over and over. */
export function repeatsItself(text: string): boolean {
  for (const parts of [text.trim().split("\n"), text.trim().split(/\s+/)]) {
    const end = parts.slice(-REPEATED);
    if (end.length === REPEATED && end[0] !== "" && end.every((part) => part === end[0])) return true;
  }
  return false;
}

/**
 * Words and pairs of words, hashed to a few signed sums of unit length in all: a linear model then knows the kind of a
 * request.
 */
function promptFeatures(prompt: string): number[] {
  const sums = new Array<number>(NUM_PROMPT_FEATURES).fill(0);
  const words = (
    prompt
      .slice(0, 20_000)
      .toLowerCase()
      .match(/[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]/gu) ?? []
  ).slice(0, MAX_WORDS);
  let before = "";
  for (const word of words) {
    for (const term of before === "" ? [word] : [word, `${before} ${word}`]) {
      const hash = fnv1a(term);
      const index = (hash >>> 1) % NUM_PROMPT_FEATURES;
      sums[index] = sums[index]! + ((hash & 1) === 0 ? 1 : -1);
    }
    before = word;
  }
  const norm = Math.sqrt(sums.reduce((sum, each) => sum + each * each, 0));
  return norm === 0 ? sums : sums.map((each) => each / norm);
}

function fnv1a(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  // The low bits of the hash alone depend on the last characters only.
  hash ^= hash >>> 15;
  hash = Math.imul(hash, 0x2c1b3c6d);
  return (hash ^ (hash >>> 13)) >>> 0;
}

const mean = (values: readonly number[]): number =>
  values.length === 0 ? 0 : values.reduce((sum, each) => sum + each, 0) / values.length;

const least = (values: readonly number[]): number => values.reduce((min, each) => Math.min(min, each), 0);

function quantile(values: readonly number[], share: number): number {
  if (values.length === 0) return 0;
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(share * (sorted.length - 1))]!;
}
