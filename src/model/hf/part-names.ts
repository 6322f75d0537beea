/** Names of a decoder's tensors in Hugging Face checkpoints, by those of llama.cpp, for each family. */
import type { Architecture } from "../description/architectures.js";

const LLAMA_PARTS: Readonly<Record<string, string>> = {
  token_embd: "embed_tokens",
  output_norm: "norm",
  output: "lm_head",
  attn_norm: "input_layernorm",
  attn_q: "self_attn.q_proj",
  attn_k: "self_attn.k_proj",
  attn_v: "self_attn.v_proj",
  attn_qkv: "self_attn.qkv_proj",
  attn_output: "self_attn.o_proj",
  attn_q_norm: "self_attn.q_norm",
  attn_k_norm: "self_attn.k_norm",
  ffn_norm: "post_attention_layernorm",
  ffn_gate: "mlp.gate_proj",
  ffn_up: "mlp.up_proj",
  ffn_down: "mlp.down_proj",
};
/**
 * Gemma has a norm before and after each sub-layer. Its `post_attention_layernorm` follows attention; in other families
 * that name means the norm before the feed-forward.
 */
const GEMMA_PARTS: Readonly<Record<string, string>> = {
  ...LLAMA_PARTS,
  post_attention_norm: "post_attention_layernorm",
  ffn_norm: "pre_feedforward_layernorm",
  post_ffw_norm: "post_feedforward_layernorm",
};
/** Also the parts of layers' own inputs, and of experts beside a dense part. */
const GEMMA4_PARTS: Readonly<Record<string, string>> = {
  ...GEMMA_PARTS,
  per_layer_token_embd: "embed_tokens_per_layer",
  per_layer_model_proj: "per_layer_model_projection",
  per_layer_proj_norm: "per_layer_projection_norm",
  layer_output_scale: "layer_scalar",
  inp_gate: "per_layer_input_gate",
  proj: "per_layer_projection",
  post_norm: "post_per_layer_input_norm",
  ffn_gate_inp: "router.proj",
  ffn_gate_up_exps: "experts.gate_up_proj",
  ffn_down_exps: "experts.down_proj",
  // Where they are quantised, each expert has its own.
  "ffn_gate.": "experts.#.gate_proj",
  "ffn_up.": "experts.#.up_proj",
  "ffn_down.": "experts.#.down_proj",
  post_ffw_norm_1: "post_feedforward_layernorm_1",
  pre_ffw_norm_2: "pre_feedforward_layernorm_2",
  post_ffw_norm_2: "post_feedforward_layernorm_2",
  "ffn_gate_inp.scale": "router.scale",
  "ffn_down_exps.scale": "router.per_expert_scale",
};
/**
 * All experts of a layer in one tensor, without a `.weight` behind its name: transformers 5 has them so in memory, and
 * may write them so.
 */
