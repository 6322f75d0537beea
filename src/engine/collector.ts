/**
 * Takes the rows of a computed step into their sequences: hidden states to pool, scores of prompt tokens, sampled
 * tokens with the drafts they confirm, and the end of the sequence.
 */
import { MillraceError } from "../core/errors.js";
import type { EngineOutput, FinishReason, TokenLogprob } from "./api/output.js";
import type { EngineParts } from "./engine-parts.js";
import type { Speculator } from "./speculative/speculator.js";
import type { Sequence } from "./step/sequence.js";
import type { SequenceRows } from "./step-layout.js";

/** Tokens that one step adds to a sequence. */
interface NewTokens {
  readonly tokenIds: number[];
  /** Parallel to tokenIds where log-probabilities were asked for, else empty. */
  readonly logprobs: TokenLogprob[];
  finishReason: FinishReason | undefined;
  stopTokenId: number | undefined;
  /** The first token is an alternative to the drafted one. */
  usedAlternative: boolean;
}

type Writable<Type> = { -readonly [Key in keyof Type]: Type[Key] };

export class Collector {
  numPromptTokens = 0;
  numGenerationTokens = 0;

  constructor(
    private readonly parts: EngineParts,
    private readonly speculator: Speculator | undefined,
  ) {}

  /**
   * @returns undefined while prompt tokens are left to compute; an error when the model's results are NaN or infinite
   */
  take(rows: SequenceRows): EngineOutput | MillraceError | undefined {
    const { sequence, numNewTokens, firstTap, numTaps, firstScore, numScores } = rows;
    const { transformer, sampler, kv } = this.parts;
    for (let i = 0; i < numTaps; i++) sequence.pooler!.add(transformer.tappedHidden(firstTap + i));
    for (let i = 0; i < numScores; i++) {
      const scores = sequence.promptLogprobs!;
      const numTop = sequence.sampling.numPromptLogprobs ?? 0;
      const score = sampler.logprob(firstScore + i, sequence.tokens[scores.length]!, numTop);
      // The kernel turns NaN into −∞.
      if (!Number.isFinite(score.logprob)) return notNumbers(`the logits of token ${scores.length}`);
      scores.push(score);
    }
    sequence.numComputedTokens += numNewTokens;
    this.#countPrompt(sequence);
    if (sequence.numComputedTokens >= sequence.numTokens) return this.#advance(rows);
    kv.publishAndTrim(sequence);
    return undefined;
  }

  /** Counts each prompt token once: cached ones with the first chunk, recomputed ones not again. */
  #countPrompt(sequence: Sequence): void {
    const numTokens = Math.min(sequence.numComputedTokens, sequence.numPromptTokens);
    if (numTokens <= sequence.numCountedTokens) return;
    this.numPromptTokens += numTokens - sequence.numCountedTokens;
    sequence.numCountedTokens = numTokens;
  }

  /** Every token of the sequence is computed: appends the sampled ones and reports them. */
  #advance(rows: SequenceRows): EngineOutput | MillraceError {
    const { sequence } = rows;
    const isFirst = sequence.numOutputTokens === 0;
    const { numDraftTokens, alternatives } = sequence;
    const added = this.#appendSampled(rows);
    if (added === undefined) return notNumbers(`the logits of token ${sequence.numTokens}`);
    const { tokenIds, logprobs, finishReason, stopTokenId } = added;
    const hidden = sequence.pooler?.result();
    const pooled = hidden && (this.parts.head?.apply(hidden) ?? hidden);
    if (pooled?.every(Number.isFinite) === false) return notNumbers("every hidden state");
    this.numGenerationTokens += tokenIds.length;
    this.parts.kv.publishAndTrim(sequence);
    // Drafts after the final token were never verified.
    const numVerified = finishReason === undefined ? numDraftTokens : Math.min(numDraftTokens, tokenIds.length);
    const numAccepted = sequence.numComputedTokens - (sequence.numTokens - tokenIds.length);
    const alternative = added.usedAlternative ? alternatives.indexOf(tokenIds[0]!) : undefined;
    this.speculator?.observe(sequence, numVerified, numAccepted, {
      numVerified: alternatives.length,
      right: alternative,
    });
    const output: Writable<EngineOutput> = {
      tokenIds,
      numCachedTokens: sequence.numCachedTokens,
      queueMs: sequence.queueMs ?? 0,
    };
    const numEvictedTokens = this.parts.kv.numEvictedTokens(sequence);
    if (numEvictedTokens > 0) output.numEvictedTokens = numEvictedTokens;
    if (sequence.sampling.numLogprobs !== undefined) output.logprobs = logprobs;
    if (isFirst && sequence.promptLogprobs !== undefined) output.promptLogprobs = sequence.promptLogprobs;
    if (pooled !== undefined) output.pooled = pooled;
    if (finishReason !== undefined) output.finishReason = finishReason;
    if (stopTokenId !== undefined) output.stopTokenId = stopTokenId;
    return output;
  }

  /**
   * Appends the token sampled after the last computed one and, as long as the draft equals the samples, those sampled
   * after the draft's tokens.
   * @returns undefined where logits are no numbers
   */
  #appendSampled({ sequence, firstSample, firstAlternative, firstFork }: SequenceRows): NewTokens | undefined {
    const { sampling, numDraftTokens, alternatives } = sequence;
    const { sampler, info, forks } = this.parts;
    const finishReason = sampling.maxTokens === 0 ? "length" : undefined;
    const added: NewTokens = {
      tokenIds: [],
      logprobs: [],
      finishReason,
      stopTokenId: undefined,
      usedAlternative: false,
    };
    sequence.numDraftTokens = 0;
    sequence.alternatives = [];
    let row = firstSample;
    while (row !== undefined && added.finishReason === undefined) {
      const i = added.tokenIds.length;
      const isDrafted = i < numDraftTokens && !added.usedAlternative;
      const drafted = isDrafted ? sequence.tokens[sequence.numTokens] : undefined;
      const tokenId = sampler.tokenId(row);
      if (tokenId === undefined) return undefined;
      sequence.append(tokenId);
      added.tokenIds.push(tokenId);
      if (sampling.numLogprobs !== undefined) {
        added.logprobs.push(sampler.logprob(row, tokenId, sampling.numLogprobs));
      }
      if (sampling.stopTokenIds.includes(tokenId)) added.stopTokenId = tokenId;
      const isFull = sequence.numOutputTokens >= sampling.maxTokens || sequence.numTokens >= info.maxModelLen;
      added.finishReason = added.stopTokenId !== undefined ? "stop" : isFull ? "length" : undefined;
      const alternative = i === 0 && tokenId !== drafted ? alternatives.indexOf(tokenId) : -1;
      if (tokenId !== drafted && alternative < 0) break;
      if (alternative >= 0) {
        forks.keep(firstFork + alternative);
        added.usedAlternative = true;
      }
      row = alternative < 0 ? row + 1 : firstAlternative + alternative;
      // The step has stored the drafted token's K and V, which are those of the sampled token.
      sequence.numComputedTokens++;
    }
    return added;
  }
}

function notNumbers(place: string): MillraceError {
  const problem = `expected numbers in ${place}, got NaN or infinities: the weights are damaged or overflow`;
  return new MillraceError("not_a_number", problem);
}
