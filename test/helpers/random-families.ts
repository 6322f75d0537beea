/** By what the tiny random models of an architecture differ from a llama: lists of architectures for each trait. */
import type { RandomArchitecture } from "./random-dimensions.js";

export const TIED_ARCHITECTURES: readonly RandomArchitecture[] = [
  "qwen3",
  "qwen3vl",
  "gemma",
  "gemma2",
  "gemma3",
  "gemma4",
  "smollm3",
  "command-r",
  "cohere2",
  "starcoder2",
  "lfm2",
  "lfm2moe",
  "lfm3",
  "ernie4_5",
  "hunyuan-dense",
  "gpt2",
  "opt",
  "starcoder",
];
export const LAYERS: Partial<Record<RandomArchitecture, number>> = {
  gemma3: 6,
  gemma4: 4,
  smollm3: 4,
  cohere2: 4,
  olmo2: 4,
  exaone4: 4,
  qwen3next: 4,
  qwen35: 4,
  qwen35moe: 4,
  lfm2: 4,
  lfm2moe: 4,
  lfm3: 4,
  "ernie4_5-moe": 4,
  granitehybrid: 4,
  nemotron_h: 5,
  nemotron_h_moe: 5,
};
export const SLIDING_WINDOW = 24;
/** With a norm for each head of queries and keys, as also all qwen3 have. */
export const HEAD_NORMED: readonly RandomArchitecture[] = [
  "gemma3",
  "dots1",
  "exaone4",
  "hunyuan-dense",
  "hunyuan-moe",
  "bailingmoe2",
];
/** With experts in every layer. */
export const EXPERT_ARCHITECTURES: readonly RandomArchitecture[] = [
  "qwen2moe",
  "qwen3moe",
  "qwen3vlmoe",
  "olmoe",
  "granitemoe",
  "dots1",
  "deepseek",
  "gpt-oss",
  "glm4moe",
  "deepseek2",
  "mistral4",
  "qwen3next",
  "qwen35moe",
  "lfm2moe",
  "ernie4_5-moe",
  "hunyuan-moe",
  "minimax-m2",
  "phimoe",
  "bailingmoe",
  "bailingmoe2",
  "granitehybrid",
  "nemotron_h_moe",
];
/** Their first layer has no experts; of ERNIE every second one. */
export const DENSE_FIRST: readonly RandomArchitecture[] = [
  "glm4moe",
  "deepseek",
  "deepseek2",
  "mistral4",
  "dots1",
  "lfm2",
  "lfm2moe",
  "ernie4_5-moe",
  "bailingmoe2",
];
/** Their routers' scores have biases. */
export const SCORE_BIASED: readonly RandomArchitecture[] = [
  "glm4moe",
  "deepseek2",
  "dots1",
  "lfm2moe",
  "ernie4_5-moe",
  "minimax-m2",
  "bailingmoe2",
];
/** Widths of the parts that every token passes beside its experts, in experts. */
export const SHARED_PARTS: Partial<Record<RandomArchitecture, number>> = {
  glm4moe: 2,
  deepseek: 2,
  deepseek2: 2,
  mistral4: 2,
  dots1: 2,
  granitemoe: 2,
  "ernie4_5-moe": 2,
  "hunyuan-moe": 1,
  bailingmoe: 2,
  bailingmoe2: 1,
};
/** Of before llama: linear layers have biases. */
export const CLASSIC: readonly RandomArchitecture[] = ["gpt2", "gptneox", "phi2", "opt", "starcoder"];
/** Their norms have biases. */
export const NORM_BIASED: readonly RandomArchitecture[] = [...CLASSIC, "stablelm", "starcoder2", "nemotron", "phimoe"];
export const GATELESS: readonly RandomArchitecture[] = [...CLASSIC, "starcoder2", "nemotron", "arcee"];
/** Both parts of a layer read one norm. */
export const ONE_NORMED: readonly RandomArchitecture[] = ["command-r", "cohere2", "phi2"];
export const QKV_FUSED: readonly RandomArchitecture[] = ["phi3", "bailingmoe2", "gpt2", "gptneox", "starcoder"];
/** A table of positions in place of a rope. */
export const POSITION_TABLED: readonly RandomArchitecture[] = ["gpt2", "opt", "starcoder"];
/** Every second layer of theirs has attention, the others have a recurrent state. */
export const DELTA_ARCHITECTURES: readonly RandomArchitecture[] = ["qwen3next", "qwen35", "qwen35moe"];
/** Every second layer of theirs has attention, the others a short convolution. */
export const CONVOLUTION_ARCHITECTURES: readonly RandomArchitecture[] = ["lfm2", "lfm2moe", "lfm3"];
/** Layers of theirs have a Mamba-2: every second one of Granite's. Nemotron's are one part each. */
export const MAMBA_ARCHITECTURES: readonly RandomArchitecture[] = ["granitehybrid", "nemotron_h", "nemotron_h_moe"];
