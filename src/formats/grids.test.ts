/** The codebooks against those of GGML's own Python package, and the kernels' copy against this one. */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { gridDigits } from "./grids.js";

const IQ2 = [8, 25, 43];
const IQ3 = [4, 12, 20, 28, 36, 44, 52, 62];

/** SHA-256 of the points as f32: test/fixtures/make-grid-vectors.py. */
it.each([
  ["IQ2_XXS", IQ2, "0050706e48cc73b811d15fa6494e352713b9af46fd5f1618c226a5262b196617"],
  ["IQ2_XS", IQ2, "989f82d20f8b93e2fff6d7d8a4b13ddd1d77ab99f9b034e70670efdf9f477b95"],
  ["IQ2_S", IQ2, "a3749175cb085e510fd32743e2dc79c59f91bfba295158afcd1b2e7a3cf663c6"],
  ["IQ3_XXS", IQ3, "d9af899c2c1c57d5b3281b5231864c23d7e29cc8d4ebc5a99f43cd3834aa229b"],
  ["IQ3_S", [1, 3, 5, 7, 9, 11, 13, 15], "b703ee82ef0f3d9043b4cf176511d5a69361462fd63e575cca4ac40176c7b580"],
  ["IQ1_S", [-1, 0, 1], "4ca82266881c8a7729a16cea56a9bf6d3879d5360735b755907fe4167f69c424"],
] as const)("%s has GGML's points", (name, values, digest) => {
  const points = Float32Array.from(gridDigits(name), (digit) => values[digit]!);
  expect(createHash("sha256").update(new Uint8Array(points.buffer)).digest("hex")).toBe(digest);
});

it("the kernels have the same codebooks", () => {
  const textIn = (path: string) => readFileSync(new URL(path, import.meta.url), "utf8");
  const stringsIn = (text: string) => [...text.matchAll(/"([A-Za-z0-9+/=]{60,})"/g)].map(([, string]) => string);
  const ours = stringsIn(textIn("./grids.ts"));
  expect(ours.length).toBeGreaterThan(50);
  expect(stringsIn(textIn("../../native/cpu/kernels/grid_table.h"))).toEqual(ours);
});
