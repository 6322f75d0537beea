/**
 * Weights packed into words of 32 bits, with scales for groups of a row. Layouts (from the formats' own packages):
 * - GPTQ: `qweight` [cols / n, rows], n columns of one row in a word, first in the low bits; `scales` [groups, rows];
 *   `qzeros` [groups, rows / n]; `g_idx` [cols] names each column's group. Version 1 stores the zero point less one.
 * - AWQ: `qweight` [cols, rows / 8], eight rows of one column in a word in the order 0 2 4 6 1 3 5 7; `scales` and
 *   `qzeros` likewise.
 * - compressed-tensors: `weight_packed` [rows, cols / 8] row after row, four-bit numbers plus 8; `weight_scale` [rows,
 *   groups]; `weight_zero_point` [rows / 8, groups], packed along the rows; `weight_g_idx` [cols].
 */
import type { SafetensorsTensor } from "../../../formats/safetensors/types.js";
import { evenGrid, type QuantizedMatrix, type ScaleGrid } from "./matrix.js";
import type { LayerTensors } from "./tensors.js";

type Shape = readonly [rows: number, cols: number];

const FLOATS = ["F16", "BF16", "F32"] as const;
/** Where AWQ has row i of eight in a word, by four bits. */
export const AWQ_PLACES = [0, 4, 1, 5, 2, 6, 3, 7] as const;
const NIBBLES = 8;
const ONE_IN_EACH = { 4: 0x1111_1111, 8: 0x0101_0101 } as const;
/** Words in memory at a time where the file has columns together: fewer mean more and smaller reads. */
const TILE_WORDS = 1 << 21;

interface GptqFormat {
  readonly bits: 4 | 8;
  readonly storesZeroLessOne: boolean;
  /** undefined: as many columns as the scales ask for */
  readonly groupSize: number | undefined;
}

export function openGptq(
  tensors: LayerTensors,
  shape: Shape,
  { bits, storesZeroLessOne, groupSize }: GptqFormat,
): QuantizedMatrix {
  const [rows, cols] = shape;
  const perWord = 32 / bits;
  const mask = 2 ** bits - 1;
  const weight = tensors.get("qweight", ["I32"], [Math.ceil(cols / perWord), rows]);
  const scales = transposedScales(tensors, shape, groupSize);
  const { groupOfCol } = scales;
  const numGroups = scales.values.length / rows;
  const wordsPerGroup = Math.ceil(rows / perWord);
  const zeroWords = tensors.integers(tensors.get("qzeros", ["I32"], [numGroups, wordsPerGroup]));
  // Added to the word as a whole, as GPTQModel does: the bits that the writer borrowed from the next number are given
  // back.
  const one = storesZeroLessOne ? ONE_IN_EACH[bits] : 0;
  const zeros = Int16Array.from({ length: numGroups * rows }, (_, index) => {
    const row = index % rows;
    const word = zeroWords[Math.floor(index / rows) * wordsPerGroup + Math.floor(row / perWord)]! + one;
    return (word >>> ((row % perWord) * bits)) & mask;
  });
  return {
    rows,
    cols,
    scales,
    range: rangeOf(zeros, mask),
    rowAlignment: Math.min(rows, Math.max(1, Math.floor(TILE_WORDS / weight.shape[0]!))),
    readCodes: (start, numRows) => {
      const words = tensors.wordColumns(weight, start, numRows);
      const codes = new Int16Array(numRows * cols);
      // Word by word: the columns of one word lie together in a row.
      for (let first = 0; first < cols; first += perWord) {
        const wordRow = (first / perWord) * numRows;
        const last = Math.min(cols, first + perWord);
        for (let row = 0; row < numRows; row++) {
          let word = words[wordRow + row]!;
          for (let col = first; col < last; col++, word >>>= bits) {
            codes[row * cols + col] = (word & mask) - zeros[groupOfCol[col]! * rows + start + row]!;
          }
        }
      }
      return codes;
    },
  };
}

export function openAwq(tensors: LayerTensors, shape: Shape, statedSize: number | undefined): QuantizedMatrix {
  const [rows, cols] = shape;
  if (rows % NIBBLES !== 0) throw tensors.refuse(`${tensors.layer} with a multiple of ${NIBBLES} rows`, rows);
  const rowWords = rows / NIBBLES;
  const weight = tensors.get("qweight", ["I32"], [cols, rowWords]);
  const scales = transposedScales(tensors, shape, statedSize);
  const { groupOfCol } = scales;
  const zeroWords = tensors.integers(tensors.get("qzeros", ["I32"], [scales.values.length / rows, rowWords]));
  const zeros = Int16Array.from({ length: scales.values.length }, (_, index) => {
    const row = index % rows;
    const word = zeroWords[Math.floor(index / rows) * rowWords + Math.floor(row / NIBBLES)]!;
    return (word >>> (4 * AWQ_PLACES[row % NIBBLES]!)) & 15;
  });
  return {
    rows,
    cols,
    scales,
    range: rangeOf(zeros, 15),
    rowAlignment: Math.min(rows, NIBBLES * Math.max(1, Math.floor(TILE_WORDS / cols))),
    readCodes: (start, numRows) => {
      const numWords = numRows / NIBBLES;
      const words = tensors.wordColumns(weight, start / NIBBLES, numWords);
      const codes = new Int16Array(numRows * cols);
      // Word by word: the rows of one word are written side by side.
      for (let wordAt = 0; wordAt < numWords; wordAt++) {
        const firstRow = wordAt * NIBBLES;
        for (let col = 0; col < cols; col++) {
          const word = words[col * numWords + wordAt]!;
          const zeroAt = groupOfCol[col]! * rows + start + firstRow;
          for (let i = 0; i < NIBBLES; i++) {
            codes[(firstRow + i) * cols + col] = ((word >>> (4 * AWQ_PLACES[i]!)) & 15) - zeros[zeroAt + i]!;
          }
        }
      }
      return codes;
    },
  };
}

