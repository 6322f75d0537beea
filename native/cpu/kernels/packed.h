// Packed weights: rows of a group interleaved, so that one vector holds the same few columns of many rows. The one
// layout serves every instruction set. A group has eight rows, of a type of 16 bits sixteen. A packed matrix is
// ceil(rows / group rows) groups; a group is cols / cellValues cells in order, of NVFP4 after f32 d[8], the scales
// of whole rows; the rows past the last are zeros.
//
// A cell keeps the bits of its source and no more, but where the source has indices of a codebook (isGrid): there it
// has a code for each value. Its parts, in order ("[8]" is one value per row r; k counts columns
// within 32):
//   Q4_0    f16 d[8]; nibbles                               Q8_0    f16 d[8]; bytes
//   Q4_1    f16 d[8], m[8]; nibbles                         IQ4_NL  f16 d[8]; pair nibbles
//   Q5_0    f16 d[8]; bits; nibbles                         Q4_K    f16 d[8], dmin[8]; sixes scales, minima; 8 × nibbles
//   Q5_1    f16 d[8], m[8]; bits; nibbles                   Q5_K    as Q4_K; 8 × (bits; nibbles)
//   Q6_K    f16 d[8]; i8 scales [16][8]; 8 × (two bits, twice; nibbles)
//   Q2_K    f16 d[8], dmin[8]; scales [16][8], minima in the high nibbles; 8 × (two bits, twice)
//   Q3_K    f16 d[8]; sixes scales of the first and the last eight; 8 × (bits: the third bit; two bits, twice)
//   IQ4_XS  f16 d[8]; sixes scales; 8 × pair nibbles              MXFP4   exponents [8]; nibbles
//   NVFP4   E4M3 scales [2][8], without a sign or NaN: of columns 0 to 15, of 16 to 31; nibbles
//   isGrid  f16 d[8]; scale nibbles; 8 × codes of 2 bits (two bits, twice), 3 (bits: the third bit; two bits, twice) or
//           4 (nibbles): gridPackOf, grid_blocks.h
//   I8      f32 d[8]; bytes                                 F8_E4M3 f32 d[8], NaN where a code of the row is; quads
//   BF16    row r of sixteen: columns 0 and 1                 F16     column c, row r of sixteen
// Of these parts:
//   nibbles       128 bytes: vector c (32 bytes), row r, byte j: column 4c + j in the low nibble, 16 + 4c + j in the high
//                 one
//   pair nibbles  128 bytes: vector p, half h, row r, byte j: column 4p + 2h + j low, 16 + 4p + 2h + j high
//   bytes         256 bytes: chunk c (16 bytes), row r, byte j: column 2c + j
//   quads         256 bytes: vector c (32 bytes), row r, byte j: column 4c + j
//   bits          32 bytes: row r, byte j: bit c is the fifth bit of column 4c + j
//   two bits      32 bytes: row r, byte j: bits 2i, 2i + 1 are the upper bits of column 4i + j; the second such vector has
//                 columns 16 + 4i + j
//   scale nibbles 8 bytes [row r] for each two scales, the first of them low
//   sixes         48 bytes for values [sub-block s][row r] of six bits: 32 bytes [s / 2][r] with the low four bits of even
//                 s low, of odd s high; 16 bytes [s / 4][r] with the upper two bits at 2 · (s % 4)
#pragma once
#include <cstdint>

#include "op_table.h"
#include "tensor_type.h"

