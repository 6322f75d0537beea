/** Which of the table's kinds of models each engine's documentation lists, by `model_type` (read 2026-08). */
import type { PlannedEngine } from "../request.js";

const EVERYWHERE = ["llama", "qwen2", "mistral", "mixtral", "deepseek_v3", "gemma3", "gemma3_text", "phi3"];
const NEWER = ["qwen3", "qwen3_moe", "gpt_oss"];

/** The embedded engine is not here: it is asked itself. */
export const LISTED_MODEL_TYPES: Readonly<Record<Exclude<PlannedEngine, "millrace">, readonly string[]>> = {
  vllm: [...EVERYWHERE, ...NEWER, "gemma2"],
  sglang: [...EVERYWHERE, ...NEWER, "gemma2"],
  // nvidia.github.io/TensorRT-LLM/models/supported-models.html: the PyTorch backend, which has no Gemma 2.
  "tensorrt-llm": [...EVERYWHERE, ...NEWER],
  // huggingface.co/docs/text-generation-inference/supported_models
  tgi: [...EVERYWHERE, "gemma2"],
  "llama-server": [...EVERYWHERE, ...NEWER, "gemma2"],
};