export const FUSED_EXPERTS: Readonly<Record<string, string>> = {
  ffn_gate_up_exps: "mlp.experts.gate_up_proj",
  ffn_down_exps: "mlp.experts.down_proj",
};
const QWEN3_MOE_PARTS: Readonly<Record<string, string>> = {
  ...LLAMA_PARTS,
  ...FUSED_EXPERTS,
  ffn_gate_inp: "mlp.gate",
  ffn_gate_inp_shexp: "mlp.shared_expert_gate",
  ffn_gate_shexp: "mlp.shared_expert.gate_proj",
  ffn_up_shexp: "mlp.shared_expert.up_proj",
  ffn_down_shexp: "mlp.shared_expert.down_proj",
  "ffn_gate.": "mlp.experts.#.gate_proj",
  "ffn_up.": "mlp.experts.#.up_proj",
  "ffn_down.": "mlp.experts.#.down_proj",
};
const DELTA_PARTS: Readonly<Record<string, string>> = {
  ...QWEN3_MOE_PARTS,
  attn_qkv: "linear_attn.in_proj_qkv",
  attn_gate: "linear_attn.in_proj_z",
  ssm_alpha: "linear_attn.in_proj_a",
  ssm_beta: "linear_attn.in_proj_b",
  ssm_in: "linear_attn.in_proj_qkvz",
  ssm_ba: "linear_attn.in_proj_ba",
  ssm_conv1d: "linear_attn.conv1d",
  ssm_a: "linear_attn.A_log",
  ssm_dt: "linear_attn.dt_bias",
  ssm_norm: "linear_attn.norm",
  ssm_out: "linear_attn.out_proj",
};
const GLM4_MOE_PARTS: Readonly<Record<string, string>> = {
  ...QWEN3_MOE_PARTS,
  exp_probs_b: "mlp.gate.e_score_correction_bias",
  ffn_gate_shexp: "mlp.shared_experts.gate_proj",
  ffn_up_shexp: "mlp.shared_experts.up_proj",
  ffn_down_shexp: "mlp.shared_experts.down_proj",
};
/** Gate above up of every expert in one tensor, and of the part that every token passes in one matrix. */
const GRANITE_MOE_PARTS: Readonly<Record<string, string>> = {
  ...LLAMA_PARTS,
  ffn_gate_inp: "block_sparse_moe.router.layer",
  ffn_gate_up_exps: "block_sparse_moe.input_linear",
  ffn_down_exps: "block_sparse_moe.output_linear",
  ffn_gate_shexp: "shared_mlp.input_linear",
  ffn_up_shexp: "shared_mlp.input_linear",
  ffn_down_shexp: "shared_mlp.output_linear",
};
const LATENT_PARTS: Readonly<Record<string, string>> = {
  ...GLM4_MOE_PARTS,
  attn_q_a: "self_attn.q_a_proj",
  attn_q_a_norm: "self_attn.q_a_layernorm",
  attn_q_b: "self_attn.q_b_proj",
  attn_kv_a_mqa: "self_attn.kv_a_proj_with_mqa",
  attn_kv_a_norm: "self_attn.kv_a_layernorm",
  attn_kv_b: "self_attn.kv_b_proj",
  attn_k_b: "self_attn.kv_b_proj",
  attn_v_b: "self_attn.kv_b_proj",
};
/** Its architecture is llama's. */
const MIXTRAL_PARTS: Readonly<Record<string, string>> = {
  ...LLAMA_PARTS,
  ...FUSED_EXPERTS,
  ffn_gate_inp: "block_sparse_moe.gate",
  "ffn_gate.": "block_sparse_moe.experts.#.w1",
  "ffn_up.": "block_sparse_moe.experts.#.w3",
  "ffn_down.": "block_sparse_moe.experts.#.w2",
};
const GPT_OSS_PARTS: Readonly<Record<string, string>> = {
  ...LLAMA_PARTS,
  attn_sinks: "self_attn.sinks",
  ffn_gate_inp: "mlp.router",
};
const LFM2_PARTS: Readonly<Record<string, string>> = {
  ...LLAMA_PARTS,
  output_norm: "embedding_norm",
  attn_norm: "operator_norm",
  attn_output: "self_attn.out_proj",
  attn_q_norm: "self_attn.q_layernorm",
  attn_k_norm: "self_attn.k_layernorm",
  "shortconv.in_proj": "conv.in_proj",
  "shortconv.conv": "conv.conv",
  "shortconv.out_proj": "conv.out_proj",
  ffn_norm: "ffn_norm",
  ffn_gate: "feed_forward.w1",
  ffn_up: "feed_forward.w3",
  ffn_down: "feed_forward.w2",
  ffn_gate_inp: "feed_forward.gate",
  exp_probs_b: "feed_forward.expert_bias",
  "ffn_gate.": "feed_forward.experts.#.w1",
  "ffn_up.": "feed_forward.experts.#.w3",
  "ffn_down.": "feed_forward.experts.#.w2",
};
const LFM3_PARTS: Readonly<Record<string, string>> = {
  ...LFM2_PARTS,
  attn_gate: "self_attn.gate_proj",
  attn_output: "self_attn.o_proj",
  attn_q_norm: "self_attn.q_norm",
  attn_k_norm: "self_attn.k_norm",
  post_attention_norm: "post_operator_norm",
  post_ffw_norm: "post_ffn_norm",
};
/** @param layer prefix of the names of a Mamba-2's parts */
const mambaParts = (layer: string): Readonly<Record<string, string>> => ({
  ssm_in: `${layer}.in_proj`,
  ssm_conv1d: `${layer}.conv1d`,
  ssm_a: `${layer}.A_log`,
  ssm_d: `${layer}.D`,
  ssm_dt: `${layer}.dt_bias`,
  ssm_norm: `${layer}.norm`,
  ssm_out: `${layer}.out_proj`,
});
/** Gates lie above ups, also of experts. Without these, the shared part is the only one. */
const { ffn_gate: ___, ...GATELESS_PARTS } = LLAMA_PARTS;
const GRANITE_HYBRID_PARTS: Readonly<Record<string, string>> = {
  ...GATELESS_PARTS,
  ...mambaParts("mamba"),
  ffn_up: "shared_mlp.input_linear",
  ffn_down: "shared_mlp.output_linear",
  ffn_up_shexp: "shared_mlp.input_linear",
  ffn_down_shexp: "shared_mlp.output_linear",
  ffn_gate_inp: "block_sparse_moe.router.layer",
  ffn_gate_up_exps: "block_sparse_moe.input_linear.weight",
  ffn_down_exps: "block_sparse_moe.output_linear.weight",
};
const NEMOTRON_PARTS: Readonly<Record<string, string>> = {
  ...mambaParts("mixer"),
  token_embd: "embeddings",
  output_norm: "norm_f",
  output: "lm_head",
  attn_norm: "norm",
  attn_q: "mixer.q_proj",
  attn_k: "mixer.k_proj",
  attn_v: "mixer.v_proj",
  attn_output: "mixer.o_proj",
  ffn_up: "mixer.up_proj",
  ffn_down: "mixer.down_proj",
  ffn_gate_inp: "mixer.gate",
  exp_probs_b: "mixer.gate.e_score_correction_bias",
  ffn_up_shexp: "mixer.shared_experts.up_proj",
  ffn_down_shexp: "mixer.shared_experts.down_proj",
  "ffn_up.": "mixer.experts.#.up_proj",
  "ffn_down.": "mixer.experts.#.down_proj",
  ffn_up_exps: "mixer.experts.up_proj",
  ffn_down_exps: "mixer.experts.down_proj",
};
/** Gate above up, in one matrix. */
const PHI3_PARTS: Readonly<Record<string, string>> = { ...LLAMA_PARTS, ffn_up: "mlp.gate_up_proj" };
const GLM4_PARTS: Readonly<Record<string, string>> = {
  ...PHI3_PARTS,
  post_attention_norm: "post_self_attn_layernorm",
  post_ffw_norm: "post_mlp_layernorm",
};
const ERNIE_PARTS: Readonly<Record<string, string>> = {
  ...GLM4_MOE_PARTS,
  exp_probs_b: "mlp.moe_statics.e_score_correction_bias",
};
const HUNYUAN_PARTS: Readonly<Record<string, string>> = {
  ...QWEN3_MOE_PARTS,
  attn_q_norm: "self_attn.query_layernorm",
  attn_k_norm: "self_attn.key_layernorm",
  ffn_gate_inp: "mlp.gate.wg",
  ffn_gate_shexp: "mlp.shared_mlp.gate_proj",
  ffn_up_shexp: "mlp.shared_mlp.up_proj",
  ffn_down_shexp: "mlp.shared_mlp.down_proj",
};
const BAILING2_PARTS: Readonly<Record<string, string>> = {
  ...GLM4_MOE_PARTS,
  token_embd: "word_embeddings",
  attn_qkv: "attention.query_key_value",
  attn_output: "attention.dense",
  attn_q_norm: "attention.query_layernorm",
  attn_k_norm: "attention.key_layernorm",
  exp_probs_b: "mlp.gate.expert_bias",
};
/** In files, queries, keys and values are apart. */
const { attn_qkv: fused = "", ...FUSELESS_PARTS } = BAILING2_PARTS;
const BAILING_PARTS = { ...FUSELESS_PARTS, attn_q: fused, attn_k: fused, attn_v: fused };
const MINIMAX_PARTS: Readonly<Record<string, string>> = {
  ...MIXTRAL_PARTS,
  exp_probs_b: "block_sparse_moe.e_score_correction_bias",
};