export function openPackQuantized(tensors: LayerTensors, shape: Shape): QuantizedMatrix {
  const [rows, cols] = shape;
  const rowWords = Math.ceil(cols / NIBBLES);
  const weight = tensors.get("weight_packed", ["I32"], [rows, rowWords]);
  const stated = tensors.find("weight_shape");
  if (stated !== undefined) {
    const [statedRows, statedCols] = tensors.integers(tensors.get("weight_shape", ["I64", "I32"], [2]));
    if (statedRows !== rows || statedCols !== cols) {
      throw tensors.refuse(`${tensors.layer}.weight_shape [${shape}]`, `[${statedRows}, ${statedCols}]`);
    }
  }
  const numGroups = tensors.find("weight_scale")?.shape[1] ?? 1;
  if (cols % numGroups !== 0) throw tensors.refuse(`groups that divide ${cols} columns of ${tensors.layer}`, numGroups);
  const values = tensors.floats(tensors.get("weight_scale", FLOATS, [rows, numGroups]));
  const even = evenGrid(values, cols, { rowsPerScale: 1, colsPerScale: cols / numGroups });
  const scales = { ...even, groupOfCol: readGroups(tensors, "weight_g_idx", cols, numGroups) ?? even.groupOfCol };
  const zeros = packedZeros(tensors, rows, numGroups);
  return {
    rows,
    cols,
    scales,
    range: zeros === undefined ? [-8, 7] : rangeOf(zeros, 15),
    rowAlignment: 1,
    readCodes: (start, numRows) => {
      const words = new Int32Array(tensors.bytes(weight, start * rowWords * 4, numRows * rowWords * 4).buffer);
      const codes = new Int16Array(numRows * cols);
      for (let row = 0; row < numRows; row++) {
        for (let col = 0; col < cols; col++) {
          const stored = (words[row * rowWords + (col >> 3)]! >>> (4 * (col & 7))) & 15;
          codes[row * cols + col] = stored - (zeros?.[(start + row) * numGroups + scales.groupOfCol[col]!] ?? 8);
        }
      }
      return codes;
    },
  };
}

/** By row and group, plus 8 like the weights; undefined: 8 everywhere. */
function packedZeros(tensors: LayerTensors, rows: number, numGroups: number): Int16Array | undefined {
  if (tensors.find("weight_zero_point") === undefined) return undefined;
  const packed = tensors.get("weight_zero_point", ["I32"], [Math.ceil(rows / NIBBLES), numGroups]);
  const words = tensors.integers(packed);
  return Int16Array.from({ length: rows * numGroups }, (_, index) => {
    const row = Math.floor(index / numGroups);
    return (words[Math.floor(row / NIBBLES) * numGroups + (index % numGroups)]! >>> (4 * (row % NIBBLES))) & 15;
  });
}

/** `scales` [groups, rows]; a column's group is its place, unless `g_idx` says otherwise. */
function transposedScales(tensors: LayerTensors, [rows, cols]: Shape, statedSize: number | undefined): ScaleGrid {
  const numGroups = tensors.find("scales")?.shape[0] ?? 1;
  if (!(numGroups >= 1 && numGroups <= cols)) throw tensors.refuse(`1 to ${cols} groups of scales`, String(numGroups));
  const groupSize = statedSize ?? Math.ceil(cols / numGroups);
  if (Math.ceil(cols / groupSize) !== numGroups)
    throw tensors.refuse(
      `${Math.ceil(cols / groupSize)} groups of ${groupSize} columns of ${tensors.layer}`,
      numGroups,
    );
  return {
    values: tensors.floats(tensors.get("scales", FLOATS, [numGroups, rows])),
    rowsPerScale: 1,
    rowStride: 1,
    groupOfCol:
      readGroups(tensors, "g_idx", cols, numGroups) ??
      Int32Array.from({ length: cols }, (_, col) => Math.floor(col / groupSize)),
    groupStride: rows,
  };
}

function readGroups(tensors: LayerTensors, part: string, cols: number, numGroups: number): Int32Array | undefined {
  const tensor: SafetensorsTensor | undefined = tensors.find(part);
  if (tensor === undefined) return undefined;
  const groups = tensors.integers(tensors.get(part, ["I32", "I64"], [cols]));
  const wrong = groups.find((group) => group < 0 || group >= numGroups);
  if (wrong !== undefined) throw tensors.refuse(`${tensor.name} in 0..${numGroups - 1}`, wrong);
  return groups;
}

/** Codes from 0 to `max` less these zero points. */
function rangeOf(zeros: Int16Array, max: number): readonly [number, number] {
  let [least, most] = [max + 1, 0];
  for (const zero of zeros) {
    least = Math.min(least, zero);
    most = Math.max(most, zero);
  }
  return [-most, max - least];
}
