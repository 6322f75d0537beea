/** Values of rows of a stored matrix, for the small parts of a model that are computed on the host. */
import type { MatrixSpec, TensorSource } from "../../backend/tensor-source.js";
import { dequantizeRow, rowByteLength } from "../../formats/dequantize.js";
import { openFile, readExactly } from "../../formats/files/read-file.js";

interface RowsOf {
  /** Numbers of the wanted rows, or how many of the first. */
  readonly rows: number | readonly number[];
  readonly totalRows: number;
  readonly cols: number;
}

/** @returns [rows, cols] @throws what the source throws for a matrix that is not there or has another shape */
export function readRows(source: TensorSource, name: string, { rows, totalRows, cols }: RowsOf): Float32Array {
  const ranges = typeof rows === "number" ? [{ start: 0, count: rows }] : rows.map((start) => ({ start, count: 1 }));
  const values = new Float32Array(ranges.reduce((sum, { count }) => sum + count, 0) * cols);
  let at = 0;
  for (const { start, count } of ranges) {
    const spec = { name, totalRows, cols, start, rows: count, keepsValues: true };
    values.set(readRange(source, spec), at);
    at += count * cols;
  }
  return values;
}

/** @returns [rows, cols] @throws as `readRows` */
export function readRange(source: TensorSource, spec: MatrixSpec): Float32Array {
  const { name, cols, rows } = spec;
  const found = source.matrix(spec);
  const rowBytes = rowByteLength(found.type, cols);
  if (rowBytes === undefined) throw new Error(`expected whole blocks of ${found.type} in ${name}, got ${cols} columns`);
  const bytes = new Uint8Array(rowBytes * rows);
  if ("convert" in found) found.convert(bytes.buffer);
  else {
    using file = openFile(found.path);
    bytes.set(readExactly(file, found.byteOffset, bytes.length));
  }
  return dequantizeRow(found.type, bytes, rows * cols);
}
