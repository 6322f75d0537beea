/**
 * Compares two models' time per token on this machine: with one client and with many at once, each model alone, in
 * alternation.
 */
import { type RoundSample, runRound } from "../bench/engine/engine-round.js";
import { type Estimate, pairedRatio } from "../bench/measure/intervals.js";
import { MillraceError } from "../core/errors.js";
import { median } from "../core/statistics.js";
import type { Engine } from "../engine/api/engine.js";
import { type Ask, isRefusal } from "../quality/ask.js";
import type { Prompt } from "./prompts.js";

/** Medians over the rounds, in milliseconds. */
export interface Pace {
  readonly firstTokenMs: number;
  readonly tokenMs: number;
  readonly tokensPerS: number;
}

export interface SpeedComparison {
  readonly teacher: Pace;
  readonly student: Pace;
  /** Speed-ups, teacher ÷ student: time per token after the first, and time to the first token. */
  readonly decoding: Estimate;
  readonly firstToken: Estimate;
  readonly genTokens: number;
  /** undefined: no two prompts fit into memory and contexts at once. */
  readonly loaded: LoadedCost | undefined;
}

/** Cost per token of a busy engine: time from the arrival of many prompts to their last token ÷ generated tokens. */
interface LoadedCost {
  readonly numSequences: number;
  /** Median machine time per generated token, including its share of the prompt, in milliseconds. */
  readonly teacherMs: number;
  readonly studentMs: number;
  /** Teacher ÷ student. */
  readonly ratio: Estimate;
}

/** A prompt for both models, in each model's tokens. */
interface PromptPair {
  readonly teacher: readonly number[];
  readonly student: readonly number[];
}

type Side = keyof PromptPair;

const GEN_TOKENS = 32;
const ROUNDS = 16;
const LOADED_SEQUENCES = 16;
const LOADED_ROUNDS = 6;

/**
 * @param pairs used in turn; pairs that do not fit into both contexts with the generated tokens are left out
 * @param teacher, student idle engines without prefix caches and drafters
 * @returns undefined if no pair fits
 */
export async function compareSpeed(
  teacher: Engine,
  student: Engine,
  pairs: readonly PromptPair[],
  onRound: (numDone: number, numAll: number) => void,
  signal: AbortSignal,
): Promise<SpeedComparison | undefined> {
  const fits = (engine: Engine, ids: readonly number[]): boolean => {
    const { maxModelLen, numKvBlocks, blockSize } = engine.info;
    return ids.length + GEN_TOKENS <= Math.min(maxModelLen, numKvBlocks * blockSize);
  };
  const usable = pairs.filter((pair) => fits(teacher, pair.teacher) && fits(student, pair.student));
  if (usable.length === 0) return undefined;
  // The first sequences generate while the last prompts are computed, so each needs room for twice its length.
  const roomy = usable.filter(
    (pair) =>
      2 * pair.teacher.length <= teacher.info.maxModelLen && 2 * pair.student.length <= student.info.maxModelLen,
  );
  const numSequences = Math.min(
    LOADED_SEQUENCES,
    mostSequences(teacher, roomy, "teacher"),
    mostSequences(student, roomy, "student"),
  );
  /** Round 0 warms up; the order alternates between rounds. */
  const race = async (
    prompts: readonly PromptPair[],
    numRounds: number,
    numPrompts: number,
    numBefore: number,
  ): Promise<Record<Side, RoundSample>[]> => {
    const rounds: Record<Side, RoundSample>[] = [];
    for (let round = 0; round <= numRounds; round++) {
      signal.throwIfAborted();
      const chosen = Array.from({ length: numPrompts }, (_, i) => prompts[(round * numPrompts + i) % prompts.length]!);
      const runOf = (engine: Engine, side: Side): Promise<RoundSample> =>
        runRound(engine, { prompts: chosen.map((pair) => Int32Array.from(pair[side])), genTokens: GEN_TOKENS });
      const early = round % 2 === 1 ? await runOf(student, "student") : undefined;
      const sample = await runOf(teacher, "teacher");
      const other = early ?? (await runOf(student, "student"));
      if (round > 0) rounds.push({ teacher: sample, student: other });
      onRound(numBefore + round, ROUNDS + LOADED_ROUNDS);
    }
    return rounds;
  };
  const rounds = await race(usable, ROUNDS, 1, 0);
  const loadedRounds = numSequences < 2 ? [] : await race(roomy, LOADED_ROUNDS, numSequences, ROUNDS).catch(orTooFull);
  const paceOf = (samples: readonly RoundSample[]): Pace => {
    const tokenMs = median(samples.map(({ decodeMs }) => decodeMs / (GEN_TOKENS - 1)));
    return { firstTokenMs: median(samples.map(({ prefillMs }) => prefillMs)), tokenMs, tokensPerS: 1000 / tokenMs };
  };
  const ratioOf = (of: readonly Record<Side, RoundSample>[], time: (sample: RoundSample) => number): Estimate =>
    pairedRatio(
      of.map((round) => time(round.teacher)),
      of.map((round) => time(round.student)),
    )!;
  const loadedMs = ({ prefillMs, decodeMs }: RoundSample): number =>
    (prefillMs + decodeMs) / (numSequences * GEN_TOKENS);
  return {
    teacher: paceOf(rounds.map((round) => round.teacher)),
    student: paceOf(rounds.map((round) => round.student)),
    decoding: ratioOf(rounds, ({ decodeMs }) => decodeMs),
    firstToken: ratioOf(rounds, ({ prefillMs }) => prefillMs),
    genTokens: GEN_TOKENS,
    loaded:
      loadedRounds.length === 0
        ? undefined
        : {
            numSequences,
            teacherMs: median(loadedRounds.map((round) => loadedMs(round.teacher))),
            studentMs: median(loadedRounds.map((round) => loadedMs(round.student))),
            ratio: ratioOf(loadedRounds, loadedMs),
          },
  };
}

