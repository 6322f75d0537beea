/** A parsed GGUF file: typed metadata, and a table of tensors with checked byte ranges. */

/** Tensor types the kernels read, by GGML's own names. */
export type TensorType =
  | "F32"
  | "F16"
  | "BF16"
  | "Q8_0"
  | "Q4_0"
  | "Q4_1"
  | "Q5_0"
  | "Q5_1"
  | "Q2_K"
  | "Q3_K"
  | "Q4_K"
  | "Q5_K"
  | "Q6_K"
  | "IQ4_NL"
  | "IQ4_XS"
  | "MXFP4"
  | "NVFP4"
  | "IQ2_XXS"
  | "IQ2_XS"
  | "IQ2_S"
  | "IQ3_XXS"
  | "IQ3_S"
  | "IQ1_S"
  | "IQ1_M"
  | "TQ1_0"
  | "TQ2_0";

export type GgufValue = number | bigint | boolean | string | GgufArray;

/** Homogeneous arrays: numbers as typed arrays, strings as string[], anything else as GgufValue[]. */
export type GgufArray =
  | readonly string[]
  | readonly boolean[]
  | readonly GgufValue[]
  | Float32Array
  | Float64Array
  | Int8Array
  | Uint8Array
  | Int16Array
  | Uint16Array
  | Int32Array
  | Uint32Array
  | BigInt64Array
  | BigUint64Array;

export interface GgufTensor {
  readonly name: string;
  readonly type: TensorType;
  /** Dimensions as in the file, fastest first: [cols, rows, …]; 1 to 4 entries, product checked. */
  readonly shape: readonly number[];
  /** Index into `shards`. */
  readonly shard: number;
  /** Absolute offset in its shard's file, in bytes; offset + byteLength lies within the file. */
  readonly byteOffset: number;
  readonly byteLength: number;
}

export interface GgufShard {
  readonly path: string;
  readonly byteLength: number;
}

export interface GgufFile {
  readonly version: number;
  readonly metadata: GgufMetadata;
  readonly tensors: ReadonlyMap<string, GgufTensor>;
  readonly shards: readonly GgufShard[];
}

/** Typed access to metadata. A missing key gives undefined; a key of the wrong type throws `gguf_metadata`. */
export interface GgufMetadata {
  keys(): IterableIterator<string>;
  has(key: string): boolean;
  get(key: string): GgufValue | undefined;
  /** Finite number (integers of 64 bits included when safe). */
  number(key: string): number | undefined;
  string(key: string): string | undefined;
  boolean(key: string): boolean | undefined;
  strings(key: string): readonly string[] | undefined;
  /** Numeric array of any element type, as plain numbers. */
  numbers(key: string): ArrayLike<number> | undefined;
}
