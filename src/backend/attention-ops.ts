/** The part of the table of operations that stores and reads keys and values; see ops.ts. */

const NUM_ROWS = { kind: "integer", note: "M" } as const;

const KV_SHAPE = {
  numHeads: { kind: "integer", note: "Hq, a multiple of numKvHeads" },
  numKvHeads: { kind: "integer", note: "Hkv" },
  headDim: { kind: "integer", note: "D" },
  blockSize: { kind: "integer", note: "entries of a block, a multiple of KV_OCTET" },
  kvType: { kind: "code", of: "KvType" },
} as const;

const LATENT_DIM = {
  kind: "integer",
  optional: true,
  note: "at most D; 0 = values have a cache of their own",
} as const;

const CACHE_SHAPE = "[*, numKvHeads, blockSize / KV_OCTET, octet]";

export const ATTENTION_OPS = {
  ropeAndWriteKv: {
    computes:
      "Rotates q and k in place by the rope table (the first 2 · half values of each head; pairs (2i, 2i + 1), or (i, i + half) when " +
      "`isNeox`), then stores k and v at slots[m] of the caches, converted to the KV type. In a cache an octet of keys is [D, 8], of values " +
      "[8, D], and slot = block · blockSize + offset. An octet ends with its entries' scales, where the type has them: native/cpu/kernels/kv_cache.h. " +
      "With `latentDim` only keys are stored: v and valueCache are not used.",
    operands: {
      q: { kind: "f32", shape: "[numRows, numHeads, headDim]", access: "reads and writes" },
      k: { kind: "f32", shape: "[numRows, numKvHeads, headDim]", access: "reads and writes" },
      v: { kind: "f32", shape: "[numRows, numKvHeads, headDim]", access: "reads" },
      table: { kind: "f32", shape: "[numRows, half, 2]", access: "reads", note: "as `ropeTable` wrote it" },
      keyCache: { kind: "kvCache", shape: CACHE_SHAPE, access: "writes" },
      valueCache: { kind: "kvCache", shape: CACHE_SHAPE, access: "writes" },
      slots: { kind: "i32", shape: "[numRows]", access: "reads", note: "−1 stores nothing" },
      numRows: NUM_ROWS,
      ...KV_SHAPE,
      half: { kind: "integer", note: "at most D / 2" },
      isNeox: { kind: "flag" },
      latentDim: LATENT_DIM,
    },
  },
  pagedAttention: {
    computes:
      "out = softmax(s) v, s = scale · q kᵀ or, where cap > 0, cap · tanh(scale · q kᵀ / cap), over the stored entries [begin, kvLengths[m]) of " +
      "row m's sequence; begin is begins[m] or, without begins, max(0, kvLengths[m] − window). Entry j of " +
      "sequence s lies in block blockTables[s, j div blockSize]; query head h reads KV head h div (Hq / Hkv). Parts of ATTENTION_PART entries " +
      "each keep their own (max, sum, accumulator) and are merged in order (E3). Blocks that several rows' sequences begin with are read " +
      "once for all of them. `sinks`: beside its entries, head h has a score sinks[h] without a value, which adds to the sum alone, after the " +
      "last part. With `latentDim`, an entry's value is the last latentDim numbers of its key, as they are stored, valueCache is not used, and " +
      "out is [numRows, numHeads, latentDim].",
    operands: {
      out: { kind: "f32", shape: "[numRows, numHeads, headDim]", access: "writes" },
      q: { kind: "f32", shape: "[numRows, numHeads, headDim]", access: "reads" },
      keyCache: { kind: "kvCache", shape: CACHE_SHAPE, access: "reads" },
      valueCache: { kind: "kvCache", shape: CACHE_SHAPE, access: "reads" },
      kvLengths: { kind: "i32", shape: "[numRows]", access: "reads" },
      sequenceIndex: { kind: "i32", shape: "[numRows]", access: "reads" },
      blockTables: { kind: "i32", shape: "[*, tableStride]", access: "reads" },
      tableStride: { kind: "integer", note: "at least 1" },
      numRows: NUM_ROWS,
      ...KV_SHAPE,
      scale: { kind: "number" },
      window: { kind: "integer", note: "0 = all entries" },
      cap: { kind: "number", optional: true, note: "at least 0; 0 = none" },
      sinks: { kind: "f32", shape: "[numHeads]", access: "reads", optional: true },
      begins: {
        kind: "i32",
        shape: "[numRows]",
        access: "reads",
        optional: true,
        note: "each in [0, kvLengths[m]]; the window is then not read",
      },
      latentDim: LATENT_DIM,
    },
  },
  countAttention: {
    computes:
      "counts[s, j] += Σ over query heads of round(unit · w), for each m in rows and each entry j of its sequence s, where w is the weight that " +
      "`pagedAttention` gives the entry, without a window; entropies[s] += Σ over query heads of round(256 · −Σ w ln w). Integers, so that the " +
      "order of rows and threads changes nothing (E4).",
    operands: {
      counts: { kind: "i32", shape: "[*, countStride]", access: "reads and writes" },
      entropies: { kind: "i32", shape: "[*]", access: "reads and writes" },
      q: { kind: "f32", shape: "[*, numHeads, headDim]", access: "reads" },
      keyCache: { kind: "kvCache", shape: CACHE_SHAPE, access: "reads" },
      rows: { kind: "i32", shape: "[numRows]", access: "reads", note: "rows of q, kvLengths and sequenceIndex" },
      kvLengths: { kind: "i32", shape: "[*]", access: "reads", note: "each at most countStride" },
      sequenceIndex: { kind: "i32", shape: "[*]", access: "reads" },
      blockTables: { kind: "i32", shape: "[*, tableStride]", access: "reads" },
      tableStride: { kind: "integer", note: "at least 1" },
      countStride: { kind: "integer", note: "at least 1" },
      numRows: NUM_ROWS,
      ...KV_SHAPE,
      scale: { kind: "number" },
      cap: { kind: "number", optional: true, note: "at least 0; 0 = none" },
      sinks: { kind: "f32", shape: "[numHeads]", access: "reads", optional: true },
      unit: { kind: "number", note: "in [1, 2^30]; the counts of an entry must stay below 2^31" },
    },
  },
} as const;
