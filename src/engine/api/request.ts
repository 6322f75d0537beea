/** A request to the engine: token ids, sampling, terms, and the recipe of a grammar. `serve` handles all other text. */
import { MillraceError } from "../../core/errors.js";
import type { Pooling } from "../../model/description/pooling.js";

export type { Pooling };

/** Bounds of a request's lists; `submit` refuses more with invalid_parameter. */
export const MAX_LOGPROBS = 20;
export const MAX_LOGIT_BIASES = 1024;
export const MAX_STOP_TOKENS = 256;
export const MAX_ALLOWED_TOKENS = 16_384;
export const MAX_BAD_WORDS = 1024;
/** Tokens of one bad word. */
export const MAX_BAD_WORD_TOKENS = 128;
/** DRY's breakers, one for each character of their texts. */
export const MAX_DRY_BREAKERS = 256;

/** Below this temperature sampling is greedy: dividing by it would overflow (vLLM uses the same bound). */
export const GREEDY_TEMPERATURE = 1e-5;

/** Bounds the thought with which an output begins: once it has `maxTokens` tokens, its end is the only one allowed. */
export interface ThoughtBound {
  readonly maxTokens: number;
  readonly closeId: number;
  /** The token that begins a thought, behind nothing but tokens of white space; absent: the output begins inside it. */
  readonly opening?: { readonly id: number; readonly blankIds: ReadonlySet<number> };
}

/** Tokens that break repetitions off: one of the heads, and all of the tail behind it. */
export interface DryBreaker {
  readonly heads: ArrayLike<number> & Iterable<number>;
  readonly tail: readonly number[];
}

/**
 * DRY: a token that would go on with a repetition of n tokens loses multiplier · base^(n − allowedLength), if n is at
 * least allowedLength.
 */
export interface DryPenalty {
  readonly multiplier: number;
  readonly base: number;
  readonly allowedLength: number;
  /** How many of the last tokens are looked at; absent = all. */
  readonly window?: number | undefined;
  /** A repetition begins after the last breaker in the text. */
  readonly breakers: readonly DryBreaker[];
}

/** How the next token is chosen. Every field is validated and has its default applied. */
export interface SamplingParams {
  /** Below GREEDY_TEMPERATURE: greedy. */
  readonly temperature: number;
  /** 0 = off. */
  readonly topK: number;
  /** 1 = off. */
  readonly topP: number;
  /** 0 = off. */
  readonly minP: number;
  readonly presencePenalty: number;
  readonly frequencyPenalty: number;
  /** 1 = off. */
  readonly repetitionPenalty: number;
  /** How many of the last tokens these penalties read; absent = all. */
  readonly penaltyWindow?: number | undefined;
  /** Absent = off. */
  readonly dry?: DryPenalty | undefined;
  /** Excludes tokens whose logit is more than this many standard deviations below the highest; absent = off. */
  readonly topNSigma?: number | undefined;
  /** Of the tokens whose information is nearest to the entropy, those that have this probability; absent = off. */
  readonly typicalP?: number | undefined;
  /** With this probability, all tokens of at least `threshold` but the least likely one are excluded; absent = off. */
  readonly xtc?: { readonly probability: number; readonly threshold: number } | undefined;
  /** The temperature is up to `range` lower where few tokens are likely, and higher where many are; absent = off. */
  readonly dynamicTemperature?: { readonly range: number; readonly exponent: number } | undefined;
  /** 64 bits; the server draws one for a client that sent none. Each choice of n has its own (choiceSeed). */
  readonly seed: bigint;
  /** Upper bound of output tokens; 0 = only prompt log-probabilities. */
  readonly maxTokens: number;
  /** Stop tokens are barred until this many output tokens exist. */
  readonly minTokens: number;
  /**
   * Tokens that end the sequence; the stop token is reported as the last one. Includes the model's own stop ids unless
   * the client ignores them.
   */
  readonly stopTokenIds: readonly number[];
  readonly logitBias: readonly (readonly [tokenId: number, bias: number])[];
  /** The only tokens allowed; stop tokens must be listed too. Absent = all. */
  readonly allowedTokenIds?: readonly number[] | undefined;
  /** Token sequences barred from the output. */
  readonly badWords?: readonly (readonly number[])[] | undefined;
  /** Absent = thoughts of any length. */
  readonly thought?: ThoughtBound | undefined;
  /**
   * Number of top log-probabilities with each output token; 0 = only the chosen token's; undefined = none. At most 20.
   */
  readonly numLogprobs: number | undefined;
  /** The same for the prompt's tokens. Such a request reads no cached prefix. */
  readonly numPromptLogprobs: number | undefined;
}

/** Greedy sampling with every penalty, filter and list off. */
export const GREEDY_SAMPLING: Omit<SamplingParams, "maxTokens"> = {
  temperature: 0,
  topK: 0,
  topP: 1,
  minP: 0,
  presencePenalty: 0,
  frequencyPenalty: 0,
  repetitionPenalty: 1,
  seed: 0n,
  minTokens: 0,
  stopTokenIds: [],
  logitBias: [],
  numLogprobs: undefined,
  numPromptLogprobs: undefined,
};

export interface EngineRequest {
  /** 1 … contextLength ids, each in the vocabulary. */
  readonly promptIds: Int32Array;
  readonly sampling: SamplingParams;
  /**
   * The form of the output, as `recipeText` encodes it. The output ends with one of the model's stop ids, which
   * sampling.stopTokenIds must contain.
   */
  readonly constraint?: { readonly recipe: string };
  /** Asks for the prompt's hidden states as one vector; maxTokens is 0. The mean reads no cached prefix. */
  readonly pooling?: Pooling;
  /**
   * Position of the first token of the second of two texts, in models that tell them apart; absent: there is one text.
   */
  readonly secondTextStart?: number;
  /** Requests share cached prefixes only with requests of the same salt. */
  readonly cacheSalt?: string;
  /** Policy `priority`: lower numbers go first; 0 when absent. */
  readonly priority?: number;
  /** Tenant of the request: the policy `fair` shares the engine equally among tenants. */
  readonly tenant?: string;
  /**
   * Computed only in steps that have nothing else to compute, whatever the policy; its seat and memory go to others
   * that need them.
   */
  readonly isBackground?: boolean;
}

/** Throws token_out_of_range, naming `param`, unless every id is in the vocabulary. */
export function assertTokenIds(ids: ArrayLike<number>, vocabSize: number, param: string): void {
  for (let i = 0; i < ids.length; i++) {
    const id = ids[i]!;
    if (Number.isInteger(id) && id >= 0 && id < vocabSize) continue;
    throw new MillraceError(
      "token_out_of_range",
      `expected token ids in [0, ${vocabSize - 1}], got ${id} at index ${i}`,
      {
        param,
      },
    );
  }
}

/** Seed of choice `index` among n: the request's own for the first, a hash of it for each other (exactness rule E5). */
export function choiceSeed(seed: bigint, index: number): bigint {
  if (index === 0) return BigInt.asUintN(64, seed);
  let z = BigInt.asUintN(64, seed + BigInt(index) * 0x9e3779b97f4a7c15n);
  z = BigInt.asUintN(64, (z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n);
  z = BigInt.asUintN(64, (z ^ (z >> 27n)) * 0x94d049bb133111ebn);
  return z ^ (z >> 31n);
}
