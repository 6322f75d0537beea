/** Writes EAGLE-3 heads with random weights, as the hub's folders have them. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { TestRng } from "./rng.js";
import { encodeSafetensors } from "./safetensors-writer.js";

interface HeadSizes {
  readonly width: number;
  readonly vocab: number;
  /** Tokens that the head knows: every so-many-th. */
  readonly draftVocab: number;
  readonly inputLayers: readonly number[];
}

const [HEADS, KV_HEADS, HEAD_DIM, FF] = [4, 2, 16, 96];

/** @param changes keys of config.json, and tensors to leave out @returns the folder, which is made */
export function writeEagle3(
  folder: string,
  { width, vocab, draftVocab, inputLayers }: HeadSizes,
  seed = 1,
  changes: { readonly config?: Readonly<Record<string, unknown>>; readonly without?: string } = {},
): string {
  mkdirSync(folder, { recursive: true });
  const rng = new TestRng(seed);
  const matrix = (rows: number, cols: number) => {
    const values = Float32Array.from({ length: rows * cols }, () => (rng.next() - 0.5) * (4 / Math.sqrt(cols)));
    return { dtype: "F32", shape: [rows, cols], data: new Uint8Array(values.buffer) } as const;
  };
  const gain = () => {
    const values = Float32Array.from({ length: width }, () => 0.5 + rng.next());
    return { dtype: "F32", shape: [width], data: new Uint8Array(values.buffer) } as const;
  };
  const known = Array.from({ length: draftVocab }, (_, i) => Math.floor((i * vocab) / draftVocab));
  const distances = BigInt64Array.from(known, (token, i) => BigInt(token - i));
  const isKnown = Uint8Array.from({ length: vocab }, (_, token) => (known.includes(token) ? 1 : 0));
  const tensors = {
    "fc.weight": matrix(width, inputLayers.length * width),
    "midlayer.hidden_norm.weight": gain(),
    "midlayer.input_layernorm.weight": gain(),
    "midlayer.post_attention_layernorm.weight": gain(),
    "midlayer.self_attn.q_proj.weight": matrix(HEADS * HEAD_DIM, 2 * width),
    "midlayer.self_attn.k_proj.weight": matrix(KV_HEADS * HEAD_DIM, 2 * width),
    "midlayer.self_attn.v_proj.weight": matrix(KV_HEADS * HEAD_DIM, 2 * width),
    "midlayer.self_attn.o_proj.weight": matrix(width, HEADS * HEAD_DIM),
    "midlayer.mlp.gate_proj.weight": matrix(FF, width),
    "midlayer.mlp.up_proj.weight": matrix(FF, width),
    "midlayer.mlp.down_proj.weight": matrix(width, FF),
    "norm.weight": gain(),
    "lm_head.weight": matrix(draftVocab, width),
    d2t: { dtype: "I64", shape: [draftVocab], data: new Uint8Array(distances.buffer) },
    t2d: { dtype: "BOOL", shape: [vocab], data: isKnown },
  } as const;
  const kept = Object.entries(tensors).filter(([name]) => name !== changes.without);
  writeFileSync(join(folder, "model.safetensors"), encodeSafetensors(Object.fromEntries(kept)));
  const config = {
    architectures: ["LlamaForCausalLMEagle3"],
    model_type: "llama",
    hidden_act: "silu",
    hidden_size: width,
    intermediate_size: FF,
    max_position_embeddings: 512,
    num_attention_heads: HEADS,
    num_hidden_layers: 1,
    num_key_value_heads: KV_HEADS,
    head_dim: HEAD_DIM,
    rms_norm_eps: 1e-5,
    rope_theta: 10_000,
    vocab_size: vocab,
    draft_vocab_size: draftVocab,
    eagle_config: { eagle_aux_hidden_state_layer_ids: inputLayers },
    ...changes.config,
  };
  writeFileSync(join(folder, "config.json"), JSON.stringify(config));
  return folder;
}
