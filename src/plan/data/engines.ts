/**
 * The engines that plans cover, and the model types (`model_type`) that each engine's documentation lists (read
 * 2026-08).
 */

export const PLANNED_ENGINES = ["millrace", "vllm", "sglang", "tensorrt-llm", "tgi", "llama-server", "ollama"] as const;
export type PlannedEngine = (typeof PLANNED_ENGINES)[number];

/** Ollama starts llama.cpp's server, with the same files, widths and KV types. */
export const isLlamaCpp = (engine: PlannedEngine | undefined): boolean =>
  engine === "llama-server" || engine === "ollama";

/** Engines whose adapters take EAGLE-3 drafters. */
export const DRAFTING_ENGINES: readonly PlannedEngine[] = ["vllm", "sglang", "tensorrt-llm"];

const EVERYWHERE = ["llama", "qwen2", "mistral", "mixtral", "deepseek_v3", "gemma3", "gemma3_text", "phi3"];
const NEWER = ["qwen3", "qwen3_moe", "gpt_oss"];
const NEWEST = ["gemma2", "qwen3_5", "qwen3_5_moe", "qwen3_next", "gemma4", "gemma4_unified"];
/** In the model registries of vLLM 0.33, SGLang 0.5.23 and llama.cpp. */
const OTHERS = ["glm4_moe", "glm4_moe_lite", "minimax_m2", "ernie4_5", "ernie4_5_moe"];

/** The embedded engine is absent: plans ask its own loader. */
export const LISTED_MODEL_TYPES: Readonly<Record<Exclude<PlannedEngine, "millrace">, readonly string[]>> = {
  vllm: [...EVERYWHERE, ...NEWER, ...NEWEST, ...OTHERS],
  sglang: [...EVERYWHERE, ...NEWER, ...NEWEST, ...OTHERS],
  // nvidia.github.io/TensorRT-LLM/models/supported-models.html: the PyTorch backend; it lacks Gemma 2.
  "tensorrt-llm": [...EVERYWHERE, ...NEWER],
  // huggingface.co/docs/text-generation-inference/supported_models
  tgi: [...EVERYWHERE, "gemma2"],
  "llama-server": [...EVERYWHERE, ...NEWER, ...NEWEST, ...OTHERS],
  ollama: [...EVERYWHERE, ...NEWER, ...NEWEST, ...OTHERS],
};
