/** What the engine offers the main thread: requests of token ids in, token ids out, one callback per step. Text is `serve`'s business. */

import type { BackendOptions } from "../backend/backend.js";
import type { KvType } from "../backend/ops.js";
import type { MillraceError } from "../core/errors.js";
import type { Pooling } from "../model/pooling.js";
import type { BlockChanges, CachedBlocks } from "../text/cached-blocks.js";
import type { ConstraintStats } from "./constraint/stats.js";
import type { DiskTierOptions, DiskTierStats } from "./memory/disk-tier.js";

export type { Pooling };

import { DEFAULT_SPECULATIVE_CONFIG, type SpeculativeConfig } from "./speculative/config.js";
import type { SpeculationStats } from "./speculative/stats.js";

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

export interface TokenLogprob {
  readonly tokenId: number;
  readonly logprob: number;
  /** 1 = most likely. */
  readonly rank: number;
  /** Most likely tokens, best first; does not necessarily contain the token itself. */
  readonly top: readonly { readonly tokenId: number; readonly logprob: number }[];
}

/** stop: a stop token came; length: maxTokens or the context is full. */
export type FinishReason = "stop" | "length";

/** One step's news of one request. */
export interface EngineOutput {
  readonly tokenIds: readonly number[];
  /** Parallel to tokenIds when log-probabilities were asked for. */
  readonly logprobs?: readonly TokenLogprob[];
  /** For each prompt position (null for the first), once, with or before the first token. */
  readonly promptLogprobs?: readonly (TokenLogprob | null)[];
  /** [embeddingWidth], not normalised; once, at the end, when asked for. */
  readonly pooled?: Float64Array;
  readonly finishReason?: FinishReason;
  /** The stop token that ended the sequence. */
  readonly stopTokenId?: number;
  /** Prompt tokens that came from the prefix cache at first admission. */
  readonly numCachedTokens: number;
  /** Milliseconds from arrival at the engine to first admission. */
  readonly queueMs: number;
}

export interface EngineListener {
  onOutput(output: EngineOutput): void;
  /** The request ended without a finish reason; nothing follows. Not called after abort(). */
  onError(error: MillraceError): void;
}

export interface EngineHandle {
  /** Stops costing within one step; no further callbacks. Safe at any time, any number of times. */
  abort(): void;
}

export const SCHEDULING_POLICIES = ["fcfs", "priority", "fair"] as const;
export type SchedulingPolicyName = (typeof SCHEDULING_POLICIES)[number];

/** A backend takes its own part; the engine knows what the rest means. */
export interface EngineOptions extends BackendOptions {
  /** Path of a GGUF file (the first shard of a split one) or of a folder with config.json and safetensors files. */
  readonly modelPath: string;
  /** Longest sequence, prompt and output together; undefined = the model's own context. */
  readonly maxModelLen: number | undefined;
  readonly maxNumSeqs: number;
  readonly maxNumBatchedTokens: number;
  readonly blockSize: number;
  readonly kvCacheDtype: KvType;
  /** undefined = what maxNumSeqs sequences of maxModelLen need, at most a quarter of the free memory. */
  readonly kvCacheMemoryBytes: number | undefined;
  readonly enablePrefixCaching: boolean;
  /** Where cached prefixes are kept beyond memory and beyond this process; undefined = nowhere. */
  readonly prefixCacheDisk: DiskTierOptions | undefined;
  readonly enableChunkedPrefill: boolean;
  readonly schedulingPolicy: SchedulingPolicyName;
  /** How long prompts may stretch a step in which others decode, in milliseconds; auto: in proportion to decoding alone; 0: as they like. */
  readonly maxStepMs: number | "auto";
  /** continuous; static: nothing is admitted while a batch runs. */
  readonly batching: "continuous" | "static";
  /** paged: blocks on demand; contiguous: maxModelLen reserved per sequence at admission. */
  readonly kvLayout: "paged" | "contiguous";
  /** How a prompt becomes one vector; auto: as the model says, the last position when it says nothing. */
  readonly pooling: "auto" | Pooling;
  /** Requests waiting for a seat before new ones get queue_full. */
  readonly maxWaitingRequests: number;
  /** What guesses tokens ahead for the model to check; results are the same with any. */
  readonly speculative: SpeculativeConfig;
}

