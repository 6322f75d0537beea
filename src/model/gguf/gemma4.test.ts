/** GGUF files of Gemma 4: layers that differ, and what is refused because the answers would be others. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { type RandomModelOptions, writeRandomModel } from "../../../test/helpers/random-model.js";
import { readGguf } from "../../formats/gguf/read.js";
import type { GgufFile } from "../../formats/gguf/types.js";
import { i32, u32 } from "../../formats/gguf/write.js";
import { attentionMixers } from "../description/servable.js";
import { kvBytesPerToken, totalParameters } from "../description/sizes.js";
import { servableGguf } from "./servable.js";

const folder = mkdtempSync(join(tmpdir(), "millrace-gemma4-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

let numFiles = 0;
function fileOf(options: Partial<RandomModelOptions> = {}): GgufFile {
  const path = join(folder, `${numFiles++}.gguf`);
  writeRandomModel(path, { architecture: "gemma4", seed: 1, ...options });
  return readGguf(path);
}
const unsupported = expect.objectContaining({ code: "architecture_unsupported" });

/** The file without a tensor, or with one of another type. */
const changed = (gguf: GgufFile, name: string, type?: "NVFP4"): GgufFile => {
  const tensors = new Map(gguf.tensors);
  const tensor = tensors.get(name)!;
  tensors.delete(name);
  if (type !== undefined) tensors.set(name, { ...tensor, type });
  return { ...gguf, tensors };
};

test("layers without a window have their own heads, and values of keys where there is no matrix of values", () => {
  const gguf = fileOf();
  const config = servableGguf(gguf);
  const { ropes, attentionScale, logitCap, isTied } = config;
  const mixers = attentionMixers(config);
  expect(mixers.map((mixer) => [mixer.numKvHeads, mixer.headDim, mixer.window, mixer.areValuesKeys])).toEqual([
    [2, 32, 24, undefined],
    [1, 64, 0, true],
    [2, 32, 24, undefined],
    [1, 64, 0, true],
  ]);
  expect(ropes.map(({ dim, base }) => [dim, base])).toEqual([
    [64, 1e4],
    [32, 100],
  ]);
  expect([attentionScale, logitCap, isTied]).toEqual([1, 6, true]);
});

test("the last layers read the keys of others, keep none, and are wider", () => {
  const config = servableGguf(fileOf({ layers: 6, sharesKeys: true }));
  expect(attentionMixers(config).map(({ keysOf }) => keysOf)).toEqual([
    undefined,
    undefined,
    undefined,
    undefined,
    2,
    3,
  ]);
  expect(config.layers.map(({ feedForward }) => feedForward.width)).toEqual([256, 256, 256, 256, 512, 512]);
  // Keys and values of the first four: 2 · 32 and 1 · 64 values, each twice, of four bytes.
  expect(kvBytesPerToken(config, "f32")).toBe(4 * 2 * 64 * 4);
});

test("every matrix of the file counts as parameters", () => {
  const variants = [{}, { layers: 6, sharesKeys: true }, { ff: 64, experts: { count: 8, active: 3 } }];
  for (const variant of variants) {
    const gguf = fileOf(variant);
    const matrices = [...gguf.tensors.values()].filter(({ shape }) => shape.length > 1);
    const numStored = matrices.reduce((sum, { shape }) => sum + shape.reduce((product, size) => product * size, 1), 0);
    expect(totalParameters(servableGguf(gguf))).toBe(numStored);
  }
});

test("experts stand beside a dense part of each layer", () => {
  const { layers, hasDenseBesideExperts, routing } = servableGguf(fileOf({ ff: 64, experts: { count: 8, active: 3 } }));
  const part = { kind: "experts", count: 8, active: 3, width: 64, sharedWidth: 64 };
  for (const { feedForward } of layers) expect(feedForward).toEqual(part);
  expect([hasDenseBesideExperts, routing.normalises]).toEqual([true, true]);
});

test("a file without the factors of its rope is incomplete, and NVFP4 experts are refused", () => {
  const withoutFactors = changed(fileOf(), "rope_freqs.weight");
  expect(() => servableGguf(withoutFactors)).toThrow(expect.objectContaining({ code: "gguf_tensor" }));
  const experts = fileOf({ ff: 64, experts: { count: 8, active: 3 } });
  expect(() => servableGguf(changed(experts, "blk.1.ffn_down_exps.weight", "NVFP4"))).toThrow(unsupported);
});

test("layers that would read keys that are not there are refused, and so are such keys of other architectures", () => {
  const shared = (count: number) => fileOf({ metadata: { "gemma4.attention.shared_kv_layers": u32(count) } });
  expect(() => servableGguf(shared(3))).toThrow(unsupported);
  expect(() => servableGguf(shared(4))).toThrow(unsupported);
  expect(() => servableGguf(fileOf({ metadata: { "gemma4.attention.shared_kv_layers": i32(-1) } }))).toThrow();
  for (const key of ["attention.shared_kv_layers", "embedding_length_per_layer_input"]) {
    const other = fileOf({ architecture: "gemma3", metadata: { [`gemma3.${key}`]: u32(2) } });
    expect(() => servableGguf(other)).toThrow(unsupported);
  }
});
