/**
 * Chooses drafts for a mix of tasks: every candidate gets a first look beside plain decoding, the best get a closer
 * one, and the winner is measured again alone. This module decides; a bench measures.
 */
import { type Estimate, geometricMean } from "../../bench/measure/intervals.js";
import type { Candidate } from "./candidates.js";

/** Requests of one class at one temperature. */
export interface Cell {
  readonly className: string;
  /** @example "0.8", or "> 0" for requests with their own temperatures */
  readonly temperature: string;
  /** Share of the user's decoding time without drafts; all cells sum to 1. */
  readonly share: number;
}

/** One cell's rounds with one candidate. */
export interface CellMeasured {
  /** Decoding time without drafts ÷ with drafts, one ratio per round. */
  readonly ratios: readonly number[];
  readonly numDraftTokens: number;
  readonly numAcceptedTokens: number;
  /** Number of tokens after the first, and of their steps; the quotient is the tokens per step. */
  readonly numTokens: number;
  readonly numSteps: number;
}

/**
 * In the order of the cells, whose ratios of equal index belong to the same round; or the reason why the candidate
 * could not be measured.
 */
export type Measured = { readonly cells: readonly CellMeasured[] } | { readonly problem: string };

/** first: all candidates; closer: the best ones; again: the winner. */
export type Look = "first" | "closer" | "again" | "again, closer";

export interface DraftsBench {
  measure(candidate: Candidate, numRounds: number, look: Look): Promise<Measured>;
}

export interface SearchSettings {
  readonly cells: readonly Cell[];
  readonly candidates: readonly Candidate[];
  readonly numRounds: number;
  /** Time on the clock after which no further candidate is measured. */
  readonly deadlineMs: number;
  /** Default: `performance.now`. */
  readonly clock?: () => number;
}

export interface Ranked {
  readonly candidate: Candidate;
  readonly cells: readonly CellMeasured[];
  /** Decoding speed on the user's mix, with drafts ÷ without. */
  readonly mix: Estimate;
}

export interface SpeculationTuning {
  /** Fastest on the mix first. */
  readonly ranking: readonly Ranked[];
  readonly failed: readonly { readonly candidate: Candidate; readonly problem: string }[];
  /** undefined: no drafts */
  readonly chosen: Candidate | undefined;
  /** The winner of the ranking, measured again; undefined: no candidate was worth it. */
  readonly confirmed: Estimate | undefined;
  /** The reason for the result. */
  readonly end: string;
}

/** Rounds of a closer look, in addition to those of a first one. */
const MORE_ROUNDS = 2;
/** Least gain for a closer look. */
const PROMISING = 1.015;
const MOST_CONTENDERS = 4;

