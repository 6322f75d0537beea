/**
 * Writes a header and tensors one behind another, piece by piece, so that a large model never lies in memory; goes on
 * with a file that was stopped.
 */
import { createHash } from "node:crypto";
import { closeSync, constants, ftruncateSync, openSync, readSync } from "node:fs";
import { writeAll } from "./write-all.js";

const PIECE_BYTES = 1 << 22;

export interface TensorBytes {
  readonly name: string;
  readonly numBytes: number;
  pieces(): Iterable<Uint8Array>;
}

/** A record, kept outside of a file, of the tensors that are whole in it. */
export interface TensorLog {
  /** Digest of the tensor's bytes; undefined: the tensor was never finished. */
  digestOf(name: string): string | undefined;
  /** Called when all bytes of the tensor are in the file. */
  add(name: string, digest: string): void;
  /** Called once, before tensors are written. @param numThere of the first tensors, which stay */
  onFound(numThere: number, numTensors: number): void;
}

interface WriteOptions {
  /** Each tensor begins at a multiple of this many bytes behind the header. */
  readonly alignment?: number;
  /** Called with the bytes of tensors so far, and those of all. */
  readonly onWritten?: (numBytes: number, total: number) => void;
  /** absent: the file is written anew */
  readonly log?: TensorLog | undefined;
}

/** @yields after each piece, so that the caller can end the work there */
export function* writeTensors(
  path: string,
  header: Uint8Array,
  tensors: readonly TensorBytes[],
  { alignment = 1, onWritten = () => {}, log }: WriteOptions,
): Generator<void> {
  const total = tensors.reduce((sum, { numBytes }) => sum + numBytes, 0);
  const aligned = (numBytes: number): number => Math.ceil(numBytes / alignment) * alignment;
  const fd = openSync(
    path,
    constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW | (log === undefined ? constants.O_TRUNC : 0),
    0o666,
  );
  try {
    const numThere = log === undefined ? 0 : yield* wholeTensors(fd, header, tensors, aligned, log);
    if (numThere === 0) writeAll(fd, header, 0);
    log?.onFound(numThere, tensors.length);
    const there = tensors.slice(0, numThere);
    let numWritten = there.reduce((sum, { numBytes }) => sum + numBytes, 0);
    let start = there.reduce((sum, { numBytes }) => sum + aligned(numBytes), header.length);
    // The rest of the file is cut off, and a tensor's padding is zeros.
    ftruncateSync(fd, start);
    for (const { name, numBytes, pieces } of tensors.slice(numThere)) {
      const hash = log && createHash("sha256");
      let at = start;
      for (const piece of pieces()) {
        writeAll(fd, piece, at);
        hash?.update(piece);
        at += piece.length;
        numWritten += piece.length;
        onWritten(numWritten, total);
        yield;
      }
      if (at !== start + numBytes) {
        throw new RangeError(`expected ${numBytes} bytes for tensor ${name}, got ${at - start}`);
      }
      start += aligned(numBytes);
      ftruncateSync(fd, start);
      if (hash !== undefined) log!.add(name, hash.digest("hex"));
    }
  } finally {
    closeSync(fd);
  }
}

/** How many of the first tensors the file holds as the log has them; 0 behind another header. */
function* wholeTensors(
  fd: number,
  header: Uint8Array,
  tensors: readonly TensorBytes[],
  aligned: (numBytes: number) => number,
  log: TensorLog,
): Generator<void, number> {
  const ownHeader = createHash("sha256").update(header).digest("hex");
  if ((yield* digestAt(fd, 0, header.length)) !== ownHeader) return 0;
  let at = header.length;
  for (const [index, { name, numBytes }] of tensors.entries()) {
    const digest = log.digestOf(name);
    if (digest === undefined || (yield* digestAt(fd, at, numBytes)) !== digest) return index;
    at += aligned(numBytes);
  }
  return tensors.length;
}

/** undefined: the file is shorter */
function* digestAt(fd: number, start: number, numBytes: number): Generator<void, string | undefined> {
  const hash = createHash("sha256");
  const buffer = Buffer.alloc(Math.min(numBytes, PIECE_BYTES));
  for (let done = 0; done < numBytes; ) {
    const numRead = readSync(fd, buffer, 0, Math.min(buffer.length, numBytes - done), start + done);
    if (numRead === 0) return undefined;
    hash.update(buffer.subarray(0, numRead));
    done += numRead;
    yield;
  }
  return hash.digest("hex");
}