namespace millrace {

constexpr int64_t kPackedRows = 8;
// Rows of a group of a type of 16 bits, whose cell, a pair of columns, is a cache line.
constexpr int64_t kPacked16BitRows = 16;
constexpr bool is16Bit(TensorType type) { return type == TensorType::F16 || type == TensorType::BF16 || type == TensorType::BF16_BF16; }
constexpr int64_t packedRowsOf(TensorType type) { return is16Bit(type) ? kPacked16BitRows : kPackedRows; }

// Counts the layouts there have been; caches of packed weights are good for one of them. A change of any cell, or of
// the order of cells, is a new one (src/backend/cpu/packed-layout.test.ts notices).
constexpr int kPackedLayoutVersion = 1;

// Rows of activations, the left operand of a linear layer, are activationRowBytes apart, 64-byte aligned. By
// ActivationFormat:
//   blocks32   per block of 32: i8 q, f32 d = max|x| / 127; x ≈ d · q. Row: per block (d, 8 · d · Σq) as f32 pairs, then the q
//   blocks256  per block of 256: one d as above, sums of q over 16 and over 32 columns. Row: per block a Block256, then the q
//   row16      i16 q, one d = max|x| / 32767 for the row. Row: d, 60 bytes of nothing, the q
//   bf16       bfloat16, rounded to nearest even. Row: the values
//   centred32  as blocks32, but (d, 128 · Σq): what weights around 128 have too much, exactly
//   blocks16   as blocks32, per block of 16 and with (d, 12 · Σq), exactly

// Columns of a block: a row is a whole number of them.
constexpr int64_t activationBlock(ActivationFormat format) {
  switch (format) {
    case ActivationFormat::blocks16: return 16;
    case ActivationFormat::blocks256: return 256;
    case ActivationFormat::f32:
    case ActivationFormat::bf16: return 1;
    default: return 32;
  }
}

// Of blocks16, blocks32 and centred32.
struct SmallBlock {
  float d;
  // 8 · d · Σq; of blocks16, 12 · Σq; of centred32, 128 · Σq.
  float sum;
};
constexpr bool hasSmallBlocks(ActivationFormat format) {
  return format == ActivationFormat::blocks16 || format == ActivationFormat::blocks32 || format == ActivationFormat::centred32;
}

struct Block256 {
  float d;
  int16_t sums16[16];
  int16_t sums32[8];
  // The offset of Q6_K's 16-bit sums: for each 16 columns, −32 times the sum over columns 0, 1, 4, 5, 8, … and over
  // columns 2, 3, 6, 7, ….
  int16_t offsets16[32];
};

// Types of few multiples of their scales, packed as a code for each value; codeBits 0: the type is none of them. IQ1_S
// keeps the sign of the eighths of 32 values, which its codes leave out, in the upper bit of their scale.
struct GridPack {
  int32_t codeBits;
  int32_t numScales;
};
constexpr GridPack gridPackOf(TensorType type) {
  switch (type) {
    case TensorType::IQ2_XXS: return {3, 8};
    case TensorType::IQ2_XS:
    case TensorType::IQ2_S:
    case TensorType::IQ1_M: return {3, 16};
    case TensorType::IQ3_XXS:
    case TensorType::IQ3_S: return {4, 8};
    case TensorType::IQ1_S: return {2, 8};
    case TensorType::TQ1_0:
    case TensorType::TQ2_0: return {2, 0};
    default: return {0, 0};
  }
}
constexpr bool isGrid(TensorType type) { return gridPackOf(type).codeBits > 0; }
constexpr int32_t gridCellBytes(GridPack pack) { return 2 * kPackedRows + kPackedRows / 2 * pack.numScales + 32 * kPackedRows * pack.codeBits; }

// In the order of TensorType; cellBytes 0: the type has no packed form.
struct PackedInfo {
  int32_t cellValues;
  int32_t cellBytes;
  ActivationFormat activations;
  // Before the cells of a group.
  int32_t headBytes = 0;
};
constexpr PackedInfo packedInfoOf(TensorType type) {
  switch (type) {
    case TensorType::Q8_0: return {32, 272, ActivationFormat::row16};
    case TensorType::Q8_0_INT8: return {32, 272, ActivationFormat::centred32};
    case TensorType::I8: return {32, 288, ActivationFormat::row16};
    case TensorType::I8_INT8: return {32, 288, ActivationFormat::centred32};
    case TensorType::F8_E4M3: return {32, 288, ActivationFormat::f32};
    case TensorType::F8_E4M3_BF16: return {32, 288, ActivationFormat::bf16};
    case TensorType::F16:
    case TensorType::BF16: return {2, 4 * kPacked16BitRows, ActivationFormat::f32};
    case TensorType::BF16_BF16: return {2, 4 * kPacked16BitRows, ActivationFormat::bf16};
    case TensorType::Q4_0: return {32, 144, ActivationFormat::blocks32};
    case TensorType::Q4_1: return {32, 160, ActivationFormat::blocks32};
    case TensorType::Q5_0: return {32, 176, ActivationFormat::blocks32};
    case TensorType::Q5_1: return {32, 192, ActivationFormat::blocks32};
    case TensorType::Q4_K: return {256, 1152, ActivationFormat::blocks256};
    case TensorType::Q5_K: return {256, 1408, ActivationFormat::blocks256};
    case TensorType::Q6_K: return {256, 1680, ActivationFormat::blocks256};
    case TensorType::Q2_K: return {256, 672, ActivationFormat::blocks256};
    case TensorType::Q3_K: return {256, 880, ActivationFormat::blocks256};
    case TensorType::IQ4_XS: return {256, 1088, ActivationFormat::row16};
    case TensorType::MXFP4: return {32, 136, ActivationFormat::blocks32};
    case TensorType::IQ4_NL: return {32, 144, ActivationFormat::row16};
    case TensorType::NVFP4:
    case TensorType::NVFP4_SCALED: return {32, 144, ActivationFormat::blocks16, 4 * kPackedRows};
    default: break;
  }
  if (isGrid(type)) return {256, gridCellBytes(gridPackOf(type)), ActivationFormat::blocks256};
  return {0, 0, ActivationFormat::f32};
}

constexpr bool isNVFP4(TensorType type) { return type == TensorType::NVFP4 || type == TensorType::NVFP4_SCALED; }
constexpr bool isF8(TensorType type) { return type == TensorType::F8_E4M3 || type == TensorType::F8_E4M3_BF16; }

// Format of the left operand of a product with a weight.
constexpr ActivationFormat activationsOf(TensorType type, bool isPacked) {
  return isPacked ? packedInfoOf(type).activations : ActivationFormat::f32;
}

constexpr int64_t packedGroupBytes(TensorType type, int64_t cols) {
  const PackedInfo info = packedInfoOf(type);
  return info.headBytes + cols / info.cellValues * info.cellBytes;
}
constexpr int64_t packedBytes(TensorType type, int64_t rows, int64_t cols) {
  return (rows + packedRowsOf(type) - 1) / packedRowsOf(type) * packedGroupBytes(type, cols);
}

// Bytes before the q of a row.
constexpr int64_t activationHeaderBytes(ActivationFormat format, int64_t cols) {
  if (format == ActivationFormat::f32 || format == ActivationFormat::bf16) return 0;
  int64_t numBytes = 64;
  if (hasSmallBlocks(format)) numBytes = cols / activationBlock(format) * static_cast<int64_t>(sizeof(SmallBlock));
  if (format == ActivationFormat::blocks256) numBytes = cols / 256 * static_cast<int64_t>(sizeof(Block256));
  return (numBytes + 63) / 64 * 64;
}
constexpr int64_t activationRowBytes(ActivationFormat format, int64_t cols) {
  if (format == ActivationFormat::f32) return cols * 4;
  const bool isWide = format == ActivationFormat::row16 || format == ActivationFormat::bf16;
  const int64_t numBytes = activationHeaderBytes(format, cols) + cols * (isWide ? 2 : 1);
  // An odd number of cache lines: rows side by side do not fall on the same cache sets.
  return ((numBytes + 63) / 64 | 1) * 64;
}

}  // namespace millrace
