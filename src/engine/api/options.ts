/** The options that an engine starts with. */
import type { BackendOptions } from "../../backend/backend.js";
import type { KvType } from "../../backend/ops.js";
import type { Pooling } from "../../model/pooling.js";
import { DEFAULT_SPECULATIVE_CONFIG, type SpeculativeConfig } from "./speculative-config.js";

export interface DiskTierOptions {
  /** Folder of all models' blocks. */
  readonly folder: string;
  readonly maxBytes: number;
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
