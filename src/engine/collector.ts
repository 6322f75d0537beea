/**
 * Takes the rows of a computed step into their sequences: hidden states to pool, scores of prompt tokens, sampled tokens with the drafts they
 * confirm, and the end of the sequence.
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
}

type Writable<Type> = { -readonly [Key in keyof Type]: Type[Key] };

export class Collector {
  numPromptTokens = 0;
  numGenerationTokens = 0;

  constructor(
    private readonly parts: EngineParts,
    private readonly speculator: Speculator | undefined,
  ) {}

  /** @returns undefined while prompt tokens are left to compute; the error of a sequence for which the model gave no numbers */
  take(rows: SequenceRows): EngineOutput | MillraceError | undefined {
    const { sequence, numNewTokens, firstTap, numTaps, firstScore, numScores } = rows;
    const { transformer, sampler, kv } = this.parts;
    for (let i = 0; i < numTaps; i++) sequence.pooler!.add(transformer.tappedHidden(firstTap + i));
    for (let i = 0; i < numScores; i++) {
      const scores = sequence.promptLogprobs!;
      const numTop = sequence.sampling.numPromptLogprobs ?? 0;
      scores.push(sampler.logprob(firstScore + i, sequence.tokens[scores.length]!, numTop));
    }
    sequence.numComputedTokens += numNewTokens;
    if (sequence.numComputedTokens >= sequence.numTokens) return this.#advance(sequence, rows.firstSample);
    kv.settle(sequence);
    return undefined;
  }

  /**
   * Every token of the sequence is computed: appends the sampled ones and reports them.
   * @param firstRow the logit row of the last token, which the rows of the draft follow; undefined: the step samples nothing
   */
  #advance(sequence: Sequence, firstRow: number | undefined): EngineOutput | MillraceError {
    const isFirst = sequence.numOutputTokens === 0;
    if (isFirst) this.numPromptTokens += sequence.numPromptTokens;
    const { numDraftTokens } = sequence;
    const added = this.#appendSampled(sequence, firstRow);
    if (added === undefined) return notNumbers(`the logits of token ${sequence.numTokens}`);
    const { tokenIds, logprobs, finishReason, stopTokenId } = added;
    const hidden = sequence.pooler?.result();
    const pooled = hidden && (this.parts.head?.apply(hidden) ?? hidden);
    if (pooled?.every(Number.isFinite) === false) return notNumbers("every hidden state");
    this.numGenerationTokens += tokenIds.length;
    this.parts.kv.settle(sequence);
    // Drafts after the final token were never verified.
    const numVerified = finishReason === undefined ? numDraftTokens : Math.min(numDraftTokens, tokenIds.length);
    const numAccepted = sequence.numComputedTokens - (sequence.numTokens - tokenIds.length);
    this.speculator?.observe(sequence, numVerified, numAccepted);
    const output: Writable<EngineOutput> = {
      tokenIds,
      numCachedTokens: sequence.numCachedTokens,
      queueMs: sequence.queueMs ?? 0,
    };
    if (sequence.sampling.numLogprobs !== undefined) output.logprobs = logprobs;
    if (isFirst && sequence.promptLogprobs !== undefined) output.promptLogprobs = sequence.promptLogprobs;
    if (pooled !== undefined) output.pooled = pooled;
    if (finishReason !== undefined) output.finishReason = finishReason;
    if (stopTokenId !== undefined) output.stopTokenId = stopTokenId;
    return output;
  }

  /**
   * Appends the token sampled after the last computed one and, as long as the draft equals the samples, those sampled after the draft's tokens.
   * @returns undefined where logits are no numbers
   */
  #appendSampled(sequence: Sequence, firstRow: number | undefined): NewTokens | undefined {
    const { sampling, numDraftTokens } = sequence;
    const { sampler, info } = this.parts;
    const finishReason = sampling.maxTokens === 0 ? "length" : undefined;
    const added: NewTokens = { tokenIds: [], logprobs: [], finishReason, stopTokenId: undefined };
    sequence.numDraftTokens = 0;
    for (let i = 0; firstRow !== undefined && added.finishReason === undefined; i++) {
      const drafted = i < numDraftTokens ? sequence.tokens[sequence.numTokens] : undefined;
      const tokenId = sampler.tokenId(firstRow + i);
      if (tokenId === undefined) return undefined;
      sequence.append(tokenId);
      added.tokenIds.push(tokenId);
      if (sampling.numLogprobs !== undefined) {
        added.logprobs.push(sampler.logprob(firstRow + i, tokenId, sampling.numLogprobs));
      }
      if (sampling.stopTokenIds.includes(tokenId)) added.stopTokenId = tokenId;
      const isFull = sequence.numOutputTokens >= sampling.maxTokens || sequence.numTokens >= info.maxModelLen;
      added.finishReason = added.stopTokenId !== undefined ? "stop" : isFull ? "length" : undefined;
      if (tokenId !== drafted) break;
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
