/**
 * Writes a small llama with random bfloat16 weights, a tokenizer and a chat template as a Hugging Face folder, which
 * every engine can load.
 */
import { copyFileSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { repositoryRoot } from "./fixtures.js";
import { TestRng } from "./rng.js";
import { encodeSafetensors } from "./safetensors-writer.js";

const TOKENIZER = "test/fixtures/hf-tokenizers/smollm";
const VOCAB = 512;
const LAYERS = 2;
const WIDTH = 128;
const HEADS = 4;
const KV_HEADS = 2;
const HEAD_DIM = 32;
const FF = 256;
const END_OF_TURN = "<|im_end|>";
const END_OF_TURN_ID = 1;

const CHAT_TEMPLATE =
  "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}" +
  "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

const CONFIG = {
  architectures: ["LlamaForCausalLM"],
  model_type: "llama",
  dtype: "bfloat16",
  hidden_act: "silu",
  hidden_size: WIDTH,
  intermediate_size: FF,
  num_hidden_layers: LAYERS,
  num_attention_heads: HEADS,
  num_key_value_heads: KV_HEADS,
  head_dim: HEAD_DIM,
  max_position_embeddings: 2048,
  vocab_size: VOCAB,
  rms_norm_eps: 1e-5,
  rope_theta: 10_000,
  tie_word_embeddings: false,
  eos_token_id: END_OF_TURN_ID,
};

/** @returns shape of each tensor by name */
function shapes(): Record<string, readonly number[]> {
  const all: Record<string, readonly number[]> = {
    "model.embed_tokens.weight": [VOCAB, WIDTH],
    "model.norm.weight": [WIDTH],
    "lm_head.weight": [VOCAB, WIDTH],
  };
  for (let layer = 0; layer < LAYERS; layer++) {
    const prefix = `model.layers.${layer}.`;
    all[`${prefix}input_layernorm.weight`] = [WIDTH];
    all[`${prefix}post_attention_layernorm.weight`] = [WIDTH];
    all[`${prefix}self_attn.q_proj.weight`] = [HEADS * HEAD_DIM, WIDTH];
    all[`${prefix}self_attn.k_proj.weight`] = [KV_HEADS * HEAD_DIM, WIDTH];
    all[`${prefix}self_attn.v_proj.weight`] = [KV_HEADS * HEAD_DIM, WIDTH];
    all[`${prefix}self_attn.o_proj.weight`] = [WIDTH, HEADS * HEAD_DIM];
    all[`${prefix}mlp.gate_proj.weight`] = [FF, WIDTH];
    all[`${prefix}mlp.up_proj.weight`] = [FF, WIDTH];
    all[`${prefix}mlp.down_proj.weight`] = [WIDTH, FF];
  }
  return all;
}

/** bfloat16: the upper half of a float32. @returns values [count], little-endian */
function bf16(count: number, next: () => number): Buffer {
  const floats = Float32Array.from({ length: count }, next);
  const words = new Uint32Array(floats.buffer);
  const bytes = Buffer.alloc(2 * count);
  words.forEach((word, i) => {
    bytes.writeUInt16LE(word >>> 16, 2 * i);
  });
  return bytes;
}

/** @param folder is made @returns it */
export function writeRandomFolder(folder: string, seed = 1): string {
  mkdirSync(folder, { recursive: true });
  const rng = new TestRng(seed);
  const tensors = Object.entries(shapes()).map(([name, shape]) => {
    const count = shape.reduce((product, size) => product * size, 1);
    const isNorm = shape.length === 1;
    const scale = 1 / Math.sqrt(shape.at(-1)!);
    // Uniform, with the variance that keeps a product's scale.
    const data = bf16(count, () => (isNorm ? 1 : scale * Math.sqrt(3) * (rng.int(0, 2 ** 20) / 2 ** 19 - 1)));
    return [name, { dtype: "BF16", shape, data }] as const;
  });
  writeFileSync(join(folder, "model.safetensors"), encodeSafetensors(Object.fromEntries(tensors)));
  writeFileSync(join(folder, "config.json"), JSON.stringify(CONFIG));
  copyFileSync(join(repositoryRoot(), TOKENIZER, "tokenizer.json"), join(folder, "tokenizer.json"));
  const tokenizer = {
    tokenizer_class: "PreTrainedTokenizerFast",
    eos_token: END_OF_TURN,
    chat_template: CHAT_TEMPLATE,
  };
  writeFileSync(join(folder, "tokenizer_config.json"), JSON.stringify(tokenizer));
  return folder;
}
