/**
 * Every adapter that starts an engine, against a process that speaks this engine's documented interface. Real engines:
 * test/e2e/fleet-engines.test.ts.
 */
import { describeConformance } from "../../../test/helpers/engine-conformance.js";
import type { CommonEngineOptions } from "../upstream/engine.js";

const ALL = { model: "a-model", maxModelLen: 256, maxNumSeqs: 4, maxNumBatchedTokens: 512 } as const;
const GPU = {
  ...ALL,
  kvCacheDtype: "fp8",
  quantization: "fp8",
  tensorParallelSize: 1,
  gpuMemoryUtilization: 0.5,
} as const;
const NGRAM = { method: "ngram", num_speculative_tokens: 4 };
const apiKey = "sk-of-this-instance";

const stand = (
  engine: "millrace" | "vllm" | "sglang" | "tensorrt-llm" | "tgi" | "llama-server" | "ollama",
  options: CommonEngineOptions,
  capacity: object,
): void =>
  describeConformance({
    kind: "stand-in",
    spec: { engine, options },
    longTokens: 1_000_000,
    capacity,
  });

stand(
  "millrace",
  { ...ALL, apiKey, kvCacheMemoryBytes: 1_000_000, enablePrefixCaching: false, speculativeConfig: NGRAM, threads: 1 },
  { seats: 4, kvTokens: 1024, blockSize: 16, maxModelLen: 256 },
);
stand(
  "vllm",
  { ...GPU, apiKey, enablePrefixCaching: true, speculativeConfig: NGRAM, schedulingPolicy: "priority", threads: 1 },
  { seats: 4, kvTokens: 960, blockSize: 16, maxModelLen: 256 },
);
stand(
  "sglang",
  {
    ...GPU,
    apiKey,
    enablePrefixCaching: false,
    speculativeConfig: { method: "eagle3", model: "draft", num_speculative_tokens: 3 },
    schedulingPolicy: "priority",
  },
  { seats: 4, kvTokens: 1024, blockSize: 16, maxModelLen: 256 },
);
stand(
  "tensorrt-llm",
  { ...GPU, quantization: "fp8", enablePrefixCaching: true, kvCacheMemoryBytes: 1e9, speculativeConfig: NGRAM },
  { seats: 4 },
);
stand("tgi", { ...GPU, apiKey, enablePrefixCaching: true, speculativeConfig: NGRAM }, { seats: 4, kvTokens: 1024 });
stand(
  "llama-server",
  {
    ...ALL,
    apiKey,
    kvCacheDtype: "int8",
    enablePrefixCaching: true,
    speculativeConfig: { method: "draft_model", model: "draft", num_speculative_tokens: 4 },
    threads: 1,
  },
  { seats: 4, kvTokens: 1024 },
);
stand("ollama", { ...ALL, kvCacheDtype: "q8_0" }, { seats: 4 });
