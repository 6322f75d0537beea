/**
 * Weight types that engines make of 16-bit weights at their start, and the word by which each is told (read 2026-11).
 * TensorRT-LLM, llama.cpp and Ollama take only what is in a checkpoint or a file.
 */
import type { PlannedEngine } from "./engines.js";
import type { QuantizationId } from "./quantizations.js";

export const MADE_AT_START: Readonly<Record<PlannedEngine, Readonly<Partial<Record<QuantizationId, string>>>>> = {
  // `serve --quantization`, whose int8 and int4 are Q8_0 and Q4_K_M; a copy is kept in the cache.
  millrace: { q8_0: "int8", fp8: "fp8", q6_k: "q6_k", q4_k_m: "int4", q4_0: "q4_0" },
  // docs.vllm.ai/en/latest/features/quantization: online FP8, and bitsandbytes' four bits in flight.
  vllm: { fp8: "fp8", nf4: "bitsandbytes" },
  // docs.sglang.io/advanced_features/quantization: FP8. Its torchao types have a flag of their own, which the fleet
  // does not set.
  sglang: { fp8: "fp8" },
  // huggingface.co/docs/text-generation-inference/conceptual/quantization: on the fly.
  tgi: { fp8: "fp8", eetq: "eetq", nf4: "bitsandbytes-nf4" },
  "tensorrt-llm": {},
  "llama-server": {},
  ollama: {},
};
