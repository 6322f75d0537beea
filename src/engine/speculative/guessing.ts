/** The loop in which heads draft: each round drafts one token for every sequence that still wants one. */
import type { SamplerIo } from "../sampler/sampler-io.js";
import type { Sequence } from "../step/sequence.js";
import type { StepBatch } from "../step/step-batch.js";
import type { StepCost } from "../step/step-cost.js";
import { type Draft, type GoesOn, type GrowingDraft, isLast } from "./drafter.js";

/** Drafted where a head overflows; the model verifies it like any other token. */
const ANY_TOKEN = 0;

/** A sequence in a round of guesses. */
export interface Guessed {
  readonly sequence: Sequence;
  readonly draft: readonly number[];
  /** Its place among the sequences of the round before. */
  readonly place: number;
}

/** Computes a round of guesses. */
interface Guesser {
  readonly batch: StepBatch;
  /** Has a row for each sequence of the round, in order. */
  readonly sampler: SamplerIo;
  readonly cost: StepCost;
  /** Likeliest tokens that the sampler reports of a first guess; absent: none. */
  readonly numRanked?: number;
  /** Is there memory for another guess? Absent: there always is. */
  hasRoom?(sequence: Sequence, numDrafted: number): boolean;
  /** @param depth guesses made so far */
  layOut(round: readonly Guessed[], depth: number): void;
  forward(depth: number): Promise<void>;
}

/** As `BatchDrafter.propose` says. */
export async function guessInTurn(
  guesser: Guesser,
  sequences: readonly Sequence[],
  numTokens: number,
  goesOn: GoesOn,
): Promise<readonly Draft[]> {
  const { batch, sampler, cost, numRanked = 0 } = guesser;
  const drafts = sequences.map((): GrowingDraft => ({ tokens: [], chances: [] }));
  let active = sequences.map((sequence, index) => ({ index, sequence, place: index }));
  for (let depth = 0; depth < numTokens; depth++) {
    const startMs = performance.now();
    active = active.filter(({ sequence }) => guesser.hasRoom?.(sequence, depth) !== false);
    if (active.length === 0) break;
    batch.clear();
    sampler.clear();
    const round = active.map(({ index, sequence, place }) => ({ sequence, draft: drafts[index]!.tokens, place }));
    guesser.layOut(round, depth);
    await guesser.forward(depth);
    const numGuesses = active.length;
    active = active
      .map(({ index, sequence }, place) => ({ index, sequence, place }))
      .filter(({ index, sequence, place }) => {
        const token = sampler.tokenId(place);
        const chance = token === undefined ? 0 : sampler.probability(place);
        drafts[index]!.tokens.push(token ?? ANY_TOKEN);
        drafts[index]!.chances.push(chance);
        if (depth === 0 && numRanked > 0 && token !== undefined) {
          const others = sampler.logprob(place, token, numRanked).top.filter(({ tokenId }) => tokenId !== token);
          const tokens = others.map(({ tokenId }) => tokenId);
          drafts[index]!.alternatives = { tokens, chances: others.map(({ logprob }) => Math.exp(logprob)) };
        }
        return goesOn(index, chance, numGuesses) && !isLast(sequence, token);
      });
    // Rows that only catch up are not part of a guess.
    if (batch.numRows === numGuesses) cost.observe(numGuesses, performance.now() - startMs);
  }
  for (const sequence of sequences) sequence.numDraftTokens = 0;
  return drafts;
}