/** Norms after both sub-layers, and none before. */
const { attn_norm: _, ffn_norm: __, ...NORMLESS_PARTS } = LLAMA_PARTS;
const OLMO2_PARTS: Readonly<Record<string, string>> = {
  ...NORMLESS_PARTS,
  post_attention_norm: "post_attention_layernorm",
  post_ffw_norm: "post_feedforward_layernorm",
};
/** Qwen's tensors around a drafting layer, by their names in GGUF files. */
export const QWEN_DRAFT_PARTS: Readonly<Record<string, string>> = {
  eh_proj: "fc",
  enorm: "pre_fc_norm_embedding",
  hnorm: "pre_fc_norm_hidden",
  shared_head_norm: "norm",
};
export const GLM_DRAFT_PARTS: Readonly<Record<string, string>> = {
  eh_proj: "eh_proj",
  enorm: "enorm",
  hnorm: "hnorm",
  shared_head_norm: "shared_head.norm",
  shared_head_head: "shared_head.head",
  embed_tokens: "embed_tokens",
};
/** Queries, keys and values are rows of one matrix. */
const INTERNLM2_PARTS: Readonly<Record<string, string>> = {
  token_embd: "tok_embeddings",
  output_norm: "norm",
  output: "output",
  attn_norm: "attention_norm",
  attn_q: "attention.wqkv",
  attn_k: "attention.wqkv",
  attn_v: "attention.wqkv",
  attn_output: "attention.wo",
  ffn_norm: "ffn_norm",
  ffn_gate: "feed_forward.w1",
  ffn_up: "feed_forward.w3",
  ffn_down: "feed_forward.w2",
};
const GPT2_PARTS: Readonly<Record<string, string>> = {
  token_embd: "wte",
  position_embd: "wpe",
  output_norm: "ln_f",
  output: "lm_head",
  attn_norm: "ln_1",
  attn_qkv: "attn.c_attn",
  attn_output: "attn.c_proj",
  ffn_norm: "ln_2",
  ffn_up: "mlp.c_fc",
  ffn_down: "mlp.c_proj",
};
const EXAONE_PARTS: Readonly<Record<string, string>> = {
  token_embd: "wte",
  output_norm: "ln_f",
  output: "lm_head",
  attn_norm: "ln_1",
  attn_q: "attn.attention.q_proj",
  attn_k: "attn.attention.k_proj",
  attn_v: "attn.attention.v_proj",
  attn_output: "attn.attention.out_proj",
  ffn_norm: "ln_2",
  ffn_gate: "mlp.c_fc_0",
  ffn_up: "mlp.c_fc_1",
  ffn_down: "mlp.c_proj",
};
const NEOX_PARTS: Readonly<Record<string, string>> = {
  token_embd: "embed_in",
  output_norm: "final_layer_norm",
  output: "embed_out",
  attn_norm: "input_layernorm",
  attn_qkv: "attention.query_key_value",
  attn_output: "attention.dense",
  ffn_norm: "post_attention_layernorm",
  ffn_up: "mlp.dense_h_to_4h",
  ffn_down: "mlp.dense_4h_to_h",
};
const PHI_PARTS: Readonly<Record<string, string>> = {
  ...LLAMA_PARTS,
  output_norm: "final_layernorm",
  attn_output: "self_attn.dense",
  ffn_up: "mlp.fc1",
  ffn_down: "mlp.fc2",
};
const OPT_PARTS: Readonly<Record<string, string>> = {
  ...LLAMA_PARTS,
  position_embd: "embed_positions",
  output_norm: "final_layer_norm",
  attn_norm: "self_attn_layer_norm",
  attn_output: "self_attn.out_proj",
  ffn_norm: "final_layer_norm",
  ffn_up: "fc1",
  ffn_down: "fc2",
};
const PARTS: Partial<Record<Architecture, Readonly<Record<string, string>>>> = {
  llama: MIXTRAL_PARTS,
  qwen2moe: QWEN3_MOE_PARTS,
  qwen3moe: QWEN3_MOE_PARTS,
  qwen3next: DELTA_PARTS,
  qwen35: DELTA_PARTS,
  qwen35moe: DELTA_PARTS,
  gemma2: GEMMA_PARTS,
  gemma3: GEMMA_PARTS,
  gemma4: GEMMA4_PARTS,
  "gemma-embedding": GEMMA_PARTS,
  phi3: PHI3_PARTS,
  phimoe: MIXTRAL_PARTS,
  granitemoe: GRANITE_MOE_PARTS,
  olmo2: OLMO2_PARTS,
  exaone4: OLMO2_PARTS,
  olmoe: QWEN3_MOE_PARTS,
  "gpt-oss": GPT_OSS_PARTS,
  glm4moe: GLM4_MOE_PARTS,
  dots1: GLM4_MOE_PARTS,
  deepseek: GLM4_MOE_PARTS,
  internlm2: INTERNLM2_PARTS,
  starcoder2: { ...LLAMA_PARTS, ffn_up: "mlp.c_fc", ffn_down: "mlp.c_proj" },
  deepseek2: LATENT_PARTS,
  mistral4: LATENT_PARTS,
  lfm2: LFM2_PARTS,
  lfm2moe: LFM2_PARTS,
  lfm3: LFM3_PARTS,
  "ernie4_5-moe": ERNIE_PARTS,
  "hunyuan-dense": HUNYUAN_PARTS,
  "hunyuan-moe": HUNYUAN_PARTS,
  "minimax-m2": MINIMAX_PARTS,
  glm4: GLM4_PARTS,
  bailingmoe: BAILING_PARTS,
  bailingmoe2: BAILING2_PARTS,
  granitehybrid: GRANITE_HYBRID_PARTS,
  nemotron_h: NEMOTRON_PARTS,
  nemotron_h_moe: NEMOTRON_PARTS,
  gpt2: GPT2_PARTS,
  gptneox: NEOX_PARTS,
  phi2: PHI_PARTS,
  opt: OPT_PARTS,
  starcoder: GPT2_PARTS,
  exaone: EXAONE_PARTS,
  chatglm: PHI3_PARTS,
};
export const partsOf = (architecture: Architecture): Readonly<Record<string, string>> =>
  PARTS[architecture] ?? LLAMA_PARTS;

const NAMED_H: readonly Architecture[] = ["gpt2", "starcoder", "exaone"];

/** What stands before a layer's index. @param model prefix of the model's tensors */
export const layersPrefixOf = (architecture: Architecture, model: string): string =>
  `${model}${NAMED_H.includes(architecture) ? "h" : "layers"}.`;

/** Parts that stand around the layers. */
export const GLOBALS: readonly string[] = [
  "token_embd",
  "position_embd",
  "output_norm",
  "output",
  "per_layer_token_embd",
  "per_layer_model_proj",
  "per_layer_proj_norm",
];
