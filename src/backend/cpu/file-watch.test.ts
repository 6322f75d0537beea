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
/** The weights, and what was copied out of it when it was loaded. */
const FILE_BYTES = WEIGHT_AT + WEIGHT_BYTES + 2 ** 20;

const CHANGED = expect.objectContaining({ code: "model_file_changed" });

let path: string;
let backend: Backend;

/** @param inBetween runs when the file is mapped, and not all is placed */
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
  const weights = { name, files: [path], numBytes: FILE_BYTES, source, matrices: [matrix, { ...matrix }] };
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

/** As whoever opens the file to change a byte. */
function overwrite(byteOffset: number): void {
  const file = openSync(path, "r+");
  writeSync(file, Buffer.of(2), 0, 1, byteOffset);
  closeSync(file);
  touch();
}

test("a new date alone changes nothing, however often", () => {
  sumAll();
  for (let i = 0; i < 3; i++) {
    touch();
    look();
    look();
  }
});

test.each([
  ["first byte of a weight", WEIGHT_AT],
  ["byte in the middle of a weight", WEIGHT_AT + 12_345_677],
  ["last byte of a weight", WEIGHT_AT + WEIGHT_BYTES - 1],
  ["first byte", 0],
  ["last byte", FILE_BYTES - 1],
])("another %s is found, also after a new date was taken for nothing", (_, byteOffset) => {
  sumAll();
  touch();
  look();
  overwrite(byteOffset);
  expect(look).toThrow(CHANGED);
});

test("a write is found also where the file gets the date back that it was mapped with", async () => {
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

test("a file that is cut off is found, whatever is known of it", () => {
  sumAll();
  truncateSync(path, 4096);
  expect(look).toThrow(expect.objectContaining({ message: expect.stringMatching(/got 4096 bytes instead of \d+$/) }));
});

test("until all is summed, nobody can tell a write from a touch: both end it", () => {
  expect(backend.tidy()).toBe(true);
  overwrite(WEIGHT_AT + WEIGHT_BYTES - 1);
  expect(look).toThrow(CHANGED);
  // The sums to come would be of the new bytes.
  expect(sumAll).toThrow(CHANGED);
});

test("a file that another was moved in the place of stays what it was", () => {
  sumAll();
  const other = `${path}.new`;
  writeFileSync(other, Buffer.alloc(100));
  renameSync(other, path);
  look();
});

test("a file that was written to while it is loaded is found", async () => {
  await expect(loaded(touch)).rejects.toEqual(CHANGED);
});
