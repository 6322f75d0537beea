// pack: rows of a weight as the file has them into the layout of packed.h. A unit is a group of rows.
//
// Each quantised type is first taken apart into plain integers, one row at a time; the parts are then laid out by the
// few writers that these types share. Types of 16 bits are only put in another order (packPairs).
#include <cstring>

#include "grid_blocks.h"
#include "kernel.h"
#include "packed.h"
#include "small_floats.h"

namespace millrace {

namespace {
struct PackArgs {
  uint8_t* out;  // packedBytes(weight)
  WeightRef weight;
};
}  // namespace

#ifdef MILLRACE_DECODES

Op decode(const Operands<ops::pack>& in, DecodeMemo&) {
  PackArgs args{};
  args.weight = in.rowWeight(ops::pack::weight);
  const TensorType type = args.weight.type;
  const int64_t rows = args.weight.rows;
  const int64_t cols = args.weight.cols;
  if (packedInfoOf(type).cellBytes == 0) in.refuse(ops::pack::weight, "of a type with a packed form", infoOf(type).name);
  const int64_t offset = in.integer(ops::pack::byteOffset, 0, INT64_C(9007199254740991));
  args.out = in.bytes(ops::pack::out, offset, packedBytes(type, rows, cols));
  const int64_t cellCols = packedInfoOf(type).cellValues;
  if (cols % cellCols != 0) in.refuse(ops::pack::weight, "of a multiple of " + std::to_string(cellCols) + " columns", std::to_string(cols));
  const int64_t groupRows = packedRowsOf(type);
  return makeOp(OpCode::pack, args, (rows + groupRows - 1) / groupRows, static_cast<double>(cols * groupRows) * 2);
}

#endif

}  // namespace millrace

