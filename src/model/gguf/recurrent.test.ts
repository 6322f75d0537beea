/**
 * Models with recurrent layers in GGUF files: the weights of a folder, in the order and the form that llama.cpp's
 * converter gives them, have the folder's log-probabilities; and a file whose numbers or shapes do not fit is refused.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { completionsOf, weightsOnly } from "../../../test/helpers/converted.js";
import { fixture } from "../../../test/helpers/fixtures.js";
import { expectLogprobs, TOLERANCES } from "../../../test/helpers/hf-models.js";
import { type RandomArchitecture, writeRandomModel } from "../../../test/helpers/random-model.js";
import { dequantizeRow, rowByteLength } from "../../formats/dequantize.js";
import { openFile, readExactly } from "../../formats/files/read-file.js";
import { readGguf } from "../../formats/gguf/read.js";
import { arr, f32, str, u32, type WritableTensor, type WritableValue, writeGguf } from "../../formats/gguf/write.js";
import type { AttentionMixer, DeltaMixer } from "../description/model-description.js";
import { attentionMixers } from "../description/servable.js";
import { mixedWidth } from "../description/sizes.js";
import { openModel } from "../open-model.js";

const folder = mkdtempSync(join(tmpdir(), "millrace-gguf-recurrent-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

type FileType = WritableTensor["type"];

/** Rows or values in another order: the i-th is the old one at `order[i]`. */
const reordered = (bytes: Uint8Array, size: number, order: readonly number[]): Uint8Array =>
  Buffer.concat(order.map((at) => bytes.subarray(at * size, (at + 1) * size)));

/** A folder's weights as a GGUF file. */
class Conversion {
  readonly #model;
  readonly #source;
  readonly #mixer: DeltaMixer;
  readonly tensors: WritableTensor[] = [];

  constructor(
    path: string,
    private readonly isTiled: boolean,
  ) {
    this.#model = openModel(path);
    this.#source = this.#model.tensors();
    this.#mixer = this.#model.config.layers.map(({ mixer }) => mixer).find((mixer) => mixer.kind === "delta")!;
  }

