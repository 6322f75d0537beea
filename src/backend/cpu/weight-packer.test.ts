/** Whether weights fit into memory is decided by what they take there, not by what they take in the file. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { tempTree } from "../../../test/scripts/temp-tree.js";
import { createCpuBackend } from "./cpu-backend.js";

const [ROWS, COLS] = [64, 256];
const FILE_BYTES = ROWS * COLS * 2;

test.each<[string, number, boolean]>([
  ["are packed where their memory is left", FILE_BYTES, true],
  ["stay in their file where only the file's bytes are left", 2 * FILE_BYTES, false],
])("16-bit weights %s", async (_, memoryBytes, arePacked) => {
  const path = join(tempTree({}), "model.gguf");
  writeFileSync(path, Buffer.alloc(FILE_BYTES));
  const backend = createCpuBackend({ numThreads: 1, freeBytes: FILE_BYTES });
  const name = "weight";
  const matrices = [{ name, totalRows: ROWS, cols: COLS, start: 0, rows: ROWS }];
  const source = { matrix: () => ({ type: "F16", path, byteOffset: 0 }) as const };
  const stages: string[] = [];
  const report = { progress: (stage: string) => stages.push(stage), note: () => {} };
  try {
    await backend.place({ name, files: [], numBytes: FILE_BYTES, memoryBytes, source, matrices }, report);
  } finally {
    backend.destroy();
  }
  expect(stages.includes("packing the weights")).toBe(arePacked);
});