export const DEFAULT_ENGINE_OPTIONS = {
  cpuAffinity: undefined,
  maxModelLen: undefined,
  maxNumSeqs: 64,
  // From 64 rows on a step is as fast per row as it gets; short steps keep who comes, or cancels, from waiting.
  maxNumBatchedTokens: 128,
  blockSize: 16,
  kvCacheDtype: "f16",
  activationDtype: "auto",
  packCache: undefined,
  kvCacheMemoryBytes: undefined,
  enablePrefixCaching: true,
  prefixCacheDisk: undefined,
  shareKvReads: true,
  enableChunkedPrefill: true,
  schedulingPolicy: "fcfs",
  maxStepMs: 0,
  batching: "continuous",
  kvLayout: "paged",
  pooling: "auto",
  maxWaitingRequests: 1024,
  speculative: DEFAULT_SPECULATIVE_CONFIG,
} as const satisfies Omit<EngineOptions, "modelPath" | "numThreads">;

/** Facts about a started engine. */
export interface EngineInfo {
  readonly architecture: string;
  /** The quantisation most of the weights have. */
  readonly weightType: string;
  readonly numParameters: number;
  readonly weightBytes: number;
  readonly vocabSize: number;
  readonly maxModelLen: number;
  /** Sequences it computes at once. */
  readonly maxNumSeqs: number;
  /** Values of a pooled vector. */
  readonly embeddingWidth: number;
  readonly pooling: Pooling;
  readonly blockSize: number;
  /** Per KV group: the sliding window of its layers, 0 = everything is seen. */
  readonly kvWindows: readonly number[];
  /** Of the layers that attend to everything; those with a sliding window have fewer. */
  readonly numKvBlocks: number;
  readonly kvBytes: number;
  readonly kvCacheDtype: KvType;
  readonly numThreads: number;
  readonly isa: string;
}

/** A snapshot after the latest step; counters only grow. */
export interface EngineStats {
  readonly numRunning: number;
  readonly numWaiting: number;
  /** Blocks referenced by a sequence (cached but free blocks do not count), of numKvBlocks. */
  readonly numUsedKvBlocks: number;
  readonly prefixCacheQueriedTokens: number;
  readonly prefixCacheHitTokens: number;
  readonly numPreemptions: number;
  readonly numPromptTokens: number;
  readonly numGenerationTokens: number;
  readonly numSteps: number;
  /** Bytes of K and V that attention read, and that it would have read without sharing. */
  readonly kvBytesRead: number;
  readonly kvBytesUnshared: number;
  readonly speculation: SpeculationStats;
  readonly constraints: ConstraintStats;
  readonly prefixCacheDisk: DiskTierStats;
  /** Wall time inside submit(), and of whole steps: their difference is the loop's own cost. */
  readonly kernelMs: number;
  readonly stepMs: number;
}

/** The engine as the main thread sees it. `engine.ts` implements it over a worker thread. */
export interface Engine {
  readonly info: EngineInfo;
  /**
   * Never blocks. Throws at once: shutting_down, queue_full (with retryAfterSeconds), context_length_exceeded, kv_capacity_exceeded,
   * token_out_of_range, empty_prompt, engine_failed. Callbacks arrive later, in order.
   */
  submit(request: EngineRequest, listener: EngineListener): EngineHandle;
  stats(): EngineStats;
  /** How long the engine's loop has stood still though it has requests; 0 where that is no longer than a step may take. */
  stalledMs(): number;
  /** What the prefix cache holds, as of the latest step. */
  readonly cachedBlocks: CachedBlocks;
  /** @param listener gets what each step changed of it, before that step's outputs go out @returns ends it */
  onCacheChanges(listener: (changes: BlockChanges) => void): () => void;
  /** Refuses new requests and resolves when the accepted ones have ended. */
  drain(): Promise<void>;
  /** Ends at once; open requests get shutting_down. */
  close(): Promise<void>;
  /** Rejects when the worker dies; never resolves otherwise. */
  readonly failure: Promise<never>;
}

/** Seed of choice `index` of a request's n choices: the request's own for the first, hashed apart for the others (E5). */
export function choiceSeed(seed: bigint, index: number): bigint {
  if (index === 0) return BigInt.asUintN(64, seed);
  let z = BigInt.asUintN(64, seed + BigInt(index) * 0x9e3779b97f4a7c15n);
  z = BigInt.asUintN(64, (z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n);
  z = BigInt.asUintN(64, (z ^ (z >> 27n)) * 0x94d049bb133111ebn);
  return z ^ (z >> 31n);
}
