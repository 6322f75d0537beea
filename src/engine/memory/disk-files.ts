/**
 * KV blocks as files, one per block, named by its key. A file is written under another name and renamed, so that it is
 * whole once it is visible; its contents are used only if the checksum fits. Every model, KV type and build has a
 * folder of its own in the cache's folder.
 */
import { createHash, randomBytes } from "node:crypto";
import {
  closeSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";

const SUFFIX = ".kv";
const TEMPORARY_SUFFIX = ".tmp";
const CHECKSUM_BYTES = 32;
/** Age after which an unfinished file counts as abandoned. */
const ABANDONED_MS = 3_600_000;

/** The checksum covers the key too: a file renamed to another key is refused. */
function checksum(key: string, payload: Uint8Array): Buffer {
  return createHash("sha256").update(key).update(payload).digest();
}

const pathOf = (folder: string, key: string): string => join(folder, key + SUFFIX);

/** Keys of the blocks in a folder; none if the folder does not exist. */
export function listBlocks(folder: string): string[] {
  return entriesOf(folder)
    .filter((name) => name.endsWith(SUFFIX))
    .map((name) => name.slice(0, -SUFFIX.length));
}

/** Reads a block's payload and marks it as used; undefined if it is missing or damaged. */
export function readBlock(folder: string, key: string): Buffer | undefined {
  const path = pathOf(folder, key);
  try {
    const file = readFileSync(path);
    const payload = file.subarray(CHECKSUM_BYTES);
    if (file.length <= CHECKSUM_BYTES || !checksum(key, payload).equals(file.subarray(0, CHECKSUM_BYTES))) {
      rmSync(path, { force: true });
      return undefined;
    }
    const now = new Date();
    utimesSync(path, now, now);
    return payload;
  } catch {
    return undefined;
  }
}

/** Throws the errors of the file system. */
export function writeBlock(folder: string, key: string, payload: Uint8Array): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const temporary = join(folder, `${key}.${randomBytes(6).toString("hex")}${TEMPORARY_SUFFIX}`);
  try {
    const file = openSync(temporary, "wx", 0o600);
    try {
      // On a nearly full disk one write may store only a part; writeFileSync writes on until all is stored, or throws.
      writeFileSync(file, checksum(key, payload));
      writeFileSync(file, payload);
    } finally {
      closeSync(file);
    }
    renameSync(temporary, pathOf(folder, key));
  } catch (thrown) {
    rmSync(temporary, { force: true });
    throw thrown;
  }
}

interface StoredFile {
  readonly path: string;
  readonly numBytes: number;
  readonly usedAtMs: number;
}

/**
 * Removes abandoned writes and then the least recently used blocks of all folders below `root`, until the rest is
 * within `maxBytes`.
 * @returns bytes and blocks left, and the number of blocks removed
 */
export function makeRoom(root: string, maxBytes: number): { numBytes: number; numEvicted: number } {
  const files = entriesOf(root).flatMap((folder) => filesIn(join(root, folder)));
  files.sort((a, b) => a.usedAtMs - b.usedAtMs);
  let numBytes = files.reduce((sum, file) => sum + file.numBytes, 0);
  let numEvicted = 0;
  for (const file of files) {
    if (numBytes <= maxBytes) break;
    rmSync(file.path, { force: true });
    numBytes -= file.numBytes;
    numEvicted++;
  }
  return { numBytes, numEvicted };
}

function filesIn(folder: string): StoredFile[] {
  return entriesOf(folder).flatMap((name) => {
    const path = join(folder, name);
    try {
      const { size, mtimeMs } = statSync(path);
      if (name.endsWith(SUFFIX)) return [{ path, numBytes: size, usedAtMs: mtimeMs }];
      if (name.endsWith(TEMPORARY_SUFFIX) && Date.now() - mtimeMs > ABANDONED_MS) rmSync(path, { force: true });
    } catch {
      // Another process has removed it.
    }
    return [];
  });
}

function entriesOf(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}
