/** Facts and counters of an engine. */
import type { KvType } from "../../backend/ops.js";
import type { Pooling } from "../../model/pooling.js";

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

/** Counters since start, as vLLM names them. */
export interface SpeculationStats {
  readonly numDrafts: number;
  readonly numDraftTokens: number;
  readonly numAcceptedTokens: number;
  /** Drafts whose token at this place was accepted. */
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
  /** Time that steps waited for masks. */
  readonly maskWaitMs: number;
  /** Sequences that sat a step out because their mask was not there. */
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
  /** Not written because writing could not keep up, or failed. */
  readonly numDropped: number;
  readonly numEvicted: number;
  /** Of all models, as of the last look through the folder. */
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