  write(path: string): void {
    const { config } = this.#model;
    this.#matrix("token_embd", config.vocabSize, config.width);
    this.#vector("output_norm.weight", config.width);
    if (this.#source.has("output.weight")) this.#matrix("output", config.vocabSize, config.width);
    config.layers.forEach(({ mixer, feedForward }, index) => {
      const prefix = `blk.${index}.`;
      this.#vector(`${prefix}attn_norm.weight`, config.width);
      this.#vector(`${prefix}ffn_norm.weight`, config.width, `${prefix}post_attention_norm.weight`);
      if (mixer.kind === "delta") this.#recurrent(prefix);
      else this.#attention(prefix, mixer as AttentionMixer);
      if (feedForward.kind === "dense") this.#dense(`${prefix}ffn_`, "", feedForward.width);
      else {
        const { count, width, sharedWidth } = feedForward;
        this.#matrix(`${prefix}ffn_gate_inp`, count, config.width);
        this.#matrix(`${prefix}ffn_gate_inp_shexp`, 1, config.width);
        this.#dense(`${prefix}ffn_`, "_shexp", sharedWidth);
        this.#stack(`${prefix}ffn_gate_exps`, count, width, config.width);
        this.#stack(`${prefix}ffn_up_exps`, count, width, config.width);
        this.#stack(`${prefix}ffn_down_exps`, count, config.width, width);
      }
    });
    writeGguf(path, { metadata: this.#metadata(), tensors: this.tensors });
  }

  #metadata(): Record<string, WritableValue> {
    const { config } = this.#model;
    const { architecture } = config;
    const { numHeads, numKeyHeads, headDim, valueDim, numTaps } = this.#mixer;
    const attention = attentionMixers(config)[0]!;
    const experts = config.layers.map(({ feedForward }) => feedForward).find((part) => part.kind === "experts");
    const dense = config.layers.map(({ feedForward }) => feedForward).find((part) => part.kind === "dense");
    const own = {
      context_length: u32(config.contextLength),
      embedding_length: u32(config.width),
      // One block drafts, and is left out.
      block_count: u32(config.layers.length + 1),
      nextn_predict_layers: u32(1),
      "attention.head_count": u32(attention.numHeads),
      "attention.head_count_kv": u32(attention.numKvHeads),
      "attention.key_length": u32(attention.headDim),
      "attention.value_length": u32(attention.headDim),
      "attention.layer_norm_rms_epsilon": f32(config.rmsEps),
      "attention.recurrent_layers": arr("bool", [...config.layers.map(({ mixer }) => mixer.kind === "delta"), false]),
      "rope.dimension_count": u32(config.ropes[0]!.dim),
      "rope.freq_base": f32(config.ropes[0]!.base),
      "ssm.group_count": u32(numKeyHeads),
      "ssm.time_step_rank": u32(numHeads),
      "ssm.state_size": u32(headDim),
      "ssm.inner_size": u32(numHeads * valueDim),
      "ssm.conv_kernel": u32(numTaps),
      ...(dense === undefined ? {} : { feed_forward_length: u32(dense.width) }),
      ...(experts === undefined
        ? {}
        : {
            expert_count: u32(experts.count),
            expert_used_count: u32(experts.active),
            expert_feed_forward_length: u32(experts.width),
            expert_shared_feed_forward_length: u32(experts.sharedWidth),
          }),
    };
    return {
      "general.architecture": str(architecture),
      ...Object.fromEntries(Object.entries(own).map(([key, value]) => [`${architecture}.${key}`, value])),
    };
  }

  #attention(prefix: string, { numHeads, numKvHeads, headDim }: AttentionMixer): void {
    const { width } = this.#model.config;
    this.#matrix(`${prefix}attn_q`, 2 * numHeads * headDim, width);
    this.#matrix(`${prefix}attn_k`, numKvHeads * headDim, width);
    this.#matrix(`${prefix}attn_v`, numKvHeads * headDim, width);
    this.#matrix(`${prefix}attn_output`, width, numHeads * headDim);
    this.#vector(`${prefix}attn_q_norm.weight`, headDim);
    this.#vector(`${prefix}attn_k_norm.weight`, headDim);
  }

  #dense(prefix: string, end: string, inner: number): void {
    const { width } = this.#model.config;
    this.#matrix(`${prefix}gate${end}`, inner, width);
    this.#matrix(`${prefix}up${end}`, inner, width);
    this.#matrix(`${prefix}down${end}`, width, inner);
  }

