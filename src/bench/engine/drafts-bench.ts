/**
 * Measures speculation on given prompts: two engines in this process, one with and one without drafts, alternately
 * answer the same requests and must give the same tokens. Each round has new prompts, so that no drafter has seen the
 * answers.
 */
import { MillraceError } from "../../core/errors.js";
import { type EngineRequest, GREEDY_SAMPLING } from "../../engine/api/request.js";
import type { EngineCore } from "../../engine/engine-core.js";
import { type Estimate, pairedRatio } from "../measure/intervals.js";

export interface PromptSet {
  readonly name: string;
  readonly prompts: readonly (readonly number[])[];
  /** Tokens that end an answer; empty: every answer has the full length. */
  readonly stopTokenIds: readonly number[];
}

export interface DraftsBenchSpec {
  /** Concurrent requests. */
  readonly batches: readonly number[];
  readonly rounds: number;
  /** Number of prompts per round and batch size. */
  readonly promptsPerRound: number;
  readonly maxTokens: number;
  readonly temperature: number;
}

export interface DraftsBenchResult {
  readonly set: string;
  readonly batch: number;
  /** Speed-up of decoding: the time from first to last token over all answers, without ÷ with drafts. */
  readonly decoding: Estimate;
  /** Speed-up of the whole round, including the prompts. */
  readonly wholeRun: Estimate;
  readonly rounds: readonly RoundTimes[];
  readonly numTokens: number;
  /** Accepted ÷ draft tokens; undefined without drafts. */
  readonly acceptedShare: number | undefined;
}

interface RoundTimes {
  readonly plain: RunTimes;
  readonly drafting: RunTimes;
}

interface RunTimes {
  readonly wholeMs: number;
  /** From the first token to the last, summed over requests. */
  readonly decodingMs: number;
}

/** One engine's answers to the requests of a round. */
export interface Run {
  readonly answers: readonly Answer[];
  readonly times: RunTimes;
}

/** @param plain, drafting idle engines of the same model */
export async function benchDrafts(
  plain: EngineCore,
  drafting: EngineCore,
  sets: readonly PromptSet[],
  spec: DraftsBenchSpec,
  onResult: (result: DraftsBenchResult) => void = () => {},
): Promise<DraftsBenchResult[]> {
  const perRoundOf = (batch: number) => Math.max(spec.promptsPerRound, batch);
  const numNeeded = spec.batches.reduce((sum, batch) => sum + (spec.rounds + 1) * perRoundOf(batch), 0);
  for (const { name, prompts } of sets) {
    if (prompts.length >= numNeeded) continue;
    throw new MillraceError(
      "invalid_option",
      `expected ${numNeeded} prompts of ${JSON.stringify(name)}, got ${prompts.length}`,
      { hint: "give more prompts, or ask for fewer rounds or batch sizes" },
    );
  }
  const results: DraftsBenchResult[] = [];
  for (const set of sets) {
    // Each prompt is used once.
    let used = 0;
    for (const batch of spec.batches) {
      const perRound = perRoundOf(batch);
      const groups = Array.from({ length: spec.rounds + 1 }, (_, i) =>
        set.prompts.slice(used + i * perRound, used + (i + 1) * perRound),
      );
      used += groups.length * perRound;
      const result = await benchSet(plain, drafting, { ...set, groups }, batch, spec);
      onResult(result);
      results.push(result);
    }
  }
  return results;
}

