import { closeSync, openSync, renameSync, statSync, truncateSync, utimesSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { tempTree } from "../../../test/scripts/temp-tree.js";
import type { Backend } from "../backend.js";
import { createCpuBackend } from "./cpu-backend.js";

const COLS = 1024;
const ROWS = 5000;
const WEIGHT_AT = 8192;
const WEIGHT_BYTES = ROWS * COLS * 4;
/** The weights, and bytes around them that were only copied at load. */
const FILE_BYTES = WEIGHT_AT + WEIGHT_BYTES + 2 ** 20;

const CHANGED = expect.objectContaining({ code: "model_file_changed" });

let path: string;
let backend: Backend;

/** @param inBetween runs once the file is mapped, before all weights are placed */
async function loaded(inBetween = () => {}): Promise<Backend> {
  const created = createCpuBackend({ numThreads: 1 });
  const name = "weight";
  const matrix = { name, totalRows: ROWS, cols: COLS, start: 0, rows: ROWS };
  let numPlaced = 0;
  const source = {
    matrix: () => {
      if (numPlaced++ > 0) inBetween();
      return { type: "F32", path, byteOffset: WEIGHT_AT } as const;
    },
  };
  const sizes = { numBytes: FILE_BYTES, memoryBytes: FILE_BYTES };
  const weights = { name, files: [path], ...sizes, source, matrices: [matrix, { ...matrix }] };
  await created.place(weights, { progress: () => {}, note: () => {} });
  return created;
}

beforeEach(async () => {
  path = join(tempTree({}), "model.gguf");
  writeFileSync(path, Buffer.alloc(FILE_BYTES, 1));
  backend = await loaded();
});

afterEach(() => backend.destroy());

const sumAll = () => {
  while (backend.tidy()) {}
};

let lookedMs = 0;
const look = () => {
  lookedMs += 60_000;
  backend.checkFiles(lookedMs);
};

let dateSeconds = 2_000_000_000;
const touch = () => utimesSync(path, dateSeconds, ++dateSeconds);

/** Overwrites one byte in place and sets a new date. */
function overwrite(byteOffset: number): void {
  const file = openSync(path, "r+");
  writeSync(file, Buffer.of(2), 0, 1, byteOffset);
  closeSync(file);
  touch();
}

test("a new date alone is accepted, any number of times", () => {
  sumAll();
  for (let i = 0; i < 3; i++) {
    touch();
    expect(look).not.toThrow();
    expect(look).not.toThrow();
  }
});

test.each([
  ["first byte of a weight", WEIGHT_AT],
  ["byte in the middle of a weight", WEIGHT_AT + 12_345_677],
  ["last byte of a weight", WEIGHT_AT + WEIGHT_BYTES - 1],
  ["first byte", 0],
  ["last byte", FILE_BYTES - 1],
])("another %s that changed is found, even after a harmless new date", (_, byteOffset) => {
  sumAll();
  touch();
  look();
  overwrite(byteOffset);
  expect(look).toThrow(CHANGED);
});

test("a write is found even if the file's original date is restored", async () => {
  const { atime, mtime } = statSync(path);
  utimesSync(path, atime, mtime);
  const own = await loaded();
  while (own.tidy()) {}
  touch();
  own.checkFiles(0);
  overwrite(WEIGHT_AT);
  utimesSync(path, atime, mtime);
  expect(() => own.checkFiles(60_000)).toThrow(CHANGED);
  own.destroy();
});

test("a truncated file is found even after it is fully summed", () => {
  sumAll();
  truncateSync(path, 4096);
  expect(look).toThrow(expect.objectContaining({ message: expect.stringMatching(/got 4096 bytes instead of \d+$/) }));
});

test("until the file is fully summed, any new date ends the engine", () => {
  expect(backend.tidy()).toBe(true);
  overwrite(WEIGHT_AT + WEIGHT_BYTES - 1);
  expect(look).toThrow(CHANGED);
  // Checksums computed from here on would be those of the new bytes.
  expect(sumAll).toThrow(CHANGED);
});

test("moving another file to the path changes nothing", () => {
  sumAll();
  const other = `${path}.new`;
  writeFileSync(other, Buffer.alloc(100));
  renameSync(other, path);
  expect(look).not.toThrow();
});

test("a change during loading is found", async () => {
  await expect(loaded(touch)).rejects.toEqual(CHANGED);
});
