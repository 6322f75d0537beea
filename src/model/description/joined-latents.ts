/**
 * Matrices that make keys and values of latent vectors. Newer GGUF files have them apart, each a stack of one for each
 * head, keys' transposed; folders and older files have both in one matrix [heads · (keys + values), kvRank].
 */
import type { MatrixRows, MatrixSpec } from "../../backend/tensor-source.js";
import { dequantizeRow, rowByteLength } from "../../formats/dequantize.js";
import { openFile, readExactly } from "../../formats/files/read-file.js";
import type { Layer } from "./model-description.js";

const APART = /^blk\.(\d+)\.attn_([kv])_b\.weight$/;

/** @returns the name of the matrix that has both; undefined: the name is of another tensor */
export function joinedNameOf(name: string): string | undefined {
  const [, layer] = APART.exec(name) ?? [];
  return layer === undefined ? undefined : `blk.${layer}.attn_kv_b.weight`;
}

/**
 * Rows of one head's matrix in a stack.
 * @param rowsOf finds rows of the matrix that has both
 */
export function latentRowsOf(
  spec: MatrixSpec,
  layers: readonly Layer[],
  rowsOf: (spec: MatrixSpec) => MatrixRows,
): MatrixRows {
  const { name, totalRows, start, rows, numStacked = 1 } = spec;
  const [, layer, kind] = APART.exec(name) ?? [];
  const mixer = layers[Number(layer)]?.mixer;
  if (mixer?.kind !== "latent") throw new Error(`expected a layer with latent attention for ${name}`);
  const { numHeads, headDim, valueDim, kvRank } = mixer;
  const ownRows = totalRows / numStacked;
  const head = Math.floor(start / ownRows);
  const first = start % ownRows;
  const perHead = headDim + valueDim;
  const joined = { name: joinedNameOf(name)!, totalRows: numHeads * perHead, cols: kvRank };
  if (kind === "v") return rowsOf({ ...joined, start: head * perHead + headDim + first, rows });
  const ofHead = rowsOf({ ...joined, start: head * perHead, rows: headDim });
  return columnsOf(ofHead, headDim, kvRank, { first, count: rows });
}

/** Columns of a matrix [rows, cols] as rows. Plain numbers keep their type. */
function columnsOf(
  found: MatrixRows,
  rows: number,
  cols: number,
  { first, count }: { readonly first: number; readonly count: number },
): MatrixRows {
  const size = { F32: 4, F16: 2, BF16: 2 }[found.type as string];
  const type = size === undefined ? "F32" : found.type;
  const convert = (target: ArrayBuffer) => {
    const stored = bytesOf(found, rows * rowByteLength(found.type, cols)!);
    const plain = size === undefined ? dequantizeRow(found.type, stored, rows * cols) : stored;
    const Values = size === 2 ? Uint16Array : Uint32Array;
    const from = new Values(plain.buffer as ArrayBuffer, plain.byteOffset, rows * cols);
    const out = new Values(target, 0, count * rows);
    for (let row = 0; row < rows; row++) {
      for (let i = 0; i < count; i++) out[i * rows + row] = from[row * cols + first + i]!;
    }
  };
  return { type, convert };
}

function bytesOf(found: MatrixRows, numBytes: number): Uint8Array {
  if (!("convert" in found)) {
    using file = openFile(found.path);
    return readExactly(file, found.byteOffset, numBytes);
  }
  const bytes = new ArrayBuffer(numBytes);
  found.convert(bytes);
  return new Uint8Array(bytes);
}
