/** Facts and counters of an engine. */
import type { KvType } from "../../backend/ops.js";
import type { Pooling } from "../../model/description/pooling.js";
import type { Task } from "../../model/description/servable.js";
import type { EvictionOptions } from "./kv-eviction.js";

export type { Task };

/** Facts about a started engine. */
export interface EngineInfo {
  readonly architecture: string;
  /** Quantisation of most weight bytes. */
  readonly weightType: string;
  readonly numParameters: number;
  readonly weightBytes: number;
  readonly vocabSize: number;
  readonly maxModelLen: number;
  /** Sequences computed at once. */
  readonly maxNumSeqs: number;
  /** The tasks that the model can do for requests. */
  readonly tasks: readonly Task[];
  /** A token sees only those before it; false: an encoder, in which it sees the whole text. */
  readonly isCausal: boolean;
  /** Rows of the table of a request's first and second text; 0 or 1: the model does not tell them apart. */
  readonly numTokenTypes: number;
  /** Length of a pooled vector. */
  readonly embeddingWidth: number;
  readonly pooling: Pooling;
  readonly blockSize: number;
  /** Per KV pool: sliding window of its layers in tokens; 0 = full attention. Then that of recurrent states, if any. */
  readonly kvWindows: readonly number[];
  /** Blocks of the group with full attention; groups with a sliding window have fewer. */
  readonly numKvBlocks: number;
  readonly kvBytes: number;
  /** Memory of recurrent states: of seats, drafts and cached prefixes; 0: the model has no recurrent layers. */
  readonly recurrentBytes: number;
  readonly kvCacheDtype: KvType;
  readonly kvEviction: EvictionOptions | undefined;
  readonly numThreads: number;
  readonly isa: string;
}

/** A snapshot after the latest step. Counters only grow. */
export interface EngineStats {
  readonly numRunning: number;
  readonly numWaiting: number;
  /** Blocks in use by sequences, of numKvBlocks; cached free blocks do not count. */
  readonly numUsedKvBlocks: number;
  /** Tokens whose keys and values were evicted, averaged over the layers that evict. */
  readonly numEvictedTokens: number;
  readonly prefixCacheQueriedTokens: number;
  readonly prefixCacheHitTokens: number;
  readonly numPreemptions: number;
  readonly numPromptTokens: number;
  readonly numGenerationTokens: number;
  readonly numSteps: number;
  /** Bytes of K and V that attention read, and the bytes that it would have read without sharing. */
  readonly kvBytesRead: number;
  readonly kvBytesUnshared: number;
  readonly speculation: SpeculationStats;
  readonly constraints: ConstraintStats;
  readonly prefixCacheDisk: DiskTierStats;
  /** Wall time of the kernels, and of whole steps; the difference is the loop's own cost. */
  readonly kernelMs: number;
  readonly stepMs: number;
  /** The part of stepMs that prompts took: each step counts by its share of rows that are prompt tokens. */
  readonly promptMs: number;
}

/** Counters since start, as vLLM names them. */
export interface SpeculationStats {
  readonly numDrafts: number;
  readonly numDraftTokens: number;
  readonly numAcceptedTokens: number;
  /** Drafts whose token at this position was accepted. */
  readonly numAcceptedTokensPerPosition: readonly number[];
}

export const NO_SPECULATION_STATS: SpeculationStats = {
  numDrafts: 0,
  numDraftTokens: 0,
  numAcceptedTokens: 0,
  numAcceptedTokensPerPosition: [],
};

export interface ConstraintStats {
  readonly numRequests: number;
  readonly numCompiled: number;
  readonly numCacheHits: number;
  readonly compileMs: number;
  /** Time for which steps waited for masks. */
  readonly maskWaitMs: number;
  /** Sequences that missed a step because their mask was late. */
  readonly numSkippedSteps: number;
  readonly numThreadsReplaced: number;
}

export const NO_CONSTRAINTS: ConstraintStats = {
  numRequests: 0,
  numCompiled: 0,
  numCacheHits: 0,
  compileMs: 0,
  maskWaitMs: 0,
  numSkippedSteps: 0,
  numThreadsReplaced: 0,
};

export interface DiskTierStats {
  readonly numQueries: number;
  readonly numHits: number;
  readonly numWritten: number;
  /** Blocks dropped because writing failed or fell behind. */
  readonly numDropped: number;
  readonly numEvicted: number;
  /** Bytes of all models in the folder at the last scan. */
  readonly numBytes: number;
}

export const NO_DISK_TIER: DiskTierStats = {
  numQueries: 0,
  numHits: 0,
  numWritten: 0,
  numDropped: 0,
  numEvicted: 0,
  numBytes: 0,
};
