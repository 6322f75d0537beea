/** The engines the fleet supports, the options it can pass to each of them, and the metrics it reads from them. */

export const ENGINE_NAMES = [
  "millrace",
  "vllm",
  "sglang",
  "tensorrt-llm",
  "tgi",
  "llama-server",
  "ollama",
  // Any server with an OpenAI API: the fleet attaches to its URL and never starts it.
  "openai",
  // Paid APIs, which need a key; an `openai` that is not probed is one too.
  "anthropic",
  "google",
  "azure",
  "bedrock",
] as const;

export type EngineName = (typeof ENGINE_NAMES)[number];

/** The compilation of a model for the GPU, for engines that load compiled models. */
interface BuildOptions {
  /** Program and arguments that convert the model to the engine's checkpoint. Absent: the model is one already. */
  readonly convert?: readonly string[] | undefined;
  /** The engine's builder, if it is not the usual one. */
  readonly program?: readonly string[] | undefined;
  /** Further arguments of the builder. */
  readonly args?: readonly string[];
  /** GPUs that share the layers of one instance. */
  readonly pipelineParallelSize?: number | undefined;
}

/** Engine options under vLLM's names. Each adapter reports the options that its engine lacks. */
export interface CommonEngineOptions {
  /** A path, or a name that the engine can download. */
  readonly model: string;
  readonly servedModelName?: string;
  readonly maxModelLen?: number;
  readonly maxNumSeqs?: number;
  readonly maxNumBatchedTokens?: number;
  readonly kvCacheDtype?: string;
  readonly kvCacheMemoryBytes?: number;
  readonly quantization?: string;
  readonly tensorParallelSize?: number;
  /** Groups of `tensorParallelSize` GPUs in one instance; the two limits above apply to one group. */
  readonly dataParallelSize?: number;
  /** Each expert lies complete on one of the instance's GPUs, and all groups share the experts. */
  readonly enableExpertParallel?: boolean;
  readonly gpuMemoryUtilization?: number;
  readonly enablePrefixCaching?: boolean;
  readonly speculativeConfig?: Readonly<Record<string, unknown>>;
  readonly schedulingPolicy?: string;
  /** CPU threads. */
  readonly threads?: number;
  readonly apiKey?: string;
  /** Absent: the engine loads the model as it is. */
  readonly buildEngine?: BuildOptions;
  /** Enables `Adapter.sleep` on engines that must prepare it at their start. */
  readonly enableSleepMode?: boolean;
}

/**
 * Durations of requests: the upper ends of buckets in seconds, ascending, with the number of requests up to each. The
 * last end is infinite.
 */
export interface EngineTimes {
  readonly buckets: readonly (readonly [endSeconds: number, count: number])[];
  readonly sumSeconds: number | undefined;
}

/**
 * The same metrics for all engines; undefined: the engine does not offer the metric. Totals count from the process's
 * start.
 */
export interface EngineMetrics {
  readonly numRunning: number | undefined;
  readonly numWaiting: number | undefined;
  /** Share of the KV memory in use, 0 to 1. */
  readonly kvUsage: number | undefined;
  readonly promptTokens: number | undefined;
  readonly generationTokens: number | undefined;
  /** Prompt tokens looked up in the prefix cache, and tokens found in it. */
  readonly prefixQueries: number | undefined;
  readonly prefixHits: number | undefined;
  readonly preemptions: number | undefined;
  readonly draftTokens: number | undefined;
  readonly acceptedTokens: number | undefined;
  /** Only our own engine reports these. */
  readonly evictedTokens?: number | undefined;
  /** Wall time of its steps, of their part for prompts, and of the kernels. */
  readonly stepSeconds?: number | undefined;
  readonly promptSeconds?: number | undefined;
  readonly kernelSeconds?: number | undefined;
  /** Resident memory of its process. */
  readonly residentBytes?: number | undefined;
  /** First to last token, divided by the tokens after the first. */
  readonly perTokenTimes?: EngineTimes | undefined;
  /** Between one token and the next. */
  readonly interTokenTimes?: EngineTimes | undefined;
  /** Arrival at the engine to admission. */
  readonly queueTimes?: EngineTimes | undefined;
}