  #recurrent(prefix: string): void {
    const { width } = this.#model.config;
    const { numHeads, numKeyHeads, headDim, valueDim, numTaps } = this.#mixer;
    const perKey = numHeads / numKeyHeads;
    const heads = Array.from({ length: numHeads }, (_, h) => (h % numKeyHeads) * perKey + Math.floor(h / numKeyHeads));
    const headOrder = this.isTiled ? heads : heads.map((_, h) => h);
    const values = headOrder.flatMap((head) => Array.from({ length: valueDim }, (_, i) => head * valueDim + i));
    const numKeys = 2 * numKeyHeads * headDim;
    const mixed = [...Array.from({ length: numKeys }, (_, i) => i), ...values.map((at) => numKeys + at)];
    if (this.#source.has(`${prefix}ssm_in.weight`)) {
      // Of each key head: query, key, values, gates.
      const size = 2 * headDim + 2 * perKey * valueDim;
      const places = (start: number, count: number) =>
        Array.from({ length: numKeyHeads * count }, (_, i) => Math.floor(i / count) * size + start + (i % count));
      const inner = perKey * valueDim;
      const order = [...places(0, headDim), ...places(headDim, headDim), ...places(2 * headDim, inner)];
      const [type, all] = this.#rowsOf(`${prefix}ssm_in`, 2 * numHeads * valueDim + numKeys, width);
      const rowBytes = rowByteLength(type as "BF16", width)!;
      this.#push(`${prefix}attn_qkv.weight`, type, [width, mixedWidth(this.#mixer)], reordered(all, rowBytes, order));
      const gates = reordered(all, rowBytes, places(2 * headDim + inner, inner));
      this.#push(`${prefix}attn_gate.weight`, type, [width, numHeads * valueDim], gates);
      this.#matrix(`${prefix}ssm_ba`, 2 * numHeads, width);
    } else {
      this.#matrix(`${prefix}attn_qkv`, mixedWidth(this.#mixer), width, mixed);
      this.#matrix(`${prefix}attn_gate`, numHeads * valueDim, width, values);
      this.#matrix(`${prefix}ssm_alpha`, numHeads, width, headOrder);
      this.#matrix(`${prefix}ssm_beta`, numHeads, width, headOrder);
    }
    this.#vector(`${prefix}ssm_a`, numHeads, undefined, headOrder);
    this.#vector(`${prefix}ssm_dt.bias`, numHeads, undefined, headOrder);
    this.#vector(`${prefix}ssm_norm.weight`, valueDim);
    const taps = this.#source.values(`${prefix}ssm_conv1d.weight`, numTaps, mixedWidth(this.#mixer));
    const taken = reordered(new Uint8Array(taps.buffer, taps.byteOffset, taps.byteLength), 4 * numTaps, mixed);
    this.#push(`${prefix}ssm_conv1d.weight`, "F32", [numTaps, mixedWidth(this.#mixer)], taken);
    const [type, out] = this.#rowsOf(`${prefix}ssm_out`, width, numHeads * valueDim);
    const size = out.length / (width * numHeads * valueDim);
    const rows = Array.from({ length: width }, (_, row) => {
      const rowBytes = numHeads * valueDim * size;
      return reordered(out.subarray(row * rowBytes, (row + 1) * rowBytes), size, values);
    });
    this.#push(`${prefix}ssm_out.weight`, type, [numHeads * valueDim, width], Buffer.concat(rows));
  }

  #vector(name: string, length: number, stored = name, order?: readonly number[]): void {
    const values = this.#source.values(name, length);
    const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
    this.#push(stored, "F32", [length], order === undefined ? bytes : reordered(bytes, 4, order));
  }

  #rowsOf(name: string, rows: number, cols: number): readonly [type: FileType, bytes: Uint8Array] {
    const spec = { name: `${name}.weight`, totalRows: rows, cols, start: 0, rows };
    const found = this.#source.matrix(spec);
    if (!("path" in found)) throw new Error(`expected ${name} as it is stored`);
    using file = openFile(found.path);
    return [found.type as FileType, readExactly(file, found.byteOffset, rows * rowByteLength(found.type, cols)!)];
  }

  #matrix(name: string, rows: number, cols: number, order?: readonly number[]): void {
    const [type, bytes] = this.#rowsOf(name, rows, cols);
    const rowBytes = bytes.length / rows;
    const shape = rows === 1 ? [cols] : [cols, rows];
    this.#push(`${name}.weight`, type, shape, order === undefined ? bytes : reordered(bytes, rowBytes, order));
  }

  #stack(name: string, count: number, rows: number, cols: number): void {
    const [type, bytes] = this.#rowsOfStack(name, count, rows, cols);
    this.#push(`${name}.weight`, type, [cols, rows, count], bytes);
  }

  #rowsOfStack(name: string, count: number, rows: number, cols: number) {
    const parts = Array.from({ length: count }, (_, e): readonly [FileType, Uint8Array] => {
      const spec = { name: `${name}.weight`, totalRows: count * rows, cols, start: e * rows, rows, numStacked: count };
      const found = this.#source.matrix(spec);
      if (!("path" in found)) throw new Error(`expected ${name} as it is stored`);
      using file = openFile(found.path);
      return [found.type as FileType, readExactly(file, found.byteOffset, rows * rowByteLength(found.type, cols)!)];
    });
    return [parts[0]![0], Buffer.concat(parts.map(([, bytes]) => bytes))] as const;
  }

  #push(name: string, type: FileType, shape: readonly number[], bytes: Uint8Array): void {
    this.tensors.push({ name, type, shape, data: () => [bytes] });
  }
}

