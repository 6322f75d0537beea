// encodeRows: f32 rows into GGML's blocks. A unit is a row, or with feedback a tile of rows.
//
// The error of a block is Σ w (x − decoded)², where w is the importance of a column. For given scales the nearest level
// of each value is best, and for given levels the best scales solve a least-squares problem, so a search tries scales
// around the one that the largest value asks for, solves, and goes on from the solution. K-quants store the scales of
// their groups as small integers of common factors: these integers are searched too, each beside its neighbours, and
// the factors are solved for again. No fused operations, and one order of sums: without feedback, all instruction sets
// write the same bytes.
#include "block_groups.h"
#include "kernel.h"

namespace millrace {

namespace {
struct EncodeRowsArgs {
  uint8_t* out;
  const float* x;           // [M, width]
  const float* importance;  // [width] or null
  const float* factor;      // [width, width] or null
  int64_t numRows;
  int64_t width;
  int64_t rowBytes;
  BlockType type;
};

// In the order of BlockType.
constexpr TensorType kTypes[] = {TensorType::Q8_0, TensorType::Q4_0, TensorType::Q4_1, TensorType::Q5_0, TensorType::Q5_1, TensorType::Q2_K, TensorType::Q3_K,
                                 TensorType::Q4_K, TensorType::Q5_K, TensorType::Q6_K, TensorType::IQ4_NL, TensorType::IQ4_XS, TensorType::MXFP4};
}  // namespace

#ifdef MILLRACE_DECODES

Op decode(const Operands<ops::encodeRows>& in, DecodeMemo&) {
  using ops::encodeRows;
  EncodeRowsArgs args{};
  using MILLRACE_ISA::feedbackScratchBytes;
  using MILLRACE_ISA::kFeedbackRows;
  args.numRows = in.integer(encodeRows::numRows);
  args.width = in.integer(encodeRows::width);
  args.type = in.code(encodeRows::type);
  const TensorTypeInfo& block = infoOf(kTypes[static_cast<int>(args.type)]);
  if (args.width % block.blockValues != 0) {
    in.refuse(encodeRows::width, "a multiple of " + std::to_string(block.blockValues), static_cast<double>(args.width));
  }
  args.rowBytes = args.width / block.blockValues * block.blockBytes;
  args.x = in.buffer(encodeRows::x, saturatedProduct(args.numRows, args.width));
  args.importance = in.optionalBuffer(encodeRows::importance, args.width);
  args.factor = in.optionalBuffer(encodeRows::factor, saturatedProduct(args.width, args.width));
  args.out = in.buffer(encodeRows::out, saturatedProduct(args.numRows, args.rowBytes));
  in.requireApart(encodeRows::out, encodeRows::x);
  const double width = static_cast<double>(args.width);
  if (args.factor == nullptr) return makeOp(OpCode::encodeRows, args, args.numRows, width * 30);
  in.requireApart(encodeRows::out, encodeRows::factor);
  const int64_t numTiles = (args.numRows + kFeedbackRows - 1) / kFeedbackRows;
  return makeOp(OpCode::encodeRows, args, numTiles, kFeedbackRows * width * (width / 30 + 40), feedbackScratchBytes(args.width));
}

#endif

}  // namespace millrace

