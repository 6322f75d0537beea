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
  // Paid APIs, asked with a key. So is an `openai` that is not probed.
  "anthropic",
  "google",
  "azure",
  "bedrock",
] as const;

export type EngineName = (typeof ENGINE_NAMES)[number];

/** How a model becomes what the engine loads, where it must be compiled for the GPU first. */
interface BuildOptions {
  /** Program and arguments that make the engine's checkpoint from the model. Absent: the model is such a checkpoint. */
  readonly convert?: readonly string[] | undefined;
  /** The engine's builder, if it is not the usual one. */
  readonly program?: readonly string[] | undefined;
  /** Further arguments of the builder. */
  readonly args?: readonly string[];
  /** GPUs that share the layers of one instance. */
  readonly pipelineParallelSize?: number | undefined;
}

/** Engine options under vLLM's names. Each adapter reports the options its engine has no flag for. */
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
  /** Groups of `tensorParallelSize` GPUs in one instance; the two limits above are of one group. */
  readonly dataParallelSize?: number;
  /** Each expert of a mixture lies whole on one of the instance's GPUs, and all groups share the experts. */
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
  /** Makes `Adapter.sleep` possible on engines that must enable it at their start. */
  readonly enableSleepMode?: boolean;
}

/**
 * How long requests took: the upper ends of buckets in seconds, ascending, with the number of requests up to each. The
 * last end is infinite.
 */
export interface EngineTimes {
  readonly buckets: readonly (readonly [endSeconds: number, count: number])[];
  readonly sumSeconds: number | undefined;
}

/**
 * One set of metrics for all engines; undefined where the engine does not offer one. Totals count from the process's
 * start.
 */
export interface EngineMetrics {
  readonly numRunning: number | undefined;
  readonly numWaiting: number | undefined;
  /** Share of the KV memory in use, 0 to 1. */
  readonly kvUsage: number | undefined;
  readonly promptTokens: number | undefined;
  readonly generationTokens: number | undefined;
  /** Prompt tokens looked up in, and found in, the prefix cache. */
  readonly prefixQueries: number | undefined;
  readonly prefixHits: number | undefined;
  readonly preemptions: number | undefined;
  readonly draftTokens: number | undefined;
  readonly acceptedTokens: number | undefined;
  /** Only our own engine tells these. */
  readonly evictedTokens?: number | undefined;
  /** Wall time of its steps, of the prompts' share of them, and inside the kernels. */
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
