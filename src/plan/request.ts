/** Requests of plans, and their answers. */
import type { Efficiencies } from "./data/constants.js";
import type { Machine } from "./data/device.js";
import type { PlannedEngine } from "./data/engines.js";
import type { DatedPrice } from "./data/prices.js";
import type { KvTypeId, PlannedKvType, Quantization, QuantizationId } from "./data/quantizations.js";
import type { Grades } from "./evidence.js";
import type { MemoryPlan } from "./memory.js";
import type { PlannedModel } from "./planned-model.js";
import type { Drafting, Prediction } from "./predict.js";
import type { Sharing } from "./sharing.js";

export const OBJECTIVES = ["throughput", "cost", "latency"] as const;
export type Objective = (typeof OBJECTIVES)[number];

export interface PlanRequest {
  readonly model: PlannedModel;
  readonly machine: Machine;
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** Share of prompt tokens in a common prefix of all requests. */
  readonly prefixShare: number;
  readonly load: { readonly concurrency: number } | { readonly requestsPerS: number };
  /** Latency targets: time to first token for 95 requests in 100, mean time per token. */
  readonly slo: { readonly ttftMs?: number | undefined; readonly tpotMs?: number | undefined };
  readonly objective: Objective;
  /** Whether the task is simple, so that a smaller model may suffice. */
  readonly isSimpleTask: boolean;
  readonly engine?: PlannedEngine | undefined;
  readonly quantization?: QuantizationId | undefined;
  /** Whether to use only weight types with a known checkpoint. */
  readonly onlyPublished?: boolean | undefined;
  /**
   * Whether published figures suffice for compressing weights, keys and values, without a measurement on this model's
   * file.
   */
  readonly allowsPublished?: boolean | undefined;
  /** Most hosts of this machine that one instance may span if one cannot hold the model; absent: 1. */
  readonly hosts?: number | undefined;
  /** Bandwidth between two hosts, per direction; absent: that of a current network port. */
  readonly networkBytesPerS?: number | undefined;
  /** Host memory beside one GPU that may hold experts; absent: none. */
  readonly hostMemoryBytes?: number | undefined;
  /** Bandwidth of that memory; absent: a desktop's. */
  readonly hostBytesPerS?: number | undefined;
  /** Longest sequence; absent: as long as the model's context and the memory allow. */
  readonly maxModelLen?: number | undefined;
  /** Percent of the unquantised score that a weight type must keep. */
  readonly smallestRecovery: number;
  /** Price per device and hour. */
  readonly price: DatedPrice;
  /** Efficiencies from a calibration on this machine. */
  readonly efficiencies?: Efficiencies | undefined;
}

/** The choices that distinguish the configurations of a plan. */
export interface ConfigurationKey extends Sharing {
  readonly weights: QuantizationId;
  readonly kv: KvTypeId;
  readonly instances: number;
  /** Tokens drafted in a step; 0: none. */
  readonly drafts: number;
}

/** The two numbers that a reason compares, and their configurations. */
export interface Versus {
  /** Name of the compared figure: tokens/s, $/M output tokens, ms a request, … */
  readonly figure: string;
  readonly mine: number;
  readonly of: ConfigurationKey;
  readonly other: number;
  readonly with: ConfigurationKey;
}

/** A decision with the rule behind it. */
export interface Choice {
  readonly about: string;
  readonly choice: string;
  readonly because: string;
  readonly versus?: Versus | undefined;
}

/** The fleet's engine options, by its names, that plans set. */
export interface PlannedOptions {
  readonly model: string;
  readonly servedModelName: string;
  readonly maxModelLen: number;
  readonly maxNumSeqs: number;
  readonly maxNumBatchedTokens: number;
  readonly enablePrefixCaching: boolean;
  readonly kvCacheDtype?: string;
  readonly kvCacheMemoryBytes?: number;
  readonly quantization?: string;
  readonly tensorParallelSize?: number;
  readonly dataParallelSize?: number;
  readonly enableExpertParallel?: boolean;
  readonly gpuMemoryUtilization?: number;
  readonly speculativeConfig?: Readonly<Record<string, unknown>>;
  readonly threads?: number;
}

export interface Cost {
  /** Price of the devices in the plan. */
  readonly usdPerHour: number;
  readonly usdPerMillionOutput: number;
  readonly usdPerMillionTotal: number;
}

/** One way to run the model, which the rules propose. */
export interface PlanCandidate extends Sharing {
  readonly engine: PlannedEngine;
  readonly quantization: Quantization;
  readonly kv: PlannedKvType;
  readonly instances: number;
  readonly drafting: Drafting | undefined;
}

/** Drafts by lookup in the request's own text. */
export interface Lookups {
  /** Tokens drafted in a step. */
  readonly depth: number;
  /** Most concurrent sequences with which vLLM drafts; 0: drafting never pays. */
  readonly mostSequences: number;
  /** Whether that limit is below the engine's number of sequences. */
  readonly isBounded: boolean;
  /** Time of a step of one sequence with drafts, as a multiple of one without. */
  readonly stretchOfOne: number;
}

export interface Configuration extends PlanCandidate {
  /** Drafts by prompt lookup, which predictions leave out; undefined: the plan has none. */
  readonly lookups: Lookups | undefined;
  /** Memory of one device. */
  readonly memory: MemoryPlan;
  /** Sequences of the planned length that fit in one instance. */
  readonly seats: number;
  /** Concurrent requests at which the latency targets still hold, over all instances together. */
  readonly sustainableConcurrency: number;
  /** Prediction for all instances together, under the requested load. */
  readonly prediction: Prediction;
  readonly cost: Cost;
  readonly meetsSlo: boolean;
  /** Missed latency targets, as sentences. */
  readonly misses: readonly string[];
  readonly choices: readonly Choice[];
  readonly grades: Grades;
  /** Steps to take before the start. */
  readonly needs: readonly string[];
  readonly options: PlannedOptions;
  readonly extraArgs: readonly string[];
}

/** An excluded combination, and the reason. */
export interface Refusal {
  readonly what: string;
  readonly because: string;
  readonly versus?: Versus | undefined;
}

/** As many instances of so many GPUs as fit on a machine. */
export interface Split {
  readonly instances: number;
  readonly tensorParallel: number;
  readonly outputTokensPerS: number;
  /** Output tokens per second of an overloaded machine, without drafts, which cost time there. */
  readonly floodedTokensPerS: number;
  /** Output tokens per second in the reference documents, for lengths and a load that they leave open. */
  readonly published: number | undefined;
}

export interface Plan {
  readonly request: PlanRequest;
  /**
   * Length in tokens of a sequence that fits in every configuration; each configuration's options have its own limit.
   */
  readonly requiredLength: number;
  /** Best first. Empty: nothing fits; `refusals` has the arithmetic and `nearest` the options that would fit. */
  readonly configurations: readonly Configuration[];
  readonly refusals: readonly Refusal[];
  readonly nearest: readonly string[];
  readonly suggestions: readonly string[];
  /** The first configuration's weights on the same GPUs, as few wide or many narrow instances. */
  readonly splits: readonly Split[];
}
