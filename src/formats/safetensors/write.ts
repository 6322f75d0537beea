/** Writes a safetensors file tensor by tensor, so that a large model never lies in memory. */
import { closeSync, openSync } from "node:fs";
import { writeAll } from "../files/write-all.js";
import { DTYPE_BITS, type Dtype } from "./types.js";

export interface WritableTensor {
  readonly name: string;
  readonly type: Dtype;
  /** Slowest dimension first. */
  readonly shape: readonly number[];
  /** Little-endian bytes, in pieces. */
  bytes(): Iterable<Uint8Array>;
}

/**
 * @param onWritten called with the bytes written so far, and those of all tensors
 * @yields after each piece, so that the caller can end the work there
 */
export function* writeSafetensors(
  path: string,
  tensors: readonly WritableTensor[],
  onWritten: (numBytes: number, total: number) => void = () => {},
): Generator<void> {
  let total = 0;
  const table: Record<string, unknown> = { __metadata__: { format: "pt" } };
  for (const { name, type, shape } of tensors) {
    const begin = total;
    total += shape.reduce((product, size) => product * size, DTYPE_BITS[type] / 8);
    table[name] = { dtype: type, shape, data_offsets: [begin, total] };
  }
  const text = JSON.stringify(table);
  // Readers map the file: data that begins at a multiple of eight is aligned for them.
  const header = Buffer.from(text.padEnd(Math.ceil(Buffer.byteLength(text) / 8) * 8));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  const fd = openSync(path, "w");
  try {
    writeAll(fd, length);
    writeAll(fd, header);
    let numWritten = 0;
    for (const tensor of tensors) {
      const end = (table[tensor.name] as { readonly data_offsets: readonly number[] }).data_offsets[1]!;
      for (const piece of tensor.bytes()) {
        writeAll(fd, piece);
        numWritten += piece.length;
        onWritten(numWritten, total);
        yield;
      }
      if (numWritten !== end) throw new RangeError(`expected ${tensor.name} to end at byte ${end}, got ${numWritten}`);
    }
  } finally {
    closeSync(fd);
  }
}
