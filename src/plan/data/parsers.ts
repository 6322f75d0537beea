/**
 * The forms in which models write tool calls and thoughts, and each engine's name for its parser of a form: vLLM 0.33.0
 * (vllm/tool_parsers, vllm/reasoning), SGLang 0.5.23 (srt/function_call, srt/parser/reasoning_parser.py), TensorRT-LLM
 * 1.3 (serve/tool_parser, llmapi/reasoning_parser.py). Read 2026-11.
 */
import type { PlannedEngine } from "./engines.js";

export type CallForm =
  | "llama3"
  | "hermes"
  | "mistral"
  | "harmony"
  | "deepseek"
  | "qwen3-coder"
  | "gemma4"
  | "glm45"
  | "glm47"
  | "minimax-m2"
  | "lfm2";
export type ThoughtForm = "qwen3" | "deepseek-r1" | "harmony" | "gemma4" | "glm45" | "minimax-m2";

type ParserNames = Readonly<Partial<Record<PlannedEngine, string>>>;

export const CALL_PARSERS: Readonly<Record<CallForm, ParserNames>> = {
  llama3: { vllm: "llama3_json", sglang: "llama3" },
  // Every model of the table with Hermes calls is one of Qwen's, after which two engines name the parser.
  hermes: { vllm: "hermes", sglang: "qwen", "tensorrt-llm": "qwen3" },
  mistral: { vllm: "mistral", sglang: "mistral" },
  harmony: { vllm: "openai", sglang: "gpt-oss" },
  deepseek: { vllm: "deepseek_v3", sglang: "deepseekv3", "tensorrt-llm": "deepseekv3" },
  "qwen3-coder": { vllm: "qwen3_coder", sglang: "qwen3_coder" },
  gemma4: { vllm: "gemma4", sglang: "gemma4" },
  glm45: { vllm: "glm45", sglang: "glm45" },
  glm47: { vllm: "glm47", sglang: "glm47" },
  "minimax-m2": { vllm: "minimax_m2", sglang: "minimax-m2" },
  lfm2: { vllm: "lfm2", sglang: "lfm2" },
};

export const THOUGHT_PARSERS: Readonly<Record<ThoughtForm, ParserNames>> = {
  qwen3: { vllm: "qwen3", sglang: "qwen3", "tensorrt-llm": "qwen3" },
  "deepseek-r1": { vllm: "deepseek_r1", sglang: "deepseek-r1", "tensorrt-llm": "deepseek-r1" },
  harmony: { vllm: "openai_gptoss", sglang: "gpt-oss" },
  gemma4: { vllm: "gemma4", sglang: "gemma4" },
  glm45: { vllm: "glm45", sglang: "glm45" },
  "minimax-m2": { vllm: "minimax_m2", sglang: "minimax" },
};

/** Flags that name the two parsers. Engines without an entry read calls and thoughts by the model's template. */
export const PARSER_FLAGS: Readonly<
  Partial<Record<PlannedEngine, { readonly calls: readonly string[]; readonly thoughts: readonly string[] }>>
> = {
  vllm: { calls: ["--enable-auto-tool-choice", "--tool-call-parser"], thoughts: ["--reasoning-parser"] },
  sglang: { calls: ["--tool-call-parser"], thoughts: ["--reasoning-parser"] },
  "tensorrt-llm": { calls: ["--tool_parser"], thoughts: ["--reasoning_parser"] },
};