namespace millrace::MILLRACE_ISA {
namespace {

constexpr float kNaN = __builtin_nanf("");

// One block of one row: integer values and whatever scales them.
struct Block {
  uint8_t values[256];
  uint8_t scales[16];
  uint8_t minima[16];
  uint8_t d[2];
  uint8_t m[2];
  uint8_t single[4];
};

void splitNibbles(const uint8_t* bytes, uint8_t* values) {
  for (int j = 0; j < 16; j++) {
    values[j] = bytes[j] & 15;
    values[j + 16] = bytes[j] >> 4;
  }
}

void addFifthBits(const uint8_t* bits, uint8_t* values) {
  for (int k = 0; k < 32; k++) values[k] |= static_cast<uint8_t>(((bits[k / 8] >> (k % 8)) & 1) << 4);
}

// Six-bit scales and minima of Q4_K and Q5_K.
void splitScales(const uint8_t* packed, Block& out) {
  for (int j = 0; j < 4; j++) {
    out.scales[j] = packed[j] & 63;
    out.minima[j] = packed[j + 4] & 63;
    out.scales[j + 4] = static_cast<uint8_t>((packed[j + 8] & 15) | (packed[j] >> 6) << 4);
    out.minima[j + 4] = static_cast<uint8_t>((packed[j + 8] >> 4) | (packed[j + 4] >> 6) << 4);
  }
}

// Six-bit scales of Q3_K: four low bits in nibbles of bytes 0 to 7, two high bits in bytes 8 to 11.
void splitScalesQ3(const uint8_t* packed, Block& out) {
  for (int j = 0; j < 16; j++) {
    const int low = j < 8 ? packed[j] & 15 : packed[j - 8] >> 4;
    out.scales[j] = static_cast<uint8_t>(low | ((packed[8 + j % 4] >> (2 * (j / 4))) & 3) << 4);
  }
}

// Two bits of 256 values: 32 bytes for each half, value 32 j + l of a half at bits 2j of byte l.
int twoBits(const uint8_t* bytes, int k) { return (bytes[32 * (k / 128) + k % 32] >> (2 * (k % 128 / 32))) & 3; }

// Where blocks are longer than cells, `cell` is the one of the block at p that is wanted.
void takeApart(TensorType type, const uint8_t* p, int64_t cell, Block& out) {
  if (isGrid(type)) {
    const uint16_t d = takeGridApart(type, p, out.values, out.scales);
    memcpy(out.d, &d, 2);
    return;
  }
  memcpy(out.d, p, 2);
  memcpy(out.m, p + 2, 2);
  switch (type) {
    case TensorType::Q8_0:
    case TensorType::Q8_0_INT8: memcpy(out.values, p + 2, 32); break;
    case TensorType::I8:
    case TensorType::I8_INT8:
    case TensorType::F8_E4M3:
    case TensorType::F8_E4M3_BF16:
      memcpy(out.single, p, 4);
      memcpy(out.values, p + 4, 32);
      // A NaN makes every product of its row NaN; products look for it in the scale and not in each code.
      for (int k = 0; k < 32 && isF8(type); k++) {
        if ((out.values[k] & 127) == 127) memcpy(out.single, &kNaN, 4);
      }
      break;
    case TensorType::Q4_0:
    case TensorType::IQ4_NL: splitNibbles(p + 2, out.values); break;
    case TensorType::Q4_1: splitNibbles(p + 4, out.values); break;
    case TensorType::Q5_0:
      splitNibbles(p + 6, out.values);
      addFifthBits(p + 2, out.values);
      break;
    case TensorType::Q5_1:
      splitNibbles(p + 8, out.values);
      addFifthBits(p + 4, out.values);
      break;
    case TensorType::MXFP4: splitNibbles(p + 1, out.values); break;
    case TensorType::NVFP4:
    case TensorType::NVFP4_SCALED: {
      const uint8_t* scales = p + (type == TensorType::NVFP4 ? 0 : 4);
      for (int64_t s = 0; s < 2; s++) {
        out.scales[s] = scaleCode(scales[2 * cell + s]);
        const uint8_t* nibbles = scales + 4 + 8 * (2 * cell + s);
        for (int j = 0; j < 8; j++) {
          out.values[16 * s + j] = nibbles[j] & 15;
          out.values[16 * s + 8 + j] = nibbles[j] >> 4;
        }
      }
      break;
    }
    case TensorType::Q4_K:
    case TensorType::Q5_K: {
      splitScales(p + 4, out);
      const uint8_t* nibbles = p + (type == TensorType::Q4_K ? 16 : 48);
      for (int k = 0; k < 256; k++) {
        out.values[k] = static_cast<uint8_t>((nibbles[32 * (k / 64) + k % 32] >> (4 * (k % 64 / 32))) & 15);
        if (type == TensorType::Q5_K) out.values[k] |= static_cast<uint8_t>(((p[16 + k % 32] >> (k / 32)) & 1) << 4);
      }
      break;
    }
    case TensorType::Q6_K:
      for (int k = 0; k < 256; k++) {
        const int low = (p[64 * (k / 128) + k % 64] >> (4 * (k % 128 / 64))) & 15;
        out.values[k] = static_cast<uint8_t>(low | twoBits(p + 128, k) << 4);
      }
      memcpy(out.scales, p + 192, 16);
      memcpy(out.d, p + 208, 2);
      break;
    case TensorType::Q2_K:
      for (int j = 0; j < 16; j++) out.scales[j] = p[j];
      for (int k = 0; k < 256; k++) out.values[k] = static_cast<uint8_t>(twoBits(p + 16, k));
      memcpy(out.d, p + 80, 2);
      memcpy(out.m, p + 82, 2);
      break;
    case TensorType::Q3_K:
      splitScalesQ3(p + 96, out);
      for (int k = 0; k < 256; k++) out.values[k] = static_cast<uint8_t>(twoBits(p + 32, k) | ((p[k % 32] >> (k / 32)) & 1) << 2);
      memcpy(out.d, p + 108, 2);
      break;
    case TensorType::IQ4_XS:
      for (int s = 0; s < 8; s++) {
        out.scales[s] = static_cast<uint8_t>(((p[4 + s / 2] >> (4 * (s % 2))) & 15) | ((p[2 + s / 4] >> (2 * (s % 4))) & 3) << 4);
        splitNibbles(p + 8 + 16 * s, out.values + 32 * s);
      }
      break;
    default: break;
  }
}

// The writers: `rows` are the eight blocks of a group; each returns the place after what it wrote.
using Rows = const Block*;

uint8_t* writeHalves(Rows rows, const uint8_t (Block::*half)[2], uint8_t* out) {
  for (int r = 0; r < 8; r++) memcpy(out + 2 * r, rows[r].*half, 2);
  return out + 16;
}

uint8_t* writeNibbles(Rows rows, int first, uint8_t* out) {
  for (int r = 0; r < 8; r++) {
    const uint8_t* v = rows[r].values + first;
    for (int k = 0; k < 16; k++) out[32 * (k / 4) + 4 * r + k % 4] = static_cast<uint8_t>((v[k] & 15) | (v[k + 16] & 15) << 4);
  }
  return out + 128;
}

uint8_t* writePairNibbles(Rows rows, int first, uint8_t* out) {
  for (int r = 0; r < 8; r++) {
    const uint8_t* v = rows[r].values + first;
    for (int k = 0; k < 16; k++) out[16 * (k / 2) + 2 * r + k % 2] = static_cast<uint8_t>(v[k] | v[k + 16] << 4);
  }
  return out + 128;
}

// Bit `bit` of 32 values.
uint8_t* writeBits(Rows rows, int first, int bit, uint8_t* out) {
  memset(out, 0, 32);
  for (int r = 0; r < 8; r++) {
    for (int k = 0; k < 32; k++) out[4 * r + k % 4] |= static_cast<uint8_t>(((rows[r].values[first + k] >> bit) & 1) << (k / 4));
  }
  return out + 32;
}

// Bits `shift` and `shift` + 1 of 32 values.
uint8_t* writeTwoBits(Rows rows, int first, int shift, uint8_t* out) {
  memset(out, 0, 64);
  for (int r = 0; r < 8; r++) {
    for (int k = 0; k < 32; k++) {
      out[32 * (k / 16) + 4 * r + k % 4] |= static_cast<uint8_t>(((rows[r].values[first + k] >> shift) & 3) << (2 * (k % 16 / 4)));
    }
  }
  return out + 64;
}

uint8_t* writeBytes(Rows rows, uint8_t* out) {
  for (int r = 0; r < 8; r++) {
    for (int k = 0; k < 32; k++) out[16 * (k / 2) + 2 * r + k % 2] = rows[r].values[k];
  }
  return out + 256;
}

uint8_t* writeSingles(Rows rows, uint8_t* out) {
  for (int r = 0; r < 8; r++) memcpy(out + 4 * r, rows[r].single, 4);
  return out + 32;
}

uint8_t* writeQuads(Rows rows, uint8_t* out) {
  for (int r = 0; r < 8; r++) {
    for (int k = 0; k < 32; k++) out[32 * (k / 4) + 4 * r + k % 4] = rows[r].values[k];
  }
  return out + 256;
}

uint8_t* writeSixes(Rows rows, const uint8_t (Block::*sixes)[16], int first, uint8_t* out) {
  memset(out, 0, 48);
  for (int r = 0; r < 8; r++) {
    for (int s = 0; s < 8; s++) {
      const uint8_t value = (rows[r].*sixes)[first + s];
      out[8 * (s / 2) + r] |= static_cast<uint8_t>((value & 15) << (4 * (s % 2)));
      out[32 + 8 * (s / 4) + r] |= static_cast<uint8_t>((value >> 4) << (2 * (s % 4)));
    }
  }
  return out + 48;
}

uint8_t* writeScaleBytes(Rows rows, int numScales, uint8_t* out) {
  for (int s = 0; s < numScales; s++) {
    for (int r = 0; r < 8; r++) out[8 * s + r] = rows[r].scales[s];
  }
  return out + 8 * numScales;
}

uint8_t* writeScaleNibbles(Rows rows, int numScales, uint8_t* out) {
  for (int s = 0; s < numScales; s += 2, out += 8) {
    for (int r = 0; r < 8; r++) out[r] = static_cast<uint8_t>(rows[r].scales[s] | rows[r].scales[s + 1] << 4);
  }
  return out;
}

void writeGridCell(GridPack pack, Rows rows, uint8_t* out) {
  out = writeScaleNibbles(rows, pack.numScales, writeHalves(rows, &Block::d, out));
  for (int first = 0; first < 256; first += 32) {
    if (pack.codeBits == 3) out = writeBits(rows, first, 2, out);
    out = pack.codeBits == 4 ? writeNibbles(rows, first, out) : writeTwoBits(rows, first, 0, out);
  }
}

void writeCell(TensorType type, Rows rows, uint8_t* out) {
  if (isGrid(type)) return writeGridCell(gridPackOf(type), rows, out);
  if (type == TensorType::MXFP4) {
    for (int r = 0; r < 8; r++) out[r] = rows[r].d[0];
    writeNibbles(rows, 0, out + 8);
    return;
  }
  if (isNVFP4(type)) {
    writeNibbles(rows, 0, writeScaleBytes(rows, 2, out));
    return;
  }
  if (type == TensorType::I8 || type == TensorType::I8_INT8) {
    writeBytes(rows, writeSingles(rows, out));
    return;
  }
  if (isF8(type)) {
    writeQuads(rows, writeSingles(rows, out));
    return;
  }
  out = writeHalves(rows, &Block::d, out);
  switch (type) {
    case TensorType::Q8_0:
    case TensorType::Q8_0_INT8: writeBytes(rows, out); break;
    case TensorType::Q4_0: writeNibbles(rows, 0, out); break;
    case TensorType::IQ4_NL: writePairNibbles(rows, 0, out); break;
    case TensorType::Q4_1: writeNibbles(rows, 0, writeHalves(rows, &Block::m, out)); break;
    case TensorType::Q5_0: writeNibbles(rows, 0, writeBits(rows, 0, 4, out)); break;
    case TensorType::Q5_1: writeNibbles(rows, 0, writeBits(rows, 0, 4, writeHalves(rows, &Block::m, out))); break;
    case TensorType::Q4_K:
    case TensorType::Q5_K:
      out = writeHalves(rows, &Block::m, out);
      out = writeSixes(rows, &Block::minima, 0, writeSixes(rows, &Block::scales, 0, out));
      for (int first = 0; first < 256; first += 32) {
        if (type == TensorType::Q5_K) out = writeBits(rows, first, 4, out);
        out = writeNibbles(rows, first, out);
      }
      break;
    case TensorType::Q6_K:
      out = writeScaleBytes(rows, 16, out);
      for (int first = 0; first < 256; first += 32) out = writeNibbles(rows, first, writeTwoBits(rows, first, 4, out));
      break;
    case TensorType::Q2_K:
      out = writeScaleBytes(rows, 16, writeHalves(rows, &Block::m, out));
      for (int first = 0; first < 256; first += 32) out = writeTwoBits(rows, first, 0, out);
      break;
    case TensorType::Q3_K:
      out = writeSixes(rows, &Block::scales, 8, writeSixes(rows, &Block::scales, 0, out));
      for (int first = 0; first < 256; first += 32) out = writeTwoBits(rows, first, 0, writeBits(rows, first, 2, out));
      break;
    case TensorType::IQ4_XS:
      out = writeSixes(rows, &Block::scales, 0, out);
      for (int first = 0; first < 256; first += 32) out = writePairNibbles(rows, first, out);
      break;
    default: break;
  }
}

// The scale of each row: the one in front of its first block.
template <class RowAt>
uint8_t* writeRowScales(TensorType type, int64_t numRows, RowAt rowAt, uint8_t* out) {
  float scales[kPackedRows] = {};
  for (int64_t r = 0; r < numRows; r++) {
    scales[r] = 1;
    if (type == TensorType::NVFP4_SCALED) memcpy(&scales[r], rowAt(r), 4);
  }
  memcpy(out, scales, sizeof scales);
  return out + sizeof scales;
}

// Groups [begin, end) of a weight of 16 bits.
void packPairs(const PackArgs& args, int64_t begin, int64_t end) {
  const WeightRef& weight = args.weight;
  const int64_t groupBytes = packedGroupBytes(weight.type, weight.cols);
  for (int64_t g = begin; g < end; g++) {
    uint8_t* out = args.out + g * groupBytes;
    const int64_t numRows = minOf(kPacked16BitRows, weight.rows - g * kPacked16BitRows);
    if (numRows < kPacked16BitRows) memset(out, 0, static_cast<size_t>(groupBytes));
    for (int64_t r = 0; r < numRows; r++) {
      const uint8_t* row = weight.data + (g * kPacked16BitRows + r) * weight.rowBytes;
      if (weight.type == TensorType::F16) {
        for (int64_t c = 0; c < weight.cols; c++) memcpy(out + 2 * (kPacked16BitRows * c + r), row + 2 * c, 2);
      } else {
        for (int64_t c = 0; c < weight.cols / 2; c++) memcpy(out + 4 * (kPacked16BitRows * c + r), row + 4 * c, 4);
      }
    }
  }
}

}  // namespace

void packKernel(const Op& op, int64_t begin, int64_t end, std::byte*) {
  const PackArgs& args = op.args<PackArgs>();
  const WeightRef& weight = args.weight;
  if (is16Bit(weight.type)) return packPairs(args, begin, end);
  const TensorTypeInfo& info = infoOf(weight.type);
  const PackedInfo packed = packedInfoOf(weight.type);
  const int64_t numCells = weight.cols / packed.cellValues;
  const int64_t cellsPerBlock = maxOf(1, info.blockValues / packed.cellValues);
  for (int64_t g = begin; g < end; g++) {
    uint8_t* out = args.out + g * packedGroupBytes(weight.type, weight.cols);
    const int64_t numRows = minOf(kPackedRows, weight.rows - g * kPackedRows);
    const auto rowAt = [&](int64_t r) { return weight.data + (g * kPackedRows + r) * weight.rowBytes; };
    if (isNVFP4(weight.type)) out = writeRowScales(weight.type, numRows, rowAt, out);
    Block rows[kPackedRows] = {};
    for (int64_t i = 0; i < numCells; i++, out += packed.cellBytes) {
      for (int64_t r = 0; r < numRows; r++) {
        takeApart(weight.type, rowAt(r) + i / cellsPerBlock * info.blockBytes, i % cellsPerBlock, rows[r]);
      }
      writeCell(weight.type, rows, out);
    }
  }
}

}  // namespace millrace::MILLRACE_ISA
