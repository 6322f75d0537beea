/**
 * Weights of one byte each, row after row, times a scale: FP8 E4M3 and INT8, with one scale for the tensor, for each
 * row, for groups of a row, or for blocks of rows and columns (DeepSeek's and Qwen's `weight_scale_inv`,
 * compressed-tensors' `weight_scale`).
 */
import type { SafetensorsTensor } from "../../../formats/safetensors/types.js";
import { evenGrid, type QuantizedMatrix, type ScaleGrid } from "./matrix.js";
import type { LayerTensors } from "./tensors.js";

const SCALE_TYPES = ["F32", "F16", "BF16", "F8_E8M0"] as const;

/** @param blockSize rows and columns that share a scale, for layers scaled in blocks */
export function openScaledBytes(
  tensors: LayerTensors,
  [rows, cols]: readonly [number, number],
  blockSize: readonly [number, number],
): QuantizedMatrix {
  const weight = tensors.get("weight", ["F8_E4M3", "I8"], [rows, cols]);
  if (tensors.find("weight_zero_point") !== undefined) {
    throw tensors.refuse(`${tensors.layer} without weight_zero_point (symmetric)`, "one with it");
  }
  const isFloat = weight.dtype === "F8_E4M3";
  return {
    rows,
    cols,
    scales: readScales(tensors, rows, cols, blockSize),
    range: isFloat ? "F8_E4M3" : [-128, 127],
    rowAlignment: 1,
    readCodes: (start, numRows) => {
      const bytes = tensors.bytes(weight, start * cols, numRows * cols);
      return isFloat ? bytes : new Int16Array(new Int8Array(bytes.buffer));
    },
  };
}

function readScales(
  tensors: LayerTensors,
  rows: number,
  cols: number,
  blockSize: readonly [number, number],
): ScaleGrid {
  const isInverse = tensors.find("weight_scale_inv") !== undefined;
  const part = isInverse ? "weight_scale_inv" : "weight_scale";
  const found = tensors.find(part);
  const shape = found?.shape ?? [];
  const [first = 1, second = 1] = shape;
  const isOf = (wantedRows: number, wantedCols: number) => first === wantedRows && second === wantedCols;
  const scale = (shape: readonly number[]) => tensors.floats(tensors.get(part, SCALE_TYPES, shape));
  const isGrid = found !== undefined && shape.length <= 2;
  if (isGrid && isOf(1, 1)) return evenGrid(scale(shape), cols, { rowsPerScale: rows, colsPerScale: cols });
  if (isGrid && isOf(rows, 1)) return evenGrid(scale(shape), cols, { rowsPerScale: 1, colsPerScale: cols });
  const [blockRows, blockCols] = blockSize;
  const blocks = [Math.ceil(rows / blockRows), Math.ceil(cols / blockCols)] as const;
  if (isGrid && isOf(...blocks))
    return evenGrid(scale(blocks), cols, { rowsPerScale: blockRows, colsPerScale: blockCols });
  if (isGrid && first === rows && cols % second === 0) {
    return evenGrid(scale([rows, second]), cols, { rowsPerScale: 1, colsPerScale: cols / second });
  }
  throw tensors.refuse(
    `${tensors.layer}.${part} for ${rows} rows of ${cols}: one, one a row, or [${blocks}]`,
    describe(found),
  );
}

function describe(tensor: SafetensorsTensor | undefined): string {
  return tensor === undefined ? "none" : `[${tensor.shape}]`;
}
