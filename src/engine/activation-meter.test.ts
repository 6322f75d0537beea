import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { writeRandomModel } from "../../test/helpers/random-model.js";
import { ActivationMeter, type MeasuredGram } from "./activation-meter.js";
import { DEFAULT_ENGINE_OPTIONS } from "./api/options.js";
import { ModelStates } from "./model-states.js";

const folder = mkdtempSync(join(tmpdir(), "millrace-meter-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const TEXTS = [40, 3].map((length) => Array.from({ length }, (_, i) => (i * 31 + 5 * length) % 300));

test.each([
  // Four heads of 64 values.
  ["qwen35", "blk.0.attn_qkv", "blk.0.ssm_out", 256],
  ["qwen3next", "blk.0.ssm_ba", "blk.0.ssm_out", 256],
  ["lfm2", "blk.0.shortconv.in_proj", "blk.0.shortconv.out_proj", 64],
  ["lfm3", "blk.0.shortconv.in_proj", "blk.1.attn_output", 64],
  ["deepseek2", "blk.0.attn_kv_a_mqa", "blk.0.attn_output", 256],
  ["deepseek2", "blk.0.attn_q_a", "blk.0.attn_k_b", 32],
  ["deepseek2", "blk.0.attn_q_a", "blk.0.attn_v_b", 96],
] as const)("%s: inputs of other layers than plain attention too, whatever the chunks", async (architecture, name, output, cols) => {
  const modelPath = join(folder, `${architecture}.gguf`);
  writeRandomModel(modelPath, { architecture, seed: 1, type: "F32", width: 64, ff: 96, layers: 2 });
  const options = { ...DEFAULT_ENGINE_OPTIONS, modelPath, numThreads: 1, kvCacheMemoryBytes: 2 ** 22, maxModelLen: 64 };
  const measure = async (maxNumBatchedTokens: number) => {
    const meter = await ActivationMeter.open({ ...options, maxNumBatchedTokens });
    const measured = await meter.squares(TEXTS, async () => {});
    meter.close();
    return measured;
  };
  const [measured, inChunks] = [await measure(64), await measure(7)];
  const of = (wanted: string) => measured.find(({ names }) => names.includes(wanted))!;
  expect(of(name).sums).toHaveLength(64);
  expect(of(name).sums).not.toEqual(of(architecture === "deepseek2" ? "blk.1.attn_q_a" : "blk.1.attn_q").sums);
  expect(of(output).sums).toHaveLength(cols);
  // Gates of heads read the queries' input.
  if (architecture === "lfm3") expect(of("blk.1.attn_gate")).toBe(of("blk.1.attn_q"));
  for (const [index, { names, sums, numRows }] of measured.entries()) {
    expect({ names, isPositive: sums.every((sum) => sum > 0) }).toEqual({ names, isPositive: true });
    expect(inChunks[index]).toMatchObject({ names, numRows });
    for (const [c, sum] of inChunks[index]!.sums.entries()) expect(sum).toBeCloseTo(sums[c]!, 8);
  }
});

test.each([
  "llama",
  "qwen3moe",
] as const)("%s: the squares of every input, whatever the chunks", async (architecture) => {
  const modelPath = join(folder, `${architecture}.gguf`);
  writeRandomModel(modelPath, { architecture, seed: 1, type: "F32", width: 64, ff: 96, layers: 2 });
  const options = { ...DEFAULT_ENGINE_OPTIONS, modelPath, numThreads: 1, kvCacheMemoryBytes: 2 ** 22, maxModelLen: 64 };
  const measure = async (maxNumBatchedTokens: number) => {
    const meter = await ActivationMeter.open({ ...options, maxNumBatchedTokens });
    const measured = await meter.squares(TEXTS, async () => {});
    const grams: MeasuredGram[] = [];
    await meter.grams(
      1,
      1,
      TEXTS,
      async () => {},
      async (each) => void grams.push({ ...each, gram: each.gram.slice() }),
    );
    const largest = await meter.largest(TEXTS, async () => {});
    meter.close();
    return { measured, grams, largest };
  };
  const { measured, grams, largest } = await measure(64);
  const { measured: inChunks, grams: gramsInChunks, largest: largestInChunks } = await measure(7);
  expect(largestInChunks).toEqual(largest);
  for (const [index, each] of largest.entries()) {
    const { names, sums, numRows } = measured[index]!;
    expect(each.names).toEqual(names);
    // The mean of the squares is at most the largest of them, and their sum is at least that.
    for (const [c, peak] of each.largest.entries()) {
      expect(sums[c]!).toBeGreaterThanOrEqual(peak ** 2 * (1 - 1e-6));
      expect(sums[c]! / numRows).toBeLessThanOrEqual(peak ** 2 * (1 + 1e-6));
    }
  }
  expect(inChunks.map(({ names }) => names)).toEqual(measured.map(({ names }) => names));
  const of = (name: string) => measured.find(({ names }) => names.includes(name))!;
  for (const [index, { names, sums }] of measured.entries()) {
    expect({ names, isPositive: sums.every((sum) => sum > 0) }).toEqual({ names, isPositive: true });
    // Experts group the rows of a step, so their sums are in another order.
    for (const [c, sum] of inChunks[index]!.sums.entries()) expect(sum).toBeCloseTo(sums[c]!, 8);
  }
  expect(of("blk.1.attn_q").sums).toBe(of("blk.1.attn_v").sums);
  // The diagonal of a Gram matrix is the squares. Each expert would have one of its own.
  expect(grams.map(({ names }) => names[0]!.replace("blk.1.", ""))).toEqual(
    architecture === "qwen3moe" ? ["attn_q", "attn_output"] : ["attn_q", "attn_output", "ffn_gate", "ffn_down"],
  );
  for (const [index, { names, cols, gram }] of grams.entries()) {
    const { sums } = of(names[0]!);
    for (const [c, sum] of sums.entries()) expect(gram[c * cols + c]! / sum).toBeCloseTo(1, 5);
    expect(gram.some((value, at) => at % cols < Math.floor(at / cols) && value !== 0)).toBe(true);
    for (const [at, value] of gramsInChunks[index]!.gram.entries()) expect(value).toBeCloseTo(gram[at]!, 3);
  }
  const numTokens = TEXTS.flat().length;
  const isMixture = architecture === "qwen3moe";
  expect(of(isMixture ? "blk.0.ffn_up_exps" : "blk.0.ffn_up").numRows).toBe(numTokens);
  expect(of(isMixture ? "blk.0.ffn_down_exps" : "blk.0.ffn_down").numRows % numTokens).toBe(0);

  // The first input is the embeddings over their root mean square; the model's gains are near one, and the same for all
  // tokens.
  const states = await ModelStates.open(options);
  const { embedding } = states.tables();
  states.close();
  const plain = new Float64Array(64);
  for (const id of TEXTS.flat()) {
    const row = embedding.subarray(64 * id, 64 * (id + 1));
    const meanSquare = row.reduce((sum, value) => sum + value * value, 0) / 64;
    for (const [c, value] of row.entries()) plain[c]! += value ** 2 / meanSquare;
  }
  const gains = [...of("blk.0.attn_q").sums].map((sum, c) => sum / plain[c]!);
  for (const gain of gains) expect(Math.abs(Math.log(gain))).toBeLessThan(1);
});
