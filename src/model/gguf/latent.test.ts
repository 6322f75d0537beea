/** Latent attention in GGUF files: older files have a layer's matrices of keys and values in one. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { completionsOf, expectClose, weightsOnly } from "../../../test/helpers/converted.js";
import { type RandomModelOptions, writeRandomModel } from "../../../test/helpers/random-model.js";
import { readGguf } from "../../formats/gguf/read.js";
import { bool, f32, str, u32, type WritableValue } from "../../formats/gguf/write.js";
import { kvBytesPerToken } from "../description/sizes.js";
import { openModel } from "../open-model.js";

const folder = mkdtempSync(join(tmpdir(), "millrace-gguf-latent-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

let numFiles = 0;
function written(options: Partial<RandomModelOptions> = {}): string {
  const path = join(folder, `${numFiles++}.gguf`);
  writeRandomModel(path, { architecture: "deepseek2", seed: 1, ...options });
  return path;
}
const configOf = (metadata: Readonly<Record<string, WritableValue>>) =>
  openModel(
    written({
      metadata: Object.fromEntries(Object.entries(metadata).map(([key, value]) => [`deepseek2.${key}`, value])),
    }),
  ).config;

describe("a file that has keys and values in one matrix", () => {
  it("computes what one does that has them apart", async () => {
    const [joined, apart] = [written({ joinsLatents: true }), join(folder, "apart.gguf")];
    weightsOnly(joined, apart);
    const names = ["attn_kv_b", "attn_k_b", "attn_v_b"].map((part) => `blk.1.${part}.weight`);
    expect(names.map((name) => readGguf(joined).tensors.has(name))).toEqual([true, false, false]);
    expect(names.map((name) => readGguf(apart).tensors.get(name)?.shape)).toEqual([
      undefined,
      [32, 96, 4],
      [96, 64, 4],
    ]);
    expect(await completionsOf(apart)).toEqual(await completionsOf(joined));
  });

  it("of blocks computes what their values do", async () => {
    const options = { joinsLatents: true, type: "Q8_0" } as const;
    const expected = await completionsOf(written({ ...options, isDequantised: true }));
    expectClose(await completionsOf(written(options)), expected);
  });
});

it("keeps one entry of a token for keys and values of all heads", () => {
  // 96 numbers of the latent vector and 16 that are rotated, in each of two layers.
  expect(kvBytesPerToken(openModel(written()).config, "f16")).toBe(2 * (96 + 16) * 2);
});

describe("the header", () => {
  it("says how experts are chosen; files that do not are of a softmax, but for GLM's", () => {
    expect(configOf({}).routing).toEqual({
      scoring: "sigmoid",
      normalises: true,
      scale: expect.closeTo(1.7),
      numGroups: 4,
      numUsedGroups: 2,
      hasBias: true,
    });
    const silent = { expert_gating_func: u32(0), expert_weights_norm: bool(false) };
    expect(() => configOf(silent)).toThrow(/expected no exp_probs_b\.bias beside a softmax/);
    expect(() => configOf({ expert_gating_func: u32(3) })).toThrow(/expert_gating_func to be 1 or 2, got 3/);
  });

  it("gives scores the square of YaRN's magnitude, and positions none", () => {
    const { attentionScale, ropes } = configOf({ "rope.scaling.yarn_log_multiplier": f32(0.1) });
    expect(attentionScale).toBeCloseTo((1 + 0.1 * Math.log(16)) ** 2 / Math.sqrt(48), 6);
    expect(ropes[0]!.attentionFactor * (1 + 0.1 * Math.log(16))).toBeCloseTo(1, 6);
    expect(configOf({ "rope.scaling.type": str("none") }).attentionScale).toBeCloseTo(1 / Math.sqrt(48), 6);
  });

  it("says how queries of mistral4 grow, and a copy says it too", () => {
    const scalingOf = (metadata: Readonly<Record<string, WritableValue>>) =>
      openModel(written({ architecture: "mistral4", metadata })).config.queryScaling;
    expect(scalingOf({})).toEqual({ beta: Math.fround(0.1), length: 16 });
    const file = written({ architecture: "mistral4" });
    const copy = join(folder, "mistral4.gguf");
    weightsOnly(file, copy);
    expect(openModel(copy).config.queryScaling).toEqual(scalingOf({}));
    expect(scalingOf({ "mistral4.attention.temperature_scale": f32(0) })).toBeUndefined();
  });

  it.each([
    ["rope.scaling.yarn_log_multiplier", f32(-1), "gguf_metadata"],
    ["attention.kv_lora_rank", u32(0), "gguf_metadata"],
    ["attention.temperature_scale", f32(0.1), "architecture_unsupported"],
  ] as const)("with a %s that is not computed is refused", (key, value, code) => {
    expect(() => configOf({ [key]: value })).toThrow(expect.objectContaining({ code }));
  });
});