export async function tuneSpeculation(
  { cells, candidates, numRounds, deadlineMs, clock = () => performance.now() }: SearchSettings,
  bench: DraftsBench,
  onRanked: (ranked: Ranked, look: Look) => void,
  signal: AbortSignal,
): Promise<SpeculationTuning> {
  const ranked: Ranked[] = [];
  const problems = new Map<Candidate, string>();
  const look = async (
    candidate: Candidate,
    count: number,
    which: Look,
  ): Promise<readonly CellMeasured[] | undefined> => {
    const measured = await bench.measure(candidate, count, which);
    signal.throwIfAborted();
    if ("cells" in measured) return measured.cells;
    problems.set(candidate, measured.problem);
    return undefined;
  };
  let isLate = false;
  for (const candidate of candidates) {
    isLate = clock() >= deadlineMs;
    if (isLate) break;
    const measured = await look(candidate, numRounds, "first");
    if (measured === undefined) continue;
    ranked.push(rankedOf(candidate, measured, cells));
    onRanked(ranked.at(-1)!, "first");
  }
  const numLooked = ranked.length + problems.size;
  const closely = new Set<Candidate>();
  for (const { candidate, cells: before } of contendersOf(ranked)) {
    if (clock() >= deadlineMs) break;
    const more = await look(candidate, numRounds + MORE_ROUNDS, "closer");
    if (more === undefined) continue;
    const index = ranked.findIndex((each) => each.candidate === candidate);
    ranked[index] = rankedOf(candidate, joined(before, more), cells);
    closely.add(candidate);
    onRanked(ranked[index]!, "closer");
  }
  const late = isLate ? `; the budget of time was spent after ${numLooked} candidates` : "";
  const rankingNow = (): Ranked[] =>
    ranked.filter(({ candidate }) => !problems.has(candidate)).sort((a, b) => b.mix.value - a.mix.value);
  const ended = (chosen: Candidate | undefined, confirmed: Estimate | undefined, end: string): SpeculationTuning => ({
    ranking: rankingNow(),
    failed: [...problems].map(([candidate, problem]) => ({ candidate, problem })),
    chosen,
    confirmed,
    end: `${end}${late}`,
  });
  const ranking = rankingNow();
  // A candidate with few rounds may be lucky, so candidates with a closer look go before it.
  const winner = ranking.find(({ candidate }) => closely.has(candidate)) ?? ranking[0];
  if (winner === undefined) return ended(undefined, undefined, "no candidate could be measured");
  if (winner.mix.value <= PROMISING || (winner.mix.high ?? 2) <= 1) {
    return ended(undefined, undefined, "no drafts gain on these requests");
  }
  // The largest of many ratios is partly luck, so only the new rounds count.
  let again = await look(winner.candidate, numRounds + MORE_ROUNDS, "again");
  let confirmed = again && mixOf(again, cells);
  if (again !== undefined && confirmed !== undefined && isInDoubt(confirmed)) {
    const more = await look(winner.candidate, numRounds + MORE_ROUNDS, "again, closer");
    again = more && joined(again, more);
    confirmed = again && mixOf(again, cells);
  }
  if ((confirmed?.low ?? 0) > 1) return ended(winner.candidate, confirmed, "the gain is sure");
  return ended(undefined, confirmed, `the gain of ${winner.candidate.name} is not sure when measured again`);
}

const isInDoubt = ({ value, low = 0, high = 2 }: Estimate): boolean => low <= 1 && high > 1 && value > PROMISING;

/** Candidates that gain, and that may be as fast as the fastest one. */
function contendersOf(ranked: readonly Ranked[]): readonly Ranked[] {
  const sorted = [...ranked].sort((a, b) => b.mix.value - a.mix.value);
  const [leader] = sorted;
  return sorted
    .filter(({ mix }) => mix.value > PROMISING && (mix.high ?? mix.value) >= (leader!.mix.low ?? 0))
    .slice(0, MOST_CONTENDERS);
}

const rankedOf = (candidate: Candidate, measured: readonly CellMeasured[], cells: readonly Cell[]): Ranked => ({
  candidate,
  cells: measured,
  mix: mixOf(measured, cells),
});

/** For each round, the time of the whole mix without drafts ÷ with drafts: the harmonic mean by the cells' shares. */
function mixOf(measured: readonly CellMeasured[], cells: readonly Cell[]): Estimate {
  const numRounds = Math.min(...measured.map(({ ratios }) => ratios.length));
  const total = cells.reduce((sum, { share }) => sum + share, 0);
  const rounds = Array.from({ length: numRounds }, (_, round) => {
    const time = measured.reduce((sum, { ratios }, index) => sum + cells[index]!.share / ratios[round]!, 0);
    return total / time;
  });
  return geometricMean(rounds)!;
}

const joined = (first: readonly CellMeasured[], more: readonly CellMeasured[]): CellMeasured[] =>
  first.map((cell, index) => {
    const other = more[index]!;
    return {
      ratios: [...cell.ratios, ...other.ratios],
      numDraftTokens: cell.numDraftTokens + other.numDraftTokens,
      numAcceptedTokens: cell.numAcceptedTokens + other.numAcceptedTokens,
      numTokens: cell.numTokens + other.numTokens,
      numSteps: cell.numSteps + other.numSteps,
    };
  });
