import { expect, test } from "vitest";
import type { ModelTensor } from "../convert/weights/tensors.js";
import { FILE_METHODS, typeFor } from "./recipes.js";

const matrix = (name: string, cols = 512): ModelTensor => ({ name: `${name}.weight`, shape: [64, cols] });
const NUM_LAYERS = 16;
const typesOf = (method: (typeof FILE_METHODS)[number], part: string): string[] =>
  Array.from({ length: NUM_LAYERS }, (_, layer) => typeFor(method, matrix(`blk.${layer}.${part}`), true, NUM_LAYERS));

test("values and down projections of some layers, and the output, have more bits", () => {
  const better = typesOf("Q4_K_M", "ffn_down").flatMap((type, layer) => (type === "Q6_K" ? layer : []));
  // llama.cpp's choice for 16 layers.
  expect(better).toEqual([0, 1, 4, 7, 10, 13, 14, 15]);
  expect(new Set(typesOf("Q4_K_M", "attn_q"))).toEqual(new Set(["Q4_K"]));
  expect(typesOf("Q4_K_S", "attn_v").slice(0, 3)).toEqual(["Q5_K", "Q5_K", "Q4_K"]);
  expect(typeFor("Q4_K_M", matrix("output"), true, NUM_LAYERS)).toBe("Q6_K");
  expect(typeFor("Q4_K_M", matrix("token_embd"), true, NUM_LAYERS)).toBe("Q4_K");
  // Tied embeddings also serve as the output matrix.
  expect(typeFor("Q4_K_M", matrix("token_embd"), false, NUM_LAYERS)).toBe("Q6_K");
  expect(typeFor("Q8_0", matrix("token_embd"), false, NUM_LAYERS)).toBe("Q8_0");
});

test("rows that are no whole blocks get a type of narrower blocks, or none", () => {
  const typeOf = (method: (typeof FILE_METHODS)[number], cols: number) =>
    typeFor(method, matrix("blk.3.attn_q", cols), true, NUM_LAYERS);
  expect(FILE_METHODS.map((method) => typeOf(method, 288))).toEqual(
    "Q8_0 Q8_0 Q5_1 Q5_1 Q5_1 Q5_0 Q5_0 Q5_0 Q4_1 Q4_0 IQ4_NL IQ4_NL MXFP4 IQ4_NL IQ4_NL IQ4_NL".split(" "),
  );
  expect(new Set(FILE_METHODS.map((method) => typeOf(method, 40)))).toEqual(new Set(["F16"]));
});
