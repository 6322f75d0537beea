import { closeSync, openSync, renameSync, statSync, truncateSync, utimesSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { tempTree } from "../../test/scripts/temp-tree.js";
import type { KernelDevice } from "../backend/cpu/kernels.js";
import { loadKernels } from "../backend/cpu/load.js";
import { FileWatch } from "./file-watch.js";

const COLS = 1024;
const ROWS = 5000;
const WEIGHT_AT = 8192;
const WEIGHT_BYTES = ROWS * COLS * 4;
/** The weights, and what was copied out of it when it was loaded. */
const FILE_BYTES = WEIGHT_AT + WEIGHT_BYTES + 2 ** 20;

const CHANGED = expect.objectContaining({ code: "model_file_changed" });

let path: string;
let device: KernelDevice;
let watch: FileWatch;

beforeEach(() => {
  path = join(tempTree({}), "model.gguf");
  writeFileSync(path, Buffer.alloc(FILE_BYTES, 1));
  device = loadKernels().createDevice({ numThreads: 1 });
  device.createWeight(device.mapFile(path), WEIGHT_AT, "F32", ROWS, COLS);
  watch = new FileWatch();
  watch.addModels(device);
});

afterEach(() => {
  watch.close();
  device.destroy();
});

const sumAll = () => {
  while (watch.tidy()) {}
};

let lookedMs = 0;
const look = () => {
  lookedMs += 60_000;
  watch.look(device, lookedMs);
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

test("a write is found also where the file gets the date back that it was mapped with", () => {
  const { atime, mtime } = statSync(path);
  utimesSync(path, atime, mtime);
  const own = loadKernels().createDevice({ numThreads: 1 });
  own.createWeight(own.mapFile(path), WEIGHT_AT, "F32", ROWS, COLS);
  const ownWatch = new FileWatch();
  ownWatch.addModels(own);
  while (ownWatch.tidy()) {}
  touch();
  ownWatch.look(own, 0);
  overwrite(WEIGHT_AT);
  utimesSync(path, atime, mtime);
  expect(() => ownWatch.look(own, 60_000)).toThrow(CHANGED);
  ownWatch.close();
  own.destroy();
});

test("a file that is cut off is found, whatever is known of it", () => {
  sumAll();
  truncateSync(path, 4096);
  expect(look).toThrow(expect.objectContaining({ message: expect.stringMatching(/got 4096 bytes instead of \d+$/) }));
});

test("until all is summed, nobody can tell a write from a touch: both end it", () => {
  expect(watch.tidy()).toBe(true);
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

test("a file that was written to between its mapping and the watch is found", () => {
  touch();
  const late = new FileWatch();
  expect(() => late.addModels(device)).toThrow(CHANGED);
  late.close();
});
