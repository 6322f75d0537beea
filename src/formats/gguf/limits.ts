/**
 * Upper bounds a GGUF header must respect before anything is allocated for it.
 * The remaining file size bounds every count too, but a sparse or padded file can be as large as its author likes.
 */

/**
 * Metadata and tensor table together. The largest published vocabularies (262k tokens with scores) need about 10 MiB.
 */
export const MAX_HEADER_BYTES = 128 * 1024 * 1024;

/** One string. The longest in practice are chat templates, under 100 KiB. */
export const MAX_STRING_BYTES = 16 * 1024 * 1024;

/** GGUF specification: a metadata key has at most 65,535 bytes. */
export const MAX_KEY_BYTES = 65_535;

/** GGUF specification: a tensor name has at most 64 bytes. */
export const MAX_TENSOR_NAME_BYTES = 64;

/** Metadata entries. Published models have under 100. */
export const MAX_METADATA_ENTRIES = 16_384;

/** Tensors of one file. Published models have under 3,000. */
export const MAX_TENSORS = 131_072;

/** Elements of one array. The longest in practice are merge lists, about 500k. */
export const MAX_ARRAY_LENGTH = 4 * 1024 * 1024;

/** Elements of all arrays of one file: bounds what many long arrays cost together. */
export const MAX_ARRAY_ELEMENTS = 8 * 1024 * 1024;

/** Arrays within arrays. The specification allows nesting without a bound; no published model nests at all. */
export const MAX_ARRAY_DEPTH = 4;

/** GGML_MAX_DIMS. */
export const MAX_DIMENSIONS = 4;

/** Files of one split set. The largest published sets have under 200. */
export const MAX_SHARDS = 1_024;

/**
 * Alignment of the tensor data: the specification wants a multiple of 8; 1 MiB is far above any page or sector size in
 * use.
 */
export const MIN_ALIGNMENT = 8;
export const MAX_ALIGNMENT = 1024 * 1024;
export const DEFAULT_ALIGNMENT = 32;
