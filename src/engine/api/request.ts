/** A request as the engine takes it: token ids, sampling, and terms. Text is the business of `serve`. */
import { MillraceError } from "../../core/errors.js";
import type { Pooling } from "../../model/pooling.js";

export type { Pooling };

/** Bounds of a request's lists; `submit` refuses more with invalid_parameter. */
export const MAX_LOGPROBS = 20;
export const MAX_LOGIT_BIASES = 1024;
export const MAX_STOP_TOKENS = 256;
export const MAX_ALLOWED_TOKENS = 16_384;
export const MAX_BAD_WORDS = 1024;
/** Of one of them. */
export const MAX_BAD_WORD_TOKENS = 128;

/** Temperatures below this leave only the likeliest token, and dividing by them would overflow (vLLM draws the line at the same place). */
export const GREEDY_TEMPERATURE = 1e-5;

/** How a next token is chosen; every field is already validated and defaulted. */
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
  /** 64 bits; drawn at the door when the client sent none. Choice i of n already has its own (see choiceSeed). */
  readonly seed: bigint;
  /** Output tokens at most; 0 = only prompt log-probabilities. */
  readonly maxTokens: number;
  /** Stop tokens are banned until this many output tokens exist. */
  readonly minTokens: number;
  /** Ends the sequence (the token is reported, and is the last). The model's own stop ids are included unless ignoreEos. */
  readonly stopTokenIds: readonly number[];
  readonly logitBias: readonly (readonly [tokenId: number, bias: number])[];
  /** The only tokens that may come, the stop tokens among them only where they are named; absent = all. */
  readonly allowedTokenIds?: readonly number[] | undefined;
  /** Sequences of tokens that may not come in the output. */
  readonly badWords?: readonly (readonly number[])[] | undefined;
  /** How many top log-probabilities come with each output token; 0 = only the chosen token's; undefined = none. At most 20. */
  readonly numLogprobs: number | undefined;
  /** The same for the prompt's tokens. Such a request does not read the prefix cache. */
  readonly numPromptLogprobs: number | undefined;
}

/** The likeliest token each time, and nothing else asked for. */
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
  /** What the output must be, as `recipeText` says it. It then ends with one of the model's own stop ids, which sampling.stopTokenIds must have. */
  readonly constraint?: { readonly recipe: string };
  /** Asks for the prompt's hidden states as one vector; maxTokens is 0. The mean does not read the prefix cache. */
  readonly pooling?: Pooling;
  /** Requests share cached prefixes only with requests of the same salt. */
  readonly cacheSalt?: string;
  /** Under the policy `priority` lower numbers go first; 0 when missing. */
  readonly priority?: number;
  /** Whose request it is: the policy `fair` gives each tenant the same. */
  readonly tenant?: string;
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

/** Seed of choice `index` of a request's n choices: the request's own for the first, hashed apart for the others (E5). */
export function choiceSeed(seed: bigint, index: number): bigint {
  if (index === 0) return BigInt.asUintN(64, seed);
  let z = BigInt.asUintN(64, seed + BigInt(index) * 0x9e3779b97f4a7c15n);
  z = BigInt.asUintN(64, (z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n);
  z = BigInt.asUintN(64, (z ^ (z >> 27n)) * 0x94d049bb133111ebn);
  return z ^ (z >> 31n);
}
