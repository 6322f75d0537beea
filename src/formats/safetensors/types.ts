/** A parsed safetensors model: a table of tensors with checked byte ranges. */

/** Element types of the format with their bits; a file with any other is refused. */
export const DTYPE_BITS = {
  BOOL: 8,
  U8: 8,
  I8: 8,
  F8_E4M3: 8,
  F8_E5M2: 8,
  F8_E8M0: 8,
  U16: 16,
  I16: 16,
  F16: 16,
  BF16: 16,
  U32: 32,
  I32: 32,
  F32: 32,
  U64: 64,
  I64: 64,
  F64: 64,
  C64: 64,
} as const;

export type Dtype = keyof typeof DTYPE_BITS;

export interface SafetensorsTensor {
  readonly name: string;
  readonly dtype: Dtype;
  /** Dimensions as in the file, slowest first: [rows, cols]; the product is checked. Empty for a scalar. */
  readonly shape: readonly number[];
  /** Index into `shards`. */
  readonly shard: number;
  /** Absolute offset in its shard's file, in bytes; offset + byteLength lies within the file. */
  readonly byteOffset: number;
  readonly byteLength: number;
}

export interface SafetensorsShard {
  readonly path: string;
  readonly byteLength: number;
}

export interface SafetensorsFiles {
  readonly tensors: ReadonlyMap<string, SafetensorsTensor>;
  readonly shards: readonly SafetensorsShard[];
}
