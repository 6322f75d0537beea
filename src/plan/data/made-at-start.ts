/**
 * Weight types that engines make from 16-bit weights at their start, and each engine's word for them (read 2026-11).
 * TensorRT-LLM, llama.cpp and Ollama load only types that are in a checkpoint or file.
 */
import type { PlannedEngine } from "./engines.js";
import type { QuantizationId } from "./quantizations.js";

export const MADE_AT_START: Readonly<Record<PlannedEngine, Readonly<Partial<Record<QuantizationId, string>>>>> = {
  // `serve --quantization`: its int8 and int4 are Q8_0 and Q4_K_M; the cache keeps a copy.
  millrace: { q8_0: "int8", fp8: "fp8", q6_k: "q6_k", q4_k_m: "int4", q4_0: "q4_0" },
  // docs.vllm.ai/en/latest/features/quantization: online FP8, and bitsandbytes' four bits at load time.
  vllm: { fp8: "fp8", nf4: "bitsandbytes" },
  // docs.sglang.io/advanced_features/quantization: FP8. Its torchao types have another flag, which the fleet does not
  // set.
  sglang: { fp8: "fp8" },
  // huggingface.co/docs/text-generation-inference/conceptual/quantization: at load time.
  tgi: { fp8: "fp8", eetq: "eetq", nf4: "bitsandbytes-nf4" },
  "tensorrt-llm": {},
  "llama-server": {},
  ollama: {},
};
