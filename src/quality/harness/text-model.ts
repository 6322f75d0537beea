/** A model in the view of lm-evaluation-harness's tasks: token ids in, log-probabilities or a continuation out. */
import { MillraceError } from "../../core/errors.js";

export interface Continuation {
  readonly maxTokens: number;
  readonly temperature: number;
  readonly topP: number;
  readonly stop: readonly string[];
}

/** A model's continuation. */
export interface Continued {
  readonly text: string;
  /** length: cut off. */
  readonly end: "stop" | "length";
  readonly numPromptTokens: number;
  readonly numOutputTokens: number;
}

/** The log-probability of tokens, and whether each was the likeliest. */
export interface LogLikelihood {
  readonly logprob: number;
  readonly isGreedy: boolean;
}

/** A model's prediction at a token's position. */
export interface TokenPrediction {
  /** Log-probability of the token itself. */
  readonly logprob: number;
  /** Log-probabilities of the likeliest tokens and of the token itself, by id. */
  readonly known: Readonly<Record<string, number>>;
}

export interface TextModel {
  /** Most tokens of prompt and answer together. */
  readonly maxLength: number;
  /** The token before texts without context: the token that begins texts, or else the one that ends them. */
  readonly prefixId: number;
  /** Encodes without special tokens around the text. */
  encode(text: string): Promise<readonly number[]>;
  /** @param numContext number of given ids; the others are scored */
  score(ids: readonly number[], numContext: number, signal: AbortSignal): Promise<LogLikelihood>;
  /** Predictions of each token except the first. @param numTop likeliest tokens at each position */
  predict(ids: readonly number[], numTop: number, signal: AbortSignal): Promise<readonly TokenPrediction[]>;
  continue(ids: readonly number[], how: Continuation, signal: AbortSignal): Promise<Continued>;
}

/** @param best the log-probability of the likeliest token at this position */
export function allGreedy(tokens: readonly { readonly logprob: number; readonly best: number }[]): LogLikelihood {
  return {
    logprob: tokens.reduce((sum, { logprob }) => sum + logprob, 0),
    isGreedy: tokens.every(({ logprob, best }) => logprob >= best),
  };
}

/** Leaves room for one generated token, as servers generate one with `echo`. */
const lengthOf = (model: TextModel): number => model.maxLength - 1;

/** White space at the context's end is scored with the continuation, since tokens begin with a space. */
export async function logLikelihood(
  model: TextModel,
  { context, continuation }: { readonly context: string; readonly continuation: string },
  signal: AbortSignal,
): Promise<LogLikelihood & { readonly numTokens: number }> {
  const given = context.trimEnd();
  const whole = await model.encode(context + continuation);
  const isAlone = given === "";
  const ids = isAlone && whole[0] !== model.prefixId ? [model.prefixId, ...whole] : whole;
  const numContext = isAlone ? 1 : (await model.encode(given)).length;
  // An overlong text loses its beginning.
  const numCut = Math.max(0, ids.length - lengthOf(model));
  const scored = await model.score(ids.slice(numCut), Math.max(1, numContext - numCut), signal);
  return { ...scored, numTokens: ids.length };
}

/** The log-probability of a whole text, in windows without overlap: each is scored after the tokens before it. */
export async function rollingLogLikelihood(
  model: TextModel,
  text: string,
  signal: AbortSignal,
): Promise<{ logprob: number; numTokens: number }> {
  const ids = await model.encode(text);
  const size = lengthOf(model) - 1;
  let sum = 0;
  for (const { context, scored } of rollingWindows(ids, model.prefixId, size)) {
    sum += (await model.score([...context, ...scored], context.length, signal)).logprob;
  }
  return { logprob: sum, numTokens: ids.length };
}

interface Window {
  readonly context: readonly number[];
  readonly scored: readonly number[];
}

/** @param size number of tokens to score at once, at least 1 */
function rollingWindows(ids: readonly number[], prefixId: number, size: number): Window[] {
  const windows: Window[] = [];
  for (let start = 0; start < ids.length; start += size) {
    const end = Math.min(ids.length, start + size);
    // The last window has more context, so it is as long as the others.
    const context = start === 0 ? [prefixId] : ids.slice(end - size - 1, start);
    windows.push({ context, scored: ids.slice(start, end) });
  }
  return windows;
}

/** An overlong prompt loses its beginning, so that the longest answer fits. */
export async function generated(
  model: TextModel,
  context: string,
  how: Continuation,
  signal: AbortSignal,
): Promise<Continued> {
  const room = lengthOf(model) - how.maxTokens;
  if (room < 1) {
    const message = `expected max_gen_toks to be at most ${lengthOf(model) - 1} for this model, got ${how.maxTokens}`;
    throw new MillraceError("invalid_option", message);
  }
  return await model.continue((await model.encode(context)).slice(-room), how, signal);
}
