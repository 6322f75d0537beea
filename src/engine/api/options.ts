/** The options that an engine starts with. */
import type { BackendOptions } from "../../backend/backend.js";
import type { KvType } from "../../backend/ops.js";
import { DEFAULT_MAX_NUM_SEQS, defaultBatchedTokens } from "../../core/batched-tokens.js";
import type { Pooling } from "../../model/description/pooling.js";
import type { EvictionOptions } from "./kv-eviction.js";
import { DEFAULT_SPECULATIVE_CONFIG, type SpeculativeConfig } from "./speculative-config.js";

export interface DiskTierOptions {
  /** Folder of the blocks of all models. */
  readonly folder: string;
  readonly maxBytes: number;
}

export const SCHEDULING_POLICIES = ["fcfs", "priority", "fair"] as const;
export type SchedulingPolicyName = (typeof SCHEDULING_POLICIES)[number];

/** The backend reads the part that it declares; the engine reads the rest. */
export interface EngineOptions extends BackendOptions {
  /** Path of a GGUF file (the first shard of a split one) or of a folder with config.json and safetensors files. */
  readonly modelPath: string;
  /** Longest sequence, prompt and output together; undefined = the model's own context. */
  readonly maxModelLen: number | undefined;
  readonly maxNumSeqs: number;
  readonly maxNumBatchedTokens: number;
  readonly blockSize: number;
  readonly kvCacheDtype: KvType;
  /** Keys and values that are dropped while a sequence still runs; undefined = none, and results are exact. */
  readonly kvEviction: EvictionOptions | undefined;
  /** undefined = enough for maxNumSeqs sequences of maxModelLen, but at most a quarter of the free memory. */
  readonly kvCacheMemoryBytes: number | undefined;
  readonly enablePrefixCaching: boolean;
  /** Keeps cached prefixes beyond memory and beyond this process; undefined = off. */
  readonly prefixCacheDisk: DiskTierOptions | undefined;
  readonly enableChunkedPrefill: boolean;
  readonly schedulingPolicy: SchedulingPolicyName;
  /**
   * Longest step with prompts beside decoding sequences, in milliseconds; auto: a multiple of decoding alone; 0:
   * unbounded.
   */
  readonly maxStepMs: number | "auto";
  /** static: no sequence is admitted while others run. */
  readonly batching: "continuous" | "static";
  /** paged: blocks on demand; contiguous: memory for maxModelLen tokens reserved per sequence at admission. */
  readonly kvLayout: "paged" | "contiguous";
  /** How a prompt becomes one vector; auto: as the model states, else the last position. */
  readonly pooling: "auto" | Pooling;
  /** Requests that may wait for a seat; further ones get queue_full. */
  readonly maxWaitingRequests: number;
  /** The drafter and its bounds. Results are the same with every drafter. */
  readonly speculative: SpeculativeConfig;
}

export const DEFAULT_ENGINE_OPTIONS = {
  cpuAffinity: undefined,
  maxModelLen: undefined,
  maxNumSeqs: DEFAULT_MAX_NUM_SEQS,
  maxNumBatchedTokens: defaultBatchedTokens(DEFAULT_MAX_NUM_SEQS),
  blockSize: 16,
  kvCacheDtype: "f16",
  kvEviction: undefined,
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
