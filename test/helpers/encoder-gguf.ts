/** Writes the GGUF copy of a fixture's encoder, under llama.cpp's names, with a vocabulary of made-up tokens. */

import { f32, str, u32, type WritableTensor, type WritableValue, writeGguf } from "../../src/formats/gguf/write.js";
import { readRange, readRows } from "../../src/model/description/read-rows.js";
import { attentionMixers } from "../../src/model/description/servable.js";
import { expertsOf } from "../../src/model/description/sizes.js";
import { openModel } from "../../src/model/open-model.js";

const POOLING_TYPES = { mean: 1, cls: 2, last: 3 } as const;

/**
 * @param changes further or other metadata
 * @param keeps which tensors the file has
 */
export function writeEncoderGguf(
  folder: string,
  path: string,
  changes: Record<string, WritableValue> = {},
  keeps: (name: string) => boolean = () => true,
): void {
  const { config, tensors } = openModel(folder);
  const source = tensors();
  const { width, vocabSize, layers, architecture, positionTable, numTokenTypes, ropes } = config;
  const written: WritableTensor[] = [];
  const add = (name: string, shape: number[], values: Float32Array) => {
    const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
    written.push({ name, type: "F32", shape, data: bytes });
  };
  const matrix = (name: string, rows: number, cols: number, first = 0) => {
    if (!source.has(`${name}.weight`)) return;
    const all = readRows(source, `${name}.weight`, { rows, totalRows: rows, cols });
    add(`${name}.weight`, [cols, rows - first], all.subarray(first * cols));
    if (source.has(`${name}.bias`)) add(`${name}.bias`, [rows], source.values(`${name}.bias`, rows));
  };
  const stack = (name: string, count: number, rows: number, cols: number) => {
    const spec = { name: `${name}.weight`, totalRows: count * rows, cols, rows, numStacked: count };
    const values = Array.from({ length: count }, (_, e) => [...readRange(source, { ...spec, start: e * rows })]);
    add(spec.name, [cols, rows, count], Float32Array.from(values.flat()));
  };
  const norm = (name: string, length = width) => {
    if (!source.has(`${name}.weight`)) return;
    add(`${name}.weight`, [length], source.values(`${name}.weight`, length));
    if (source.has(`${name}.bias`)) add(`${name}.bias`, [length], source.values(`${name}.bias`, length));
  };
  matrix("token_embd", vocabSize, width);
  if (positionTable !== undefined) matrix("position_embd", positionTable.numRows, width, positionTable.firstRow);
  if (numTokenTypes > 0) matrix("token_types", numTokenTypes, width);
  for (const name of ["token_embd_norm", "output_norm"]) norm(name);
  for (const [index, { feedForward }] of layers.entries()) {
    const prefix = `blk.${index}.`;
    const mixer = attentionMixers({ layers })[index]!;
    const [q, kv] = [mixer.numHeads * mixer.headDim, mixer.numKvHeads * mixer.headDim];
    matrix(`${prefix}attn_q`, q, width);
    matrix(`${prefix}attn_k`, kv, width);
    matrix(`${prefix}attn_v`, kv, width);
    matrix(`${prefix}attn_qkv`, q + 2 * kv, width);
    matrix(`${prefix}attn_output`, width, q);
    const { width: inner } = feedForward;
    if (feedForward.kind === "experts") {
      const { count } = feedForward;
      matrix(`${prefix}ffn_gate_inp`, count, width);
      stack(`${prefix}ffn_up_exps`, count, inner, width);
      stack(`${prefix}ffn_down_exps`, count, width, inner);
      if (source.has(`${prefix}ffn_exps.bias`)) {
        add(`${prefix}ffn_exps.bias`, [width], source.values(`${prefix}ffn_exps.bias`, width));
      }
    }
    const isFused =
      feedForward.kind === "dense" && feedForward.isGated !== false && !source.has(`${prefix}ffn_gate.weight`);
    matrix(`${prefix}ffn_gate`, inner, width);
    matrix(`${prefix}ffn_up`, (isFused ? 2 : 1) * inner, width);
    matrix(`${prefix}ffn_down`, width, inner);
    for (const name of [
      "attn_norm",
      "attn_output_norm",
      "ffn_norm",
      "layer_output_norm",
      "post_attention_norm",
      "post_ffw_norm",
    ]) {
      norm(`${prefix}${name}`);
    }
    for (const name of ["attn_q_norm", "attn_k_norm"]) norm(`${prefix}${name}`, mixer.headDim);
  }
  for (const layer of config.head?.layers ?? []) {
    if (layer.kind === "linear") matrix(layer.name, layer.outputs, layer.inputs);
    else norm(layer.name);
  }
  const { feedForward } = layers[0]!;
  const mixers = attentionMixers({ layers });
  const mixer = mixers[0]!;
  const window = Math.max(...mixers.map((each) => each.window));
  const key = (name: string) => `${architecture}.${name}`;
  const isRanked = config.head?.scoring !== undefined;
  const experts = expertsOf(config);
  // The first and the next layer with experts are a period apart.
  const period = layers.findIndex((layer, index) => index > 1 && layer.feedForward.kind === "experts") - 1;
  writeGguf(path, {
    metadata: {
      "general.architecture": str(architecture),
      [key("block_count")]: u32(layers.length),
      [key("embedding_length")]: u32(width),
      [key("context_length")]: u32(config.contextLength),
      [key("feed_forward_length")]: u32(feedForward.width),
      [key("attention.head_count")]: u32(mixer.numHeads),
      [key("attention.head_count_kv")]: u32(mixer.numKvHeads),
      [key("attention.key_length")]: u32(mixer.headDim),
      [key("attention.value_length")]: u32(mixer.headDim),
      [key(`attention.layer_norm_${config.isLayerNormed ? "" : "rms_"}epsilon`)]: f32(config.rmsEps),
      [key("pooling_type")]: u32(isRanked ? 4 : POOLING_TYPES[config.pooling!]),
      ...(experts && {
        [key("expert_count")]: u32(experts.count),
        [key("expert_used_count")]: u32(experts.active),
        [key("moe_every_n_layers")]: u32(period),
      }),
      ...(window === 0 ? {} : { [key("attention.sliding_window")]: u32(window - 1) }),
      ...(ropes[0] === undefined ? {} : { [key("rope.freq_base")]: f32(ropes[0].base) }),
      ...changes,
    },
    tensors: written.filter(({ name }) => keeps(name)),
  });
}
