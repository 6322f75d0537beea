import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { encodeValues } from "../../../test/helpers/tensor-bytes.js";
import type { MatrixRows } from "../../backend/tensor-source.js";
import { dequantizeRow, rowByteLength } from "../../formats/dequantize.js";
import { columnPart } from "./column-part.js";

const folder = mkdtempSync(join(tmpdir(), "millrace-columns-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const [ROWS, COLS] = [3, 192];
const VALUES = Float32Array.from({ length: ROWS * COLS }, (_, i) => ((i * 37) % 101) - 50);

function valuesOf(part: MatrixRows, cols: number): Float32Array {
  if ("path" in part) throw new Error("expected converted rows, got stored ones");
  const bytes = new ArrayBuffer(ROWS * rowByteLength(part.type, cols)!);
  part.convert(bytes);
  return dequantizeRow(part.type, new Uint8Array(bytes), ROWS * cols);
}

test.each([
  ["F32", 96, "F32"],
  ["BF16", 96, "BF16"],
  ["Q8_0", 96, "Q8_0"],
  // 48 columns are no whole blocks.
  ["Q8_0", 48, "F32"],
] as const)("columns of a matrix of %s from %i on are its values, in %s", (type, firstCol, expected) => {
  const stored = encodeValues(type, VALUES);
  const path = join(folder, `${type}-${firstCol}`);
  writeFileSync(path, Buffer.concat([Buffer.alloc(7), stored]));
  const columns = { rows: ROWS, totalCols: COLS, firstCol, cols: COLS - firstCol };
  const whole = dequantizeRow(type, stored, ROWS * COLS);
  const wanted = [0, 1, 2].flatMap((row) => [...whole.subarray(row * COLS + firstCol, (row + 1) * COLS)]);
  const convert = (target: ArrayBuffer) => new Uint8Array(target).set(stored);
  for (const rows of [
    { type, path, byteOffset: 7 },
    { type, convert },
  ]) {
    const part = columnPart(rows, columns);
    expect(part.type).toBe(expected);
    expect([...valuesOf(part, columns.cols)]).toEqual(wanted);
  }
});