it.each([
  ["qwen35", true],
  ["qwen35_vision", true],
  ["qwen35moe", true],
  ["qwen3next", false],
] as const)("the weights of %s give its log-probabilities", async (name, isTiled) => {
  const path = join(folder, `${name}.gguf`);
  new Conversion(fixture(`hf/${name}`), isTiled).write(path);
  await expectLogprobs(path, JSON.parse(readFileSync(fixture(`hf/${name}/expected.json`), "utf8")), TOLERANCES[name]);
});

it.each([
  ["qwen35", true],
  ["qwen35_vision", true],
  ["qwen35moe", true],
  ["qwen3next", false],
] as const)("a copy of %s holds what that file holds", (name, isTiled) => {
  const [expected, copy] = [join(folder, `${name}.expected.gguf`), join(folder, `${name}.copy.gguf`)];
  new Conversion(fixture(`hf/${name}`), isTiled).write(expected);
  weightsOnly(fixture(`hf/${name}`), copy);
  const held = (path: string) => {
    const { tensors, shards } = readGguf(path);
    return Array.from(tensors.values(), ({ name: tensor, type, shape, shard, byteOffset, byteLength }) => {
      using file = openFile(shards[shard]!.path);
      const count = shape.reduce((product, size) => product * size, 1);
      const sizes = shape.at(-1) === 1 ? shape.slice(0, -1) : shape;
      return [tensor, sizes, dequantizeRow(type, readExactly(file, byteOffset, byteLength), count)] as const;
    }).sort(([a], [b]) => (a < b ? -1 : 1));
  };
  expect(held(copy)).toEqual(held(expected));
});

describe("a header", () => {
  const path = join(folder, "header.gguf");
  const open = (key: string, value: WritableValue, architecture: RandomArchitecture = "qwen35") => {
    writeRandomModel(path, { architecture, seed: 1, metadata: { [`${architecture}.${key}`]: value } });
    return openModel(path);
  };
  const kinds = (key: string, value: WritableValue) => open(key, value).config.layers.map(({ mixer }) => mixer.kind);

  it("says which layers are recurrent", () => {
    const [A, D] = ["attention", "delta"];
    expect(kinds("full_attention_interval", u32(4))).toEqual([D, D, D, A]);
    expect(kinds("attention.recurrent_layers", arr("bool", [true, false, false, true]))).toEqual([D, A, A, D]);
  });

  it.each([
    ["attention.recurrent_layers", arr("bool", [true]), "gguf_metadata"],
    ["attention.recurrent_layers", arr("bool", [true, true, true, true]), "architecture_unsupported"],
    ["full_attention_interval", u32(0), "gguf_metadata"],
    ["ssm.group_count", u32(3), "gguf_metadata"],
    ["ssm.group_count", u32(0), "gguf_metadata"],
    ["ssm.time_step_rank", u32(2 ** 31), "gguf_metadata"],
    ["ssm.state_size", u32(2 ** 20), "gguf_metadata"],
    ["ssm.inner_size", u32(255), "gguf_metadata"],
    ["ssm.inner_size", u32(2 ** 22), "gguf_metadata"],
    ["ssm.conv_kernel", u32(65), "gguf_metadata"],
    ["ssm.conv_kernel", u32(0), "gguf_metadata"],
    ["ssm.state_size", str("128"), "gguf_metadata"],
  ] as const)("with %s out of range is refused (%#)", (key, value, code) => {
    expect(() => open(key, value)).toThrow(expect.objectContaining({ code }));
  });

  it.each([
    ["ssm.conv_kernel", u32(3), "blk.0.ssm_conv1d.weight"],
    ["ssm.state_size", u32(16), "blk.0.attn_qkv.weight"],
    ["ssm.inner_size", u32(128), "blk.0.attn_qkv.weight"],
    ["ssm.time_step_rank", u32(8), "blk.0.ssm_alpha.weight"],
    ["attention.key_length", u32(96), "attention.value_length|value heads as wide"],
  ] as const)("with %s of another model is refused", async (key, value, name) => {
    const load = async () => {
      open(key, value);
      await completionsOf(path);
    };
    await expect(load()).rejects.toThrow(new RegExp(name));
  });
});
