/** Encodes safetensors files for tests; the header may be given as text where a test needs a broken one. */
import { DTYPE_BITS, type Dtype } from "../../src/formats/safetensors/types.js";

interface WritableSafetensor {
  readonly dtype: Dtype;
  readonly shape: readonly number[];
  /** Absent: zeros. */
  readonly data?: Uint8Array;
}

/** Tensors one after another. */
export function encodeSafetensors(tensors: Readonly<Record<string, WritableSafetensor>>): Buffer {
  let end = 0;
  const table: Record<string, unknown> = { __metadata__: { format: "pt" } };
  for (const [name, { dtype, shape }] of Object.entries(tensors)) {
    const begin = end;
    end += shape.reduce((product, size) => product * size, DTYPE_BITS[dtype] / 8);
    table[name] = { dtype, shape, data_offsets: [begin, end] };
  }
  const file = encodeWithHeader(JSON.stringify(table), end);
  let at = file.length - end;
  for (const [name, { data }] of Object.entries(tensors)) {
    const [begin, next] = (table[name] as { data_offsets: readonly [number, number] }).data_offsets;
    if (data !== undefined) file.set(data, at);
    at += next - begin;
  }
  return file;
}

export function encodeWithHeader(header: string, dataBytes: number): Buffer {
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(Buffer.byteLength(header)));
  return Buffer.concat([length, Buffer.from(header), Buffer.alloc(dataBytes)]);
}