/** The number of longest prompts, with their outputs, that the engine holds at once. */
function mostSequences({ info }: Engine, pairs: readonly PromptPair[], side: Side): number {
  const longest = Math.max(0, ...pairs.map((pair) => pair[side].length));
  const tokens = 2 * (longest + GEN_TOKENS) + info.blockSize;
  return longest === 0 ? 0 : Math.min(info.maxNumSeqs, Math.floor((info.numKvBlocks * info.blockSize) / tokens));
}

/** If memory is too small after all, the report only lacks this figure. */
function orTooFull(thrown: unknown): [] {
  if (thrown instanceof MillraceError && thrown.code === "kv_capacity_exceeded") return [];
  throw thrown;
}

/** Speed as a client sees it: time of whole answers ÷ tokens, prompts and network included. */
export interface AnswerSpeed {
  /** Medians, in milliseconds per output token. */
  readonly teacherMs: number;
  readonly studentMs: number;
  /** Teacher ÷ student, paired by prompt. */
  readonly ratio: Estimate;
}

const MAX_ANSWERS = 16;

/**
 * For a teacher behind a URL: both models get the same prompts, one request at a time, in alternation.
 *
 * @returns the reason if there is no speed, since a lost teacher must not cost the report
 */
export async function compareAnswers(
  teacher: Ask,
  student: Ask,
  prompts: readonly Prompt[],
  signal: AbortSignal,
): Promise<AnswerSpeed | string> {
  const timeOf = async (ask: Ask, { messages }: Prompt): Promise<number> => {
    const startMs = performance.now();
    const { numOutputTokens } = await ask(messages, signal);
    return (performance.now() - startMs) / numOutputTokens;
  };
  const times: { readonly teacher: number; readonly student: number }[] = [];
  for (const [index, prompt] of prompts.slice(0, MAX_ANSWERS).entries()) {
    try {
      const early = index % 2 === 1 ? await timeOf(student, prompt) : undefined;
      const teacherMs = await timeOf(teacher, prompt);
      times.push({ teacher: teacherMs, student: early ?? (await timeOf(student, prompt)) });
    } catch (thrown) {
      if (thrown instanceof MillraceError && thrown.code === "endpoint_failed")
        return `the teacher fails: ${thrown.message}`;
      if (!isRefusal(thrown)) throw thrown;
    }
  }
  // Times per token need the server's token counts.
  const usable = times.filter((each) => Number.isFinite(each.teacher) && Number.isFinite(each.student));
  if (usable.length === 0) return "the teacher reports no token counts, or refused every prompt";
  const [of, to] = [usable.map((each) => each.teacher), usable.map((each) => each.student)];
  return { teacherMs: median(of), studentMs: median(to), ratio: pairedRatio(of, to)! };
}
