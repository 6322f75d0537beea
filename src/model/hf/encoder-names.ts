/** How checkpoints of encoders name their tensors, by the names of llama.cpp. */
import type { Architecture } from "../description/architectures.js";

/** Prefixes of the tensors of one checkpoint. */
export interface HfPrefixes {
  readonly model: string;
  readonly head: string;
  /** Index of the first layer that drafts, as GGUF files count; absent: there is none. */
  readonly firstDraft?: number;
  /** The classification head is RoBERTa's: it has a first layer of its own, where BERT's uses the pooler. */
  readonly hasOwnClassifier?: boolean;
}

/** How checkpoints of an encoder name their tensors; # is the prefix of the model's own. */
interface EncoderNames {
  readonly layers: string;
  readonly parts: Readonly<Record<string, string>>;
  readonly globals: Readonly<Record<string, string>>;
  /**
   * Beginnings of the names of all tensors that vectors depend on. Checkpoints also have heads for other tasks, which
   * are not read.
   */
  readonly own: readonly string[];
}
const BERT_NAMES: EncoderNames = {
  layers: "#encoder.layer.",
  parts: {
    attn_q: "attention.self.query",
    attn_k: "attention.self.key",
    attn_v: "attention.self.value",
    attn_output: "attention.output.dense",
    attn_output_norm: "attention.output.LayerNorm",
    ffn_up: "intermediate.dense",
    ffn_down: "output.dense",
    layer_output_norm: "output.LayerNorm",
  },
  globals: {
    token_embd: "#embeddings.word_embeddings",
    position_embd: "#embeddings.position_embeddings",
    token_types: "#embeddings.token_type_embeddings",
    token_embd_norm: "#embeddings.LayerNorm",
    cls: "#pooler.dense",
    "cls.output": "classifier",
  },
  own: ["#embeddings.", "#encoder."],
};
/** As Nomic's own code has them, and transformers writes them too. */
const NOMIC_NAMES: EncoderNames = {
  layers: "#encoder.layers.",
  parts: {
    attn_qkv: "attn.Wqkv",
    attn_output: "attn.out_proj",
    attn_output_norm: "norm1",
    ffn_gate: "mlp.fc12",
    ffn_up: "mlp.fc11",
    ffn_down: "mlp.fc2",
    layer_output_norm: "norm2",
  },
  globals: { ...BERT_NAMES.globals, token_embd_norm: "#emb_ln" },
  own: [...BERT_NAMES.own, "#emb_ln."],
};
const { ffn_gate: ___, ...NOMIC_GATELESS_PARTS } = NOMIC_NAMES.parts;
const NOMIC_MOE_NAMES: EncoderNames = {
  ...NOMIC_NAMES,
  parts: {
    ...NOMIC_GATELESS_PARTS,
    ffn_up: "mlp.fc1",
    ffn_gate_inp: "mlp.router.layer",
    ffn_up_exps: "mlp.experts.mlp.w1",
    ffn_exps: "mlp.experts",
  },
};
const MODERN_NAMES: EncoderNames = {
  layers: "#layers.",
  parts: {
    attn_norm: "attn_norm",
    attn_qkv: "attn.Wqkv",
    attn_output: "attn.Wo",
    ffn_norm: "mlp_norm",
    ffn_up: "mlp.Wi",
    ffn_down: "mlp.Wo",
  },
  globals: {
    token_embd: "#embeddings.tok_embeddings",
    token_embd_norm: "#embeddings.norm",
    output_norm: "#final_norm",
    cls: "head.dense",
    "cls.norm": "head.norm",
    "cls.output": "classifier",
  },
  own: ["#embeddings.", "#layers.", "#final_norm."],
};
export const ENCODER_NAMES: Partial<Record<Architecture, EncoderNames>> = {
  bert: BERT_NAMES,
  "nomic-bert": NOMIC_NAMES,
  "nomic-bert-moe": NOMIC_MOE_NAMES,
  "modern-bert": MODERN_NAMES,
};
const OWN_CLASSIFIER: Readonly<Record<string, string>> = {
  cls: "classifier.dense",
  "cls.output": "classifier.out_proj",
};

export function encoderNameOf(
  base: string,
  names: EncoderNames,
  { model, hasOwnClassifier }: HfPrefixes,
): string | undefined {
  const [, layer, part = ""] = /^blk\.(\d+)\.(\w+)$/.exec(base) ?? [];
  const find = (table: Readonly<Record<string, string>>, key: string) =>
    Object.hasOwn(table, key) ? table[key] : undefined;
  const global = (hasOwnClassifier === true ? find(OWN_CLASSIFIER, base) : undefined) ?? find(names.globals, base);
  const own = find(names.parts, part);
  const name = layer === undefined ? global : own && `${names.layers}${layer}.${own}`;
  return name?.replace("#", model);
}
