import { expect, test } from "vitest";
import { ablationCells, type CellWishes, LADDER } from "./cells.js";
import { ABLATED_ENGINES } from "./engines/index.js";
import { ALL, flagsOf, HALF, type Layers, NAIVE, TRANSFORMERS, VANILLA, variantsOf, weightsLayer } from "./variants.js";

const { foundation, optimisations } = ABLATED_ENGINES.millrace;
const layers: Layers = {
  foundation,
  optimisations: [weightsLayer("Q4_0", "q4.gguf"), ...optimisations('{"method":"ngram"}')],
  alternatives: [weightsLayer("Q8_0", "q8.gguf")],
};
const variants = variantsOf(layers);
const named = (name: string) => variants.find((variant) => variant.name === name)!;
const shape = { seats: 4, maxModelLen: 512, kvTokens: 2048 };
const flags = (name: string) => flagsOf(named(name), layers, shape).join(" ");

test("the variants are two baselines, every layer alone and removed, all layers, and all layers on half the threads", () => {
  expect(new Set(variants.map((variant) => variant.name)).size).toBe(variants.length);
  // Naive, vanilla, all, half; two and seven layers alone, eight removed.
  expect(variants).toHaveLength(4 + 2 + 7 + 8);
  expect(named("vanilla + Q8_0 weights").layers.map((layer) => layer.modelPath)).toContain("q8.gguf");
  expect(named(ALL).layers).toHaveLength(8);
  expect(variants.filter((variant) => variant.isOnHalf).map((variant) => variant.name)).toEqual([HALF]);
});

test("naive disables every layer, all together disables none, and one layer is one change", () => {
  expect(flags(NAIVE)).toBe(
    "--batching static --kv-layout contiguous --no-enable-chunked-prefill --max-num-batched-tokens 512 --no-enable-prefix-caching --no-share-kv-reads --kv-cache-dtype f16",
  );
  expect(flags(ALL)).toBe("--kv-cache-dtype int8");
  expect(flags(VANILLA)).toBe(flags(NAIVE).replace("--batching static --kv-layout contiguous ", ""));
  expect(flags("vanilla + prefix cache")).toBe(flags(VANILLA).replace("--no-enable-prefix-caching ", ""));
  expect(flags("all but paged KV")).toBe(`--kv-layout contiguous ${flags(ALL)}`);
});

test("cells scale with their memory, are selected by name, and refer to existing targets", () => {
  const wishes: CellWishes = { scale: 0.5, shapes: [[512, 512]], concurrency: [1, 2], durationS: 3 };
  const names = [TRANSFORMERS, ...variants.map((variant) => variant.name)];
  const cells = ablationCells(wishes, names);
  expect(new Set(cells.map((cell) => cell.name)).size).toBe(cells.length);
  for (const { targets = [], shape: size } of cells) {
    expect(names).toEqual(expect.arrayContaining([...targets]));
    expect(size!.kvTokens).toBeGreaterThanOrEqual(size!.maxModelLen);
  }
  expect(cells[0]!.targets).toHaveLength(names.length - 2);
  const ladder = ablationCells({ ...wishes, only: [LADDER.trim()] }, names);
  expect(ladder.map((cell) => cell.name)).toEqual(["ladder 512/512, 1 at once", "ladder 512/512, 2 at once"]);
  // All cells have one size, so that a server stays up for the ladder.
  expect(ladder[0]!.shape).toEqual(ladder[1]!.shape);
  expect(ladder[0]!.targets).toContain(TRANSFORMERS);
  expect(ladder[1]).toMatchObject({ workload: { promptTokens: 256, outputTokens: 256 }, shape: { seats: 2 } });
});
