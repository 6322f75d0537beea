/**
 * A file of packed matrices: written aside in one go, read by mapping. Finding and naming it is pack-cache.ts's business.
 *
 * Bytes: "MRPACK02"; u32 length of the table; 4 zeros; SHA-256 of the table; the table as JSON; zeros up to the first matrix; the matrices
 * in the order in which the forward pass reads them, each at a multiple of 4096. Checksums of the matrices find damage; against forgery a pack
 * must be a file that nobody else can write (`isOurs` in pack-cache.ts).
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
  /** Bytes from the start of the file; undefined: the type has no packed form, and the matrix is read where the model has it. */
  readonly byteOffset?: number;
  /** Of what lies there, see pack-check.ts. */
  readonly sum?: string;
}

export interface PackTable {
  readonly layoutVersion: number;
  /** SHA-256 of the model's files (pack-cache.ts), in hexadecimal digits. */
  readonly contentHash: string;
  /** What the model is called in a list. */
  readonly model: string;
  readonly fileBytes: number;
  readonly matrices: readonly PackedMatrix[];
}

const MAGIC = Buffer.from("MRPACK02", "latin1");
const ALIGNMENT = 4096;
const TABLE_OFFSET = 48;
/** Room left for each matrix's line of the table. */
const TABLE_BYTES_PER_MATRIX = 256;
const MAX_TABLE_BYTES = 1 << 24;

const alignUp = (bytes: number) => Math.ceil(bytes / ALIGNMENT) * ALIGNMENT;

/** The table of the pack at `path`; undefined when there is none, or it is cut off, damaged or something else. */
export function readPackTable(path: string): PackTable | undefined {
  let fd: number;
  try {
    fd = openSync(path, "r");
  } catch {
    // Not there, or not for us: a miss either way.
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
    // A folder, a disk that fails: a miss as well.
    return undefined;
  } finally {
    closeSync(fd);
  }
}

/** Writes a pack at a path nobody reads yet. Throws what the file system throws; disposing of it removes what was not moved elsewhere. */
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

  /** The offset of the next matrix. */
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

  /** Whole and on the disk when this returns. */
  finish(table: Omit<PackTable, "fileBytes">): void {
    const whole: PackTable = { ...table, fileBytes: this.#end };
    const json = Buffer.from(JSON.stringify(whole));
    if (TABLE_OFFSET + json.length > this.#dataOffset) throw new RangeError("the table is longer than its place");
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
