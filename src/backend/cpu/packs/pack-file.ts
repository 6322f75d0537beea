/**
 * Format of a pack, a file of packed matrices: written once under a temporary name, then read by mapping. pack-cache.ts
 * names and finds packs.
 *
 * Layout: "MRPACK02"; u32 byte length of the table; 4 zero bytes; SHA-256 of the table; the table as JSON; zeros up to
 * the first matrix; the matrices in the order in which the forward pass reads them, each at a multiple of 4096. The
 * matrices' checksums detect damage. They do not detect forgery, so a pack must not be writable by other users
 * (`isOurs` in pack-cache.ts).
 */

import { createHash } from "node:crypto";
import { closeSync, fstatSync, fsyncSync, openSync, readSync, rmSync, writeSync } from "node:fs";
import type { WeightType } from "../../../formats/dequantize.js";

/** Rows [start, start + rows) of the model's matrix `name`. */
export interface PackedMatrix {
  readonly name: string;
  readonly start: number;
  readonly rows: number;
  readonly cols: number;
  readonly type: WeightType;
  /** Offset in the file, in bytes; undefined if the matrix has no packed form and is read from the model's file. */
  readonly byteOffset?: number;
  /** Checksum of the packed bytes, see pack-check.ts. */
  readonly sum?: string;
}

export interface PackTable {
  readonly layoutVersion: number;
  /** SHA-256 of the model's files, in hexadecimal digits. */
  readonly contentHash: string;
  /** The model's name in listings. */
  readonly model: string;
  readonly fileBytes: number;
  readonly matrices: readonly PackedMatrix[];
}

const MAGIC = Buffer.from("MRPACK02", "latin1");
const ALIGNMENT = 4096;
const TABLE_OFFSET = 48;
/** Table bytes reserved per matrix. */
const TABLE_BYTES_PER_MATRIX = 256;
const MAX_TABLE_BYTES = 1 << 24;

const alignUp = (bytes: number) => Math.ceil(bytes / ALIGNMENT) * ALIGNMENT;

/** Reads the table of the pack at `path`; undefined if the file is missing, truncated, damaged or not a pack. */
export function readPackTable(path: string): PackTable | undefined {
  let fd: number;
  try {
    fd = openSync(path, "r");
  } catch {
    // The file is missing or unreadable: a cache miss.
    return undefined;
  }
  try {
    const start = Buffer.alloc(TABLE_OFFSET);
    if (readSync(fd, start, 0, TABLE_OFFSET, 0) !== TABLE_OFFSET || !start.subarray(0, 8).equals(MAGIC))
      return undefined;
    const tableBytes = start.readUInt32LE(8);
    if (tableBytes > MAX_TABLE_BYTES) return undefined;
    const json = Buffer.alloc(tableBytes);
    if (readSync(fd, json, 0, tableBytes, TABLE_OFFSET) !== tableBytes) return undefined;
    if (!createHash("sha256").update(json).digest().equals(start.subarray(16, TABLE_OFFSET))) return undefined;
    const table = JSON.parse(json.toString("utf8")) as PackTable;
    return table.fileBytes === fstatSync(fd).size ? table : undefined;
  } catch {
    // A folder, or a failing disk: also a cache miss.
    return undefined;
  } finally {
    closeSync(fd);
  }
}

/**
 * Writes a pack under a temporary name. Throws file system errors. Disposing of the writer deletes the file unless it
 * was renamed.
 */
export class PackWriter implements Disposable {
  readonly #fd: number;
  readonly #dataOffset: number;
  #end: number;
  #isOpen = true;

  constructor(
    readonly path: string,
    numMatrices: number,
  ) {
    this.#fd = openSync(path, "wx", 0o600);
    this.#dataOffset = alignUp(TABLE_OFFSET + 1024 + numMatrices * TABLE_BYTES_PER_MATRIX);
    this.#end = this.#dataOffset;
  }

  /** Aligns the position for the next matrix and returns its offset in bytes. */
  startMatrix(): number {
    this.#end = alignUp(this.#end);
    return this.#end;
  }

  append(bytes: Uint8Array): void {
    for (let done = 0; done < bytes.length; ) {
      const numNew = writeSync(this.#fd, bytes, done, bytes.length - done, this.#end);
      done += numNew;
      this.#end += numNew;
    }
  }

  /** Writes the table and syncs the file to disk. */
  finish(table: Omit<PackTable, "fileBytes">): void {
    const whole: PackTable = { ...table, fileBytes: this.#end };
    const json = Buffer.from(JSON.stringify(whole));
    if (TABLE_OFFSET + json.length > this.#dataOffset)
      throw new RangeError("the table exceeds the space reserved for it");
    const start = Buffer.alloc(TABLE_OFFSET);
    MAGIC.copy(start);
    start.writeUInt32LE(json.length, 8);
    createHash("sha256").update(json).digest().copy(start, 16);
    const bytes = Buffer.concat([start, json]);
    if (writeSync(this.#fd, bytes, 0, bytes.length, 0) !== bytes.length) throw new Error("ENOSPC: no space left");
    fsyncSync(this.#fd);
    this.#close();
  }

  /** Removes the file unless it has moved. */
  [Symbol.dispose](): void {
    if (this.#isOpen) this.#close();
    rmSync(this.path, { force: true });
  }

  #close(): void {
    this.#isOpen = false;
    closeSync(this.#fd);
  }
}
