/** The engines that the fleet knows, the options that it gives any of them, and the figures that it takes from them. */

export const ENGINE_NAMES = [
  "millrace",
  "vllm",
  "sglang",
  "tensorrt-llm",
  "tgi",
  "llama-server",
  "ollama",
  // Anything with an OpenAI API at a URL: attached, never started.
  "openai",
] as const;

export type EngineName = (typeof ENGINE_NAMES)[number];

/** What we ask of any engine, under vLLM's names. An adapter says which it cannot give. */
export interface CommonEngineOptions {
  /** A path, or what the engine itself can fetch. */
  readonly model: string;
  readonly servedModelName?: string;
  readonly maxModelLen?: number;
  readonly maxNumSeqs?: number;
  readonly maxNumBatchedTokens?: number;
  readonly kvCacheDtype?: string;
  readonly kvCacheMemoryBytes?: number;
  readonly quantization?: string;
  readonly tensorParallelSize?: number;
  readonly gpuMemoryUtilization?: number;
  readonly enablePrefixCaching?: boolean;
  readonly speculativeConfig?: Readonly<Record<string, unknown>>;
  readonly schedulingPolicy?: string;
  /** CPU threads. */
  readonly threads?: number;
  readonly apiKey?: string;
  /** Makes `Adapter.sleep` possible, where the engine wants to know at its start. */
  readonly enableSleepMode?: boolean;
}

/** Engines' own names mapped to one model; undefined: not offered. Totals count from the process's start. */
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
}
