/** The order of trials of `--method auto`, on the bundled models: by a copy's size, not by names. */
import { join } from "node:path";
import { expect, test } from "vitest";
import { repositoryRoot } from "../../test/helpers/fixtures.js";
import { writeRandomModel } from "../../test/helpers/random-model.js";
import { tempTree } from "../../test/scripts/temp-tree.js";
import { openModel } from "../model/open-model.js";
import { bySize } from "./by-size.js";
import { FOLDER_METHODS } from "./folder-formats.js";
import { FILE_METHODS } from "./recipes.js";

const BASE = openModel(join(repositoryRoot(), "models/mill-base.gguf"));

test("files: the smallest first, in the order of docs/guides/quantize.md", () => {
  const order = bySize(BASE, FILE_METHODS, "compressed-tensors");
  expect(order).toHaveLength(FILE_METHODS.length);
  expect([order[0], order.at(-1)]).toEqual(["Q2_K", "Q8_0"]);
  // 5 bits in blocks of 32 weigh more than a mixture of 5 and 6 bits in K-quants, whatever their names say.
  expect(order.indexOf("Q5_1")).toBeGreaterThan(order.indexOf("Q5_K_M"));
  expect(order.indexOf("Q4_1")).toBeGreaterThan(order.indexOf("Q4_K_M"));
});

test("folders: four bits in wide groups first; layouts have their own sizes", () => {
  expect(bySize(BASE, FOLDER_METHODS, "compressed-tensors").slice(0, 3)).toEqual(["INT4_128", "INT4_64", "NVFP4"]);
  expect(bySize(BASE, ["INT4_32", "INT4_128"], "gptq")).toEqual(["INT4_128", "INT4_32"]);
});

test("what saves nothing or cannot store the model is left out", () => {
  const student = openModel(join(repositoryRoot(), "models/mill-student.gguf"));
  expect(student.summary.weightType).toBe("Q8_0");
  expect(bySize(student, ["Q8_0", "Q4_0"], "compressed-tensors")).toEqual(["Q4_0"]);
  const odd = join(tempTree({}), "odd.gguf");
  writeRandomModel(odd, { architecture: "llama", width: 64, ff: 96, seed: 1, type: "F32" });
  expect(bySize(openModel(odd), ["FP8", "FP8_BLOCK"], "compressed-tensors")).toEqual(["FP8"]);
});
