/** From the loader's tensor names (llama.cpp's) to those of Hugging Face checkpoints. */

import type { HfFolder } from "../../formats/hf/folder.js";
import type { Architecture } from "../description/servable.js";

const HEAD_PREFIXES = ["", "language_model."] as const;

/** Whether the folder has an output matrix of its own, in whatever form it is stored. */
export function hasOutput({ files }: HfFolder): boolean {
  const names = HEAD_PREFIXES.map((prefix) => `${prefix}lm_head.`);
  return [...files.tensors.keys()].some((tensor) => names.some((name) => tensor.startsWith(name)));
}

const LAYER_PARTS: Readonly<Record<string, string>> = {
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
/** Gemma 3 has a norm on both sides of each sub-layer, and calls the one after attention what others call the one before the feed-forward. */
const GEMMA3_PARTS: Readonly<Record<string, string>> = {
  ...LAYER_PARTS,
  post_attention_norm: "post_attention_layernorm",
  ffn_norm: "pre_feedforward_layernorm",
  post_ffw_norm: "post_feedforward_layernorm",
};
/** Gate above up, in one matrix. */
const PHI3_PARTS: Readonly<Record<string, string>> = { ...LAYER_PARTS, ffn_up: "mlp.gate_up_proj" };

export class HfNames {
  readonly #headPrefix: string;

  constructor(private readonly folder: HfFolder) {
    const { tensors } = folder.files;
    this.#headPrefix = HEAD_PREFIXES.find((candidate) => tensors.has(`${candidate}lm_head.weight`)) ?? "";
  }

  /**
   * @example names.of("blk.3.attn_q.weight", "llama") // "model.layers.3.self_attn.q_proj.weight"
   * @returns undefined for what these checkpoints do not have
   */
  of(name: string, architecture: Architecture): string | undefined {
    const [, base = "", kind = ""] = /^(.*)\.(weight|bias)$/.exec(name) ?? [];
    if (base === "token_embd") return `${this.folder.prefix}embed_tokens.${kind}`;
    if (base === "output_norm") return `${this.folder.prefix}norm.${kind}`;
    if (base === "output") return `${this.#headPrefix}lm_head.${kind}`;
    const [, layer, part = ""] = /^blk\.(\d+)\.(\w+)$/.exec(base) ?? [];
    const parts = architecture === "gemma3" ? GEMMA3_PARTS : architecture === "phi3" ? PHI3_PARTS : LAYER_PARTS;
    if (layer === undefined || !Object.hasOwn(parts, part)) return undefined;
    return `${this.folder.prefix}layers.${layer}.${parts[part]}.${kind}`;
  }
}
