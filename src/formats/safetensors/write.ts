/** Writes safetensors files. */
import { type TensorLog, writeTensors } from "../files/write-tensors.js";
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
 * @param onWritten called with the bytes of tensors so far, and those of all
 * @param log of a file that may be there, stopped
 * @yields after each piece, so that the caller can end the work there
 */
export function* writeSafetensors(
  path: string,
  tensors: readonly WritableTensor[],
  onWritten: (numBytes: number, total: number) => void = () => {},
  log?: TensorLog,
): Generator<void> {
  let total = 0;
  const table: Record<string, unknown> = { __metadata__: { format: "pt" } };
  const stored = tensors.map(({ name, type, shape, bytes }) => {
    const begin = total;
    const numBytes = shape.reduce((product, size) => product * size, DTYPE_BITS[type] / 8);
    total += numBytes;
    table[name] = { dtype: type, shape, data_offsets: [begin, total] };
    return { name, numBytes, pieces: bytes };
  });
  const text = JSON.stringify(table);
  // Readers map the file: data that begins at a multiple of eight is aligned for them.
  const header = Buffer.from(text.padEnd(Math.ceil(Buffer.byteLength(text) / 8) * 8));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  yield* writeTensors(path, Buffer.concat([length, header]), stored, { onWritten, log });
}