namespace millrace::MILLRACE_ISA {
namespace {

// 32 codes of four bits: byte j has code j in its low and code j + 16 in its high nibble.
void storeNibbles(const uint8_t* codes, uint8_t* out) {
  for (int j = 0; j < 16; j++) out[j] = static_cast<uint8_t>((codes[j] & 15) | (codes[j + 16] & 15) << 4);
}

void storeFifthBits(const uint8_t* codes, uint8_t* out) {
  memset(out, 0, 4);
  for (int i = 0; i < 32; i++) out[i / 8] = static_cast<uint8_t>(out[i / 8] | (codes[i] >> 4 & 1) << (i % 8));
}

void encodeQ8_0(const float* x, const float* w, uint8_t* out, BlockFeedback* feedback) {
  const uint16_t d = toHalf(fitScale<Integers<-127, 127>, 32>(x, w, 4));
  storeU16(out, d);
  uint8_t codes[32];
  assign<Integers<-127, 127>, 32>(x, halfToFloat(d), 0, codes, feedback);
  for (int i = 0; i < 32; i++) out[2 + i] = static_cast<uint8_t>(codes[i] - 127);
}

template <class Levels>
void encodeCentred(const float* x, const float* w, uint8_t* out, BlockFeedback* feedback) {
  constexpr bool kHasFifth = Levels::high == 15;
  const uint16_t d = toHalf(fitScale<Levels, 32>(x, w, 9));
  uint8_t codes[32];
  assign<Levels, 32>(x, halfToFloat(d), 0, codes, feedback);
  storeU16(out, d);
  if (kHasFifth) storeFifthBits(codes, out + 2);
  storeNibbles(codes, out + (kHasFifth ? 6 : 2));
}

template <int kHigh>
void encodeRange(const float* x, const float* w, uint8_t* out, BlockFeedback* feedback) {
  const Range range = fitRange<kHigh, 32, false>(x, w);
  const uint16_t d = toHalf(range.d);
  const uint16_t base = toHalf(range.base);
  uint8_t codes[32];
  assign<Integers<0, kHigh>, 32>(x, halfToFloat(d), halfToFloat(base), codes, feedback);
  storeU16(out, d);
  storeU16(out + 2, base);
  if (kHigh == 31) storeFifthBits(codes, out + 4);
  storeNibbles(codes, out + (kHigh == 31 ? 8 : 4));
}

void encodeMxfp4(const float* x, const float* w, uint8_t* out, BlockFeedback* feedback) {
  using Levels = Entries<E2M1Table>;
  const float extreme = absOf(extremeOf<32>(x));
  // With a smaller exponent the unit is no normal number, and its inverse is infinite.
  constexpr int kLeast = 2;
  int best = kLeast;
  double bestError = -1;
  // The largest level is 6 = 1.5 · 2², twice that in the table, whose unit is 2^(exponent − 128).
  const int middle = extreme > 0 ? static_cast<int>(bitsOf(extreme) >> 23) - 2 : 0;
  for (int exponent = boundedInt(middle - 1, kLeast, 254); exponent <= boundedInt(middle + 1, kLeast, 254); exponent++) {
    const float d = floatOf(static_cast<uint32_t>(exponent - 1) << 23);
    const double error = errorOf<Levels, 32>(x, w, d, 0);
    if (bestError >= 0 && !(error < bestError)) continue;
    bestError = error;
    best = exponent;
  }
  uint8_t codes[32];
  const float d = floatOf(static_cast<uint32_t>(best - 1) << 23);
  assign<Levels, 32>(x, d, 0, codes, feedback);
  out[0] = static_cast<uint8_t>(best);
  storeNibbles(codes, out + 1);
}

// 6-bit scales and minima of eight groups in 12 bytes.
void storeScales(const uint8_t* scales, const uint8_t* minima, uint8_t* out) {
  for (int j = 0; j < 4; j++) {
    out[j] = static_cast<uint8_t>(scales[j] | (scales[j + 4] >> 4) << 6);
    out[j + 4] = static_cast<uint8_t>(minima[j] | (minima[j + 4] >> 4) << 6);
    out[j + 8] = static_cast<uint8_t>((scales[j + 4] & 15) | (minima[j + 4] & 15) << 4);
  }
}

// Every 32 bytes hold 32 codes in their low and the next 32 in their high nibbles.
void storeNibbles256(const uint8_t* codes, uint8_t* out) {
  for (int i = 0; i < 128; i++) {
    const uint8_t* pair = codes + (i / 32) * 64 + i % 32;
    out[i] = static_cast<uint8_t>((pair[0] & 15) | (pair[32] & 15) << 4);
  }
}

// Two bits of each code: byte l of a half of 128 holds those of codes l, l + 32, l + 64 and l + 96.
void storePairs(const uint8_t* codes, uint8_t* out) {
  for (int i = 0; i < 64; i++) {
    const uint8_t* first = codes + (i / 32) * 128 + i % 32;
    out[i] = static_cast<uint8_t>((first[0] & 3) | (first[32] & 3) << 2 | (first[64] & 3) << 4 | (first[96] & 3) << 6);
  }
}

void encodeQ4K(const float* x, const float* w, uint8_t* out, BlockFeedback* feedback) {
  const RangedGroups<15, 32, 63> groups(x, w, feedback);
  storeU16(out, groups.d);
  storeU16(out + 2, groups.dmin);
  storeScales(groups.scales, groups.minima, out + 4);
  storeNibbles256(groups.codes, out + 16);
}

void encodeQ5K(const float* x, const float* w, uint8_t* out, BlockFeedback* feedback) {
  const RangedGroups<31, 32, 63> groups(x, w, feedback);
  storeU16(out, groups.d);
  storeU16(out + 2, groups.dmin);
  storeScales(groups.scales, groups.minima, out + 4);
  for (int l = 0; l < 32; l++) {
    int bits = 0;
    for (int g = 0; g < 8; g++) bits |= (groups.codes[32 * g + l] >> 4 & 1) << g;
    out[16 + l] = static_cast<uint8_t>(bits);
  }
  storeNibbles256(groups.codes, out + 48);
}

void encodeQ2K(const float* x, const float* w, uint8_t* out, BlockFeedback* feedback) {
  const RangedGroups<3, 16, 15> groups(x, w, feedback);
  for (int g = 0; g < 16; g++) out[g] = static_cast<uint8_t>(groups.scales[g] | groups.minima[g] << 4);
  storePairs(groups.codes, out + 16);
  storeU16(out + 80, groups.d);
  storeU16(out + 82, groups.dmin);
}

void encodeQ3K(const float* x, const float* w, uint8_t* out, BlockFeedback* feedback) {
  const CentredGroups<Integers<-4, 3>, 16, -32, 31> groups(x, w, feedback);
  for (int l = 0; l < 32; l++) {
    int bits = 0;
    for (int g = 0; g < 8; g++) bits |= (groups.codes[32 * g + l] >> 2 & 1) << g;
    out[l] = static_cast<uint8_t>(bits);
  }
  storePairs(groups.codes, out + 32);
  memset(out + 96, 0, 12);
  for (int j = 0; j < 16; j++) {
    const int scale = groups.scales[j] + 32;
    out[96 + j % 8] = static_cast<uint8_t>(out[96 + j % 8] | (scale & 15) << (4 * (j / 8)));
    out[104 + j % 4] = static_cast<uint8_t>(out[104 + j % 4] | (scale >> 4) << (2 * (j / 4)));
  }
  storeU16(out + 108, groups.d);
}

void encodeQ6K(const float* x, const float* w, uint8_t* out, BlockFeedback* feedback) {
  const CentredGroups<Integers<-32, 31>, 16, -128, 127> groups(x, w, feedback);
  for (int i = 0; i < 128; i++) {
    const uint8_t* code = groups.codes + (i / 64) * 128 + i % 64;
    out[i] = static_cast<uint8_t>((code[0] & 15) | (code[64] & 15) << 4);
  }
  for (int i = 0; i < 64; i++) {
    const uint8_t* code = groups.codes + (i / 32) * 128 + i % 32;
    out[128 + i] = static_cast<uint8_t>(code[0] >> 4 | code[32] >> 4 << 2 | code[64] >> 4 << 4 | code[96] >> 4 << 6);
  }
  memcpy(out + 192, groups.scales, 16);
  storeU16(out + 208, groups.d);
}

void encodeIq4Xs(const float* x, const float* w, uint8_t* out, BlockFeedback* feedback) {
  const CentredGroups<Entries<Iq4Table>, 32, -32, 31> groups(x, w, feedback);
  storeU16(out, groups.d);
  int high = 0;
  memset(out + 4, 0, 4);
  for (int g = 0; g < 8; g++) {
    const int scale = groups.scales[g] + 32;
    out[4 + g / 2] = static_cast<uint8_t>(out[4 + g / 2] | (scale & 15) << (4 * (g % 2)));
    high |= (scale >> 4) << (2 * g);
    storeNibbles(groups.codes + 32 * g, out + 8 + 16 * g);
  }
  storeU16(out + 2, static_cast<uint16_t>(high));
}

using Encode = void (*)(const float* x, const float* w, uint8_t* out, BlockFeedback* feedback);

Encode encoderOf(BlockType type) {
  switch (type) {
    case BlockType::Q8_0: return encodeQ8_0;
    case BlockType::Q4_0: return encodeCentred<Integers<-8, 7>>;
    case BlockType::Q4_1: return encodeRange<15>;
    case BlockType::Q5_0: return encodeCentred<Integers<-16, 15>>;
    case BlockType::Q5_1: return encodeRange<31>;
    case BlockType::Q2_K: return encodeQ2K;
    case BlockType::Q3_K: return encodeQ3K;
    case BlockType::Q4_K: return encodeQ4K;
    case BlockType::Q5_K: return encodeQ5K;
    case BlockType::Q6_K: return encodeQ6K;
    case BlockType::IQ4_NL: return encodeCentred<Entries<Iq4Table>>;
    case BlockType::IQ4_XS: return encodeIq4Xs;
    case BlockType::MXFP4: break;
  }
  return encodeMxfp4;
}

}  // namespace

void encodeRowsKernel(const Op& op, int64_t begin, int64_t end, std::byte* scratch) {
  const EncodeRowsArgs& args = op.args<EncodeRowsArgs>();
  const TensorTypeInfo& block = infoOf(kTypes[static_cast<int>(args.type)]);
  const Encode encode = encoderOf(args.type);
  float ones[256];
  for (float& one : ones) one = 1;
  const auto importanceFrom = [&](int64_t column) { return args.importance == nullptr ? ones : args.importance + column; };
  const auto outAt = [&](int64_t row, int64_t column) { return args.out + row * args.rowBytes + column / block.blockValues * block.blockBytes; };
  if (args.factor == nullptr) {
    for (int64_t m = begin; m < end; m++) {
      for (int64_t c = 0; c < args.width; c += block.blockValues) encode(args.x + m * args.width + c, importanceFrom(c), outAt(m, c), nullptr);
    }
    return;
  }
  for (int64_t tile = begin; tile < end; tile++) {
    const int64_t first = tile * kFeedbackRows;
    const auto round = [&](int64_t row, int64_t c, int64_t, BlockFeedback& feedback) {
      encode(feedback.targets(), importanceFrom(c), outAt(first + row, c), &feedback);
    };
    const FeedbackRows rows{args.x + first * args.width, minOf(kFeedbackRows, args.numRows - first), args.width, args.factor, nullptr};
    roundTile(rows, block.blockValues, scratch, round);
  }
}

}  // namespace millrace::MILLRACE_ISA