async function benchSet(
  plain: EngineCore,
  drafting: EngineCore,
  set: PromptSet & { readonly groups: readonly (readonly (readonly number[])[])[] },
  batch: number,
  spec: DraftsBenchSpec,
): Promise<DraftsBenchResult> {
  const rounds: RoundTimes[] = [];
  let numTokens = 0;
  let before = drafting.stats().speculation;
  for (const [round, prompts] of set.groups.entries()) {
    const { stopTokenIds } = set;
    const { maxTokens, temperature } = spec;
    const requests = prompts.map((promptIds, index): EngineRequest => {
      const seed = BigInt(1000 * round + index);
      const sampling = { ...GREEDY_SAMPLING, temperature, seed, stopTokenIds, maxTokens };
      return { promptIds: Int32Array.from(promptIds), sampling };
    });
    const runs = await runPair(plain, drafting, requests, batch, round);
    // Round 0 warms up.
    if (round === 0) before = drafting.stats().speculation;
    else {
      rounds.push({ plain: runs.plain.times, drafting: runs.drafting.times });
      numTokens += runs.plain.answers.reduce((sum, { tokens }) => sum + tokens.length, 0);
    }
  }
  const after = drafting.stats().speculation;
  const numDrafted = after.numDraftTokens - before.numDraftTokens;
  const ratioOf = (time: (times: RunTimes) => number) =>
    pairedRatio(
      rounds.map((round) => time(round.plain)),
      rounds.map((round) => time(round.drafting)),
    )!;
  return {
    set: set.name,
    batch,
    rounds,
    numTokens,
    decoding: ratioOf(({ decodingMs }) => decodingMs),
    wholeRun: ratioOf(({ wholeMs }) => wholeMs),
    acceptedShare: numDrafted === 0 ? undefined : (after.numAcceptedTokens - before.numAcceptedTokens) / numDrafted,
  };
}

/**
 * Both engines answer the same requests, one after the other. Throws engine_failed where their tokens differ.
 * @param round the order alternates between rounds
 */
export async function runPair(
  plain: EngineCore,
  drafting: EngineCore,
  requests: readonly EngineRequest[],
  batch: number,
  round: number,
): Promise<{ readonly plain: Run; readonly drafting: Run }> {
  const second = round % 2 === 1 ? await runRequests(drafting, requests, batch) : undefined;
  const first = await runRequests(plain, requests, batch);
  const runs = { plain: first, drafting: second ?? (await runRequests(drafting, requests, batch)) };
  assertSame(runs.plain.answers, runs.drafting.answers);
  return runs;
}

interface Answer {
  readonly tokens: readonly number[];
  /** Number of steps that produced tokens. */
  readonly numSteps: number;
  /** Times of the first and the last token, on the clock of `performance.now`. */
  readonly firstMs: number;
  readonly lastMs: number;
}

/** Answers all requests, `batch` at a time. Throws the error of a request that fails. */
export async function runRequests(core: EngineCore, requests: readonly EngineRequest[], batch: number): Promise<Run> {
  const answers = requests.map(() => ({ tokens: [] as number[], numSteps: 0, firstMs: 0, lastMs: 0 }));
  let numAdded = 0;
  const addNext = (): void => {
    const request = requests[numAdded];
    if (request !== undefined) core.add(numAdded++, request);
  };
  const startMs = performance.now();
  while (numAdded < Math.min(batch, requests.length)) addNext();
  while (core.hasWork) {
    const outputs = await core.step();
    const [failure] = core.takeFailures();
    if (failure !== undefined) throw failure.error;
    const nowMs = performance.now();
    for (const { requestId, output } of outputs) {
      const answer = answers[requestId]!;
      if (answer.tokens.length === 0) answer.firstMs = nowMs;
      answer.lastMs = nowMs;
      answer.numSteps++;
      answer.tokens.push(...output.tokenIds);
      if (output.finishReason !== undefined) addNext();
    }
  }
  const decodingMs = answers.reduce((sum, { firstMs, lastMs }) => sum + lastMs - firstMs, 0);
  return { answers, times: { wholeMs: performance.now() - startMs, decodingMs } };
}

function assertSame(plain: readonly Answer[], drafted: readonly Answer[]): void {
  const index = plain.findIndex(({ tokens }, i) => tokens.join() !== drafted[i]!.tokens.join());
  if (index < 0) return;
  throw new MillraceError(
    "engine_failed",
    `expected the same tokens with drafts as without, got others for prompt ${index}`,
  );
}
