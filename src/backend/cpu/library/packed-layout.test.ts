/** Pins the bytes that `pack` writes: packs on disk stay valid only while these do not change. */
import { createHash } from "node:crypto";
import { expect, it } from "vitest";
import { randomBlocks } from "../../../../test/helpers/tensor-bytes.js";
import { rowByteLength, WEIGHT_TYPES } from "../../../formats/dequantize.js";
import { GRID_BLOCKS, type GridType } from "../../../formats/grid-blocks.js";
import { Program } from "../../program.js";
import { loadKernels } from "./load.js";
import { activationRowBytes, isPackable, packedActivations, packedByteLength } from "./packing.js";

const ROWS = 20;
const COLS = 512;

it("the layout of packed weights matches kPackedLayoutVersion", () => {
  const library = loadKernels();
  const device = library.createDevice({ numThreads: 1 });
  const hash = createHash("sha256");
  let state = 1;
  const nextBits = () => {
    state = (Math.imul(state, 0x0019_660d) + 0x3c6e_f35f) >>> 0;
    return state;
  };
  for (const type of WEIGHT_TYPES) {
    const numBytes = packedByteLength(type, ROWS, COLS);
    // These are no stored types; they select another multiplication of packed Q8_0, I8, F8_E4M3 and BF16.
    if (
      numBytes === undefined ||
      type === "Q8_0_INT8" ||
      type === "I8_INT8" ||
      type === "F8_E4M3_BF16" ||
      type === "BF16_BF16"
    )
      continue;
    const rows = device.allocate(ROWS * rowByteLength(type, COLS)!);
    new Uint8Array(device.view(rows)).set(randomBlocks(type, ROWS * COLS, nextBits, 1));
    const packed = device.allocate(numBytes);
    const program = new Program();
    const weight = device.createWeight(rows, 0, type, ROWS, COLS);
    program.record("pack", { out: packed, byteOffset: 0, weight });
    device.submit(program.words, program.numWords);
    hash.update(`${type} `).update(new Uint8Array(device.view(packed)));
  }
  device.destroy();
  // If this fails, increment kPackedLayoutVersion in native/cpu/kernels/packed.h and put the new digest here. A type
  // that had no packed form before changes the digest alone: older packs of models with that type are refused by their
  // tables, others stay good.
  expect([library.packedLayoutVersion(), hash.digest("hex").slice(0, 16)]).toEqual([1, "3b70888f27210c16"]);
});

it("sizes are asked of the kernels, which refuse names that they do not know", () => {
  expect(packedByteLength("Q4_0", 9, 64)).toBe(2 * 2 * 144);
  expect(packedByteLength("F16", 17, 64)).toBe(2 * 16 * 64 * 2);
  expect(packedByteLength("F32", 9, 64)).toBeUndefined();
  for (const [type, { packedBytes }] of Object.entries(GRID_BLOCKS)) {
    expect(packedByteLength(type as GridType, 8, 512)).toBe(8 * 2 * packedBytes);
  }
  expect([isPackable("BF16", 64), isPackable("BF16", 63), isPackable("F32", 64)]).toEqual([true, false, false]);
  expect(packedActivations("Q8_0")).toBe("row16");
  expect(packedActivations("F32")).toBeUndefined();
  expect(activationRowBytes("f32", 64)).toBe(256);
  // Scales of two blocks take a cache line, 64 integers another; the number of lines is odd.
  expect(activationRowBytes("blocks32", 64)).toBe(192);
  expect(() => packedByteLength("Q9_9" as "Q4_0", 8, 32)).toThrow(
    expect.objectContaining({ code: "kernels_argument" }),
  );
});
