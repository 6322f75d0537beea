/**
 * Collects two models' answers to the same prompts. A file keeps each answer as it arrives, so a stopped run resumes.
 */
import { setMaxListeners } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { MillraceError } from "../core/errors.js";
import { keepTerms } from "../core/kept-terms.js";
import { RecordFile } from "../core/record-file.js";
import type { StartStage } from "../core/stages.js";
import type { Prompt } from "../distill/prompts.js";
import type { AnswerSignals } from "../gateway/cascade/answer-signals.js";
import { isRefusal, runAll, seedOf } from "../quality/ask.js";
import type { ModelClient } from "./ask-model.js";

const TERMS_FILE = "pairs.json";

const recordSchema = z.object({
  id: z.string(),
  text: z.string(),
  finishReason: z.string(),
  hasToolCalls: z.boolean(),
  logprobs: z.array(z.number()),
  margins: z.array(z.number()),
  numPromptTokens: z.number(),
  numOutputTokens: z.number(),
  /** Machine time of the answer in seconds, with `concurrency` answers at once. */
  seconds: z.number(),
});

export type AnswerRecord = z.infer<typeof recordSchema>;

/** The conditions of the answers, beside the prompts. */
export interface PairTerms {
  readonly url: string;
  readonly small: string;
  readonly large: string;
  readonly temperature: number;
  readonly maxTokens: number;
  readonly seed: number;
  readonly concurrency: number;
}

export interface Pair {
  readonly prompt: Prompt;
  readonly small: AnswerRecord;
  readonly large: AnswerRecord;
}

const round = (value: number): number => Math.round(value * 1e4) / 1e4;

/** Opens the folder's files. Throws invalid_option if its answers have other terms. */
export function openPairs(folder: string, terms: PairTerms) {
  keepTerms(folder, TERMS_FILE, terms);
  return filesOf(folder);
}

/** The terms of a folder. Throws file_unreadable. */
export function termsOf(folder: string): PairTerms {
  const path = join(folder, TERMS_FILE);
  try {
    return JSON.parse(readFileSync(path, "utf8")) as PairTerms;
  } catch (cause) {
    throw new MillraceError("file_unreadable", `expected the answers of millrace route train in ${folder}, got none`, {
      hint: "give the folder that was its --out",
      cause,
    });
  }
}

export function filesOf(folder: string) {
  const open = (name: string) =>
    RecordFile.open(join(folder, name), (value) => recordSchema.parse(value), "an answer", "--out");
  return { small: open("answers-small.jsonl"), large: open("answers-large.jsonl") };
}

type Files = ReturnType<typeof filesOf>;

/** Asks one model after the other, so that neither affects the other's times. */
export async function collectPairs(
  client: ModelClient,
  prompts: readonly Prompt[],
  terms: PairTerms,
  files: Files,
  startStage: StartStage,
  signal: AbortSignal,
): Promise<void> {
  for (const side of ["small", "large"] as const) {
    await collectSide(
      client,
      prompts,
      terms,
      terms[side],
      files[side],
      startStage(`answers of ${terms[side]}`),
      signal,
    );
  }
}

async function collectSide(
  client: ModelClient,
  prompts: readonly Prompt[],
  { temperature, maxTokens, seed, concurrency }: PairTerms,
  model: string,
  file: RecordFile<AnswerRecord>,
  stage: ReturnType<StartStage>,
  signal: AbortSignal,
): Promise<void> {
  const failing = new AbortController();
  const either = AbortSignal.any([signal, failing.signal]);
  setMaxListeners(0, either);
  const open = prompts.filter(({ id }) => file.get(id) === undefined);
  const startMs = performance.now();
  let numDone = 0;
  let refusal: string | undefined;
  await runAll(open, concurrency, async ({ id, messages }) => {
    either.throwIfAborted();
    const sampling = { temperature, top_p: 1, max_tokens: maxTokens, seed: seedOf(seed, messages) };
    const fields = { ...sampling, logprobs: true, top_logprobs: 2 };
    try {
      const { signals, seconds } = await client.ask(model, messages, fields, either);
      file.add(recordOf(id, signals, seconds));
    } catch (thrown) {
      if (isRefusal(thrown)) refusal ??= thrown.message;
      else {
        failing.abort(thrown);
        throw thrown;
      }
    }
    const left = ((performance.now() - startMs) / 1000 / ++numDone) * (open.length - numDone);
    stage.update(`${numDone} of ${open.length}, ${left.toFixed(0)} s left`);
  });
  if (refusal !== undefined) stage.note(`some prompts were refused, the first: ${refusal}`);
  const numAnswers = prompts.filter(({ id }) => file.get(id) !== undefined).length;
  const numResumed = prompts.length - open.length;
  stage.done(`${numAnswers} of ${prompts.length}${numResumed === 0 ? "" : `, ${numResumed} of them from before`}`);
}

function recordOf(id: string, signals: AnswerSignals, seconds: number): AnswerRecord {
  const { text, finishReason = "", hasToolCalls, logprobs, margins, numPromptTokens, numOutputTokens } = signals;
  return {
    id,
    text,
    finishReason,
    hasToolCalls,
    logprobs: logprobs.map(round),
    margins: margins.map(round),
    numPromptTokens: numPromptTokens ?? 0,
    numOutputTokens: numOutputTokens ?? logprobs.length,
    seconds,
  };
}

/** The prompts that both models have answered. */
export function pairsOf(prompts: readonly Prompt[], files: Files): Pair[] {
  return prompts.flatMap((prompt) => {
    const [small, large] = [files.small.get(prompt.id), files.large.get(prompt.id)];
    return small === undefined || large === undefined ? [] : { prompt, small, large };
  });
}
