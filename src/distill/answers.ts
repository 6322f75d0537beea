/**
 * Collects a teacher's answers to prompts, many at once. A file keeps each answer as it arrives, so a stopped run
 * resumes.
 */
import { setMaxListeners } from "node:events";
import { z } from "zod";
import { MillraceError } from "../core/errors.js";
import { RecordFile } from "../core/record-file.js";
import { type Ask, isRefusal, runAll } from "../quality/ask.js";
import type { Prompt } from "./prompts.js";

const answerSchema = z.object({
  id: z.string(),
  text: z.string(),
  /** length: the answer is cut off, so it shows no end of an answer. */
  end: z.enum(["stop", "length"]),
  numPromptTokens: z.int().min(0),
  numOutputTokens: z.int().min(0),
});

/** One line of the file: the answer to the prompt with this id. */
export type Answer = z.infer<typeof answerSchema>;

export type AnswerFile = RecordFile<Answer>;

/** @throws MillraceError file_unreadable with the number of a damaged line */
export function openAnswers(path: string): AnswerFile {
  return RecordFile.open(path, (value) => answerSchema.parse(value), "an answer", "--out");
}

interface CollectProgress {
  readonly numDone: number;
  readonly numAll: number;
  readonly numOutputTokens: number;
}

export interface Collected {
  /** Number of answers, and of those already in the file. */
  readonly numAnswers: number;
  readonly numResumed: number;
  /** Number of refused prompts, with the first reason. They are asked again in the next run. */
  readonly numRefused: number;
  readonly refusal: string | undefined;
}

export interface Collecting {
  readonly file: AnswerFile;
  readonly prompts: readonly Prompt[];
  readonly ask: Ask;
  /** Concurrent requests. */
  readonly concurrency: number;
  readonly signal: AbortSignal;
}

/**
 * Requests the answers that the file lacks. A failure, or the signal, ends the collection; the file keeps the answers
 * so far.
 */
export async function collectAnswers(
  { file, prompts, ask, concurrency, signal }: Collecting,
  onProgress: (progress: CollectProgress) => void,
): Promise<Collected> {
  const open = prompts.filter(({ id }) => file.get(id) === undefined);
  const failing = new AbortController();
  const either = AbortSignal.any([signal, failing.signal]);
  setMaxListeners(0, either);
  let [numDone, numOutputTokens, numRefused] = [0, 0, 0];
  let refusal: string | undefined;
  const answerOne = async ({ id, messages }: Prompt): Promise<void> => {
    either.throwIfAborted();
    try {
      const answer = await ask(messages, either);
      either.throwIfAborted();
      file.add({ id, ...answer });
      numOutputTokens += answer.numOutputTokens;
    } catch (thrown) {
      if (isRefusal(thrown)) {
        numRefused++;
        refusal ??= thrown.message;
      } else {
        failing.abort(thrown);
        throw thrown;
      }
    }
    onProgress({ numDone: ++numDone, numAll: open.length, numOutputTokens });
  };
  await runAll(open, concurrency, answerOne);
  const numResumed = prompts.length - open.length;
  return { numAnswers: prompts.length - numRefused, numResumed, numRefused, refusal };
}

/** A prompt with its answer, in the trainer's form of chats. */
export interface AnsweredPrompt {
  readonly prompt: Prompt;
  readonly answer: Answer;
}

/** The prompts with an answer. */
export function answered(file: AnswerFile, prompts: readonly Prompt[]): AnsweredPrompt[] {
  return prompts.flatMap((prompt) => {
    const answer = file.get(prompt.id);
    return answer === undefined ? [] : { prompt, answer };
  });
}

/**
 * Complete answers as a corpus: JSON lines of {"family", "messages", "answers": "last"}, in which only the last message
 * counts as an answer. Throws invalid_option if no answer is complete.
 */
export function corpusOf(items: readonly AnsweredPrompt[], what: string): string {
  const whole = items.filter(({ answer }) => answer.end === "stop");
  if (whole.length === 0) {
    const message = `expected complete answers to ${what}, got ${items.length} that were cut off`;
    throw new MillraceError("invalid_option", message, { hint: "give more prompts, or raise --max-tokens" });
  }
  const lines = whole.map(({ prompt: { family = "chats", messages }, answer: { text } }) =>
    JSON.stringify({ family, messages: [...messages, { role: "assistant", content: text }], answers: "last" }),
  );
  return `${lines.join("\n")}\n`;
}
