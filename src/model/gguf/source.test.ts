/** Small tensors of a file that changes after its header was read. */
import { mkdtempSync, rmSync, statSync, truncateSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { writeRandomModel } from "../../../test/helpers/random-model.js";
import { dequantizeRow } from "../../formats/dequantize.js";
import { readGguf } from "../../formats/gguf/read.js";
import { type WritableTensor, writeGguf } from "../../formats/gguf/write.js";
import { openModel } from "../open-model.js";
import { GgufSource } from "./source.js";

const folder = mkdtempSync(join(tmpdir(), "millrace-gguf-source-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

it("a vector has its values; of a file that was cut or removed since, it is refused with the file's path", () => {
  const path = join(folder, "model.gguf");
  writeRandomModel(path, { architecture: "llama", seed: 1 });
  const tensors = openModel(path).tensors();
  const values = () => tensors.values("blk.1.attn_norm.weight", 128);
  expect(values()).toHaveLength(128);
  expect(values().every((value) => Number.isFinite(value) && value !== 0)).toBe(true);
  const unreadable = (message: RegExp) =>
    expect.objectContaining({ code: "file_unreadable", message: expect.stringMatching(message) });
  truncateSync(path, statSync(path).size / 4);
  expect(values).toThrow(unreadable(/model\.gguf, got its end at byte \d+/));
  rmSync(path);
  expect(values).toThrow(unreadable(/model\.gguf, got ENOENT/));
});

describe("scales beside matrices of NVFP4", () => {
  const NAME = "blk.0.ffn_up_exps.weight";
  const bytesOf = (...values: number[]) => new Uint8Array(Float32Array.from(values).buffer);

  /** Two matrices [3, 64] one below the other. */
  function sourceOf(type: "NVFP4" | "Q8_0", ...others: readonly [name: string, ...values: number[]][]): GgufSource {
    const path = join(folder, "scales.gguf");
    const data = Uint8Array.from({ length: type === "NVFP4" ? 6 * 36 : 6 * 68 }, (_, i) => (i * 31 + 7) % 127);
    const scales = others.map(
      ([name, ...values]): WritableTensor => ({ name, type: "F32", shape: [values.length], data: bytesOf(...values) }),
    );
    writeGguf(path, { tensors: [{ name: NAME, type, shape: [64, 3, 2], data }, ...scales] });
    return new GgufSource(readGguf(path));
  }

  const rowsOf = (source: GgufSource, start = 0, rows = 6) =>
    source.matrix({ name: NAME, totalRows: 6, cols: 64, start, rows, numStacked: 2 });

  function valuesOf(source: GgufSource, start: number, rows: number): Float32Array {
    const found = rowsOf(source, start, rows);
    if (!("convert" in found)) throw new Error("expected rows to be converted");
    const target = new ArrayBuffer(rows * 40);
    found.convert(target);
    return dequantizeRow(found.type, new Uint8Array(target), rows * 64);
  }

  it("scale the rows of their matrix, and without them rows are read where they lie", () => {
    const plain = valuesOf(sourceOf("NVFP4", ["blk.0.ffn_up_exps.scale", 1, 1]), 0, 6);
    const scaled = valuesOf(sourceOf("NVFP4", ["blk.0.ffn_up_exps.scale", 0.5, -3]), 1, 4);
    expect(scaled).toEqual(plain.slice(64, 5 * 64).map((value, i) => value * (i < 2 * 64 ? 0.5 : -3)));
    expect(rowsOf(sourceOf("NVFP4"))).toMatchObject({ type: "NVFP4", path: expect.any(String) });
  });

  it.each([
    ["too few", [2], /expected blk\.0\.ffn_up_exps\.scale of shape \[2\], got \[1\]/],
    ["no numbers", [1, Number.NaN], /finite numbers in blk\.0\.ffn_up_exps\.scale, got NaN/],
  ] as const)("are refused where there are %s", (_, values, message) => {
    expect(() => rowsOf(sourceOf("NVFP4", ["blk.0.ffn_up_exps.scale", ...values]))).toThrow(
      expect.objectContaining({ code: "gguf_tensor", message: expect.stringMatching(message) }),
    );
  });

  it("are read, those of inputs change nothing, and others are refused", () => {
    const beside = (type: "NVFP4" | "Q8_0", name: string) => () =>
      sourceOf(type, [name, 1, 1]).expectNoOthers(new Set([NAME]));
    expect(beside("NVFP4", "blk.0.ffn_up_exps.scale")).not.toThrow();
    expect(beside("NVFP4", "blk.0.ffn_up_exps.input_scale")).not.toThrow();
    for (const refused of [
      beside("Q8_0", "blk.0.ffn_up_exps.scale"),
      beside("NVFP4", "blk.0.ffn_down_exps.scale"),
      beside("NVFP4", "blk.0.ffn_up_exps.output_scale"),
    ]) {
      expect(refused).toThrow(
        expect.objectContaining({ code: "gguf_tensor", message: expect.stringMatching(/scale/) }),
      );
    }
  });
});
