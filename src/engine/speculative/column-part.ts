/** Some columns of a stored matrix, as a matrix: a product reads inputs side by side, and they are apart. */
import type { MatrixRows } from "../../backend/tensor-source.js";
import { BLOCK_LAYOUT, dequantizeRow, rowByteLength } from "../../formats/dequantize.js";
import { openFile, readExactly } from "../../formats/files/read-file.js";

interface Columns {
  readonly rows: number;
  /** Of the stored matrix. */
  readonly totalCols: number;
  readonly firstCol: number;
  readonly cols: number;
}

/** In the stored type where the columns are whole blocks of it, else in F32. */
export function columnPart(stored: MatrixRows, { rows, totalCols, firstCol, cols }: Columns): MatrixRows {
  const { type } = stored;
  const { numValues } = BLOCK_LAYOUT[type];
  const rowBytes = rowByteLength(type, totalCols)!;
  const isWhole = firstCol % numValues === 0 && cols % numValues === 0;
  const convert = (target: ArrayBuffer) => {
    const all = bytesOf(stored, rows * rowBytes);
    for (let row = 0; row < rows; row++) {
      const bytes = all.subarray(row * rowBytes, (row + 1) * rowBytes);
      if (isWhole) {
        const [from, length] = [rowByteLength(type, firstCol)!, rowByteLength(type, cols)!];
        new Uint8Array(target).set(bytes.subarray(from, from + length), row * length);
      } else {
        const values = dequantizeRow(type, bytes, totalCols);
        new Float32Array(target).set(values.subarray(firstCol, firstCol + cols), row * cols);
      }
    }
  };
  return { type: isWhole ? type : "F32", convert };
}

function bytesOf(stored: MatrixRows, numBytes: number): Uint8Array {
  if ("path" in stored) {
    using file = openFile(stored.path);
    return readExactly(file, stored.byteOffset, numBytes);
  }
  const bytes = new ArrayBuffer(numBytes);
  stored.convert(bytes);
  return new Uint8Array(bytes);
}
