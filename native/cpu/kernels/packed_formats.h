// One struct a packed type: how a cell of packed.h unpacks into the vectors that packed_kinds.h multiplies (FP8 with
// bfloat16: linear_packed_bfloats.cc). Four kinds of arithmetic:
//   BlockCell  u8 weights per 32 columns, one f32 scale and shift a row:  Σ d · (d_a · Σ w·q) + shift · 8 d_a Σq, or around a centre (Centre);
//              with activations per 16 columns a scale for each 16
//   SuperCell  u8 weights per 256 columns with integer scales per 16 or 32: d · Σ scale · (Σ w·q) − dmin · Σ minimum · Σq
//   FloatCell  weights widened to f32, one f32 scale a row per 32 columns, f32 activations:  Σ d · Σ w·x
//   WideCell   i8 weights, widened to i16, one f32 scale a row per 32 columns:  Σ d · Σ w·q
#pragma once
#include "grid_blocks.h"
#include "packed.h"
#include "simd_int.h"

namespace millrace::MILLRACE_ISA {

// 32 columns of a vector's rows; vector c has columns 4c to 4c + 3.
struct BlockCell {
  Bytes values[8];
  // The second is of columns 16 to 31, where these have their own.
  Floats scales[2];
  // Multiplies 8 · d_a · Σq.
  Floats shift;
};

// Where no shift is needed: what a weight of zero is stored as. Nibbles, around 8: d · (d_a · Σ w·q − 8 d_a Σq). Exact,
// around the 128 of centred32, which would take digits off a float, or the 12 of blocks16, whose weights of zero may be
// under large scales: d · d_a · (Σ w·q − 128 Σq), a difference of integers.
enum class Centre { None, Nibbles, Exact };

// 32 columns of a vector's rows; vector 8j + c has column 4c + j.
struct FloatCell {
  Floats values[32];
  Floats scale;
};

// Parts of 32 columns; pair c has columns 2c and 2c + 1.
template <int kParts>
struct WideCell {
  struct {
    WidePair values[16];
    Floats scale;
  } parts[kParts];
};

MILLRACE_INLINE void unpackNibbles(Source nibbles, Bytes* values) {
  MILLRACE_UNROLL_INT
  for (int c = 0; c < 4; c++) {
    const Bytes both = loadBytes(nibbles + 32 * c);
    values[c] = both & splatByte(15);
    values[c + 4] = shiftMask<4>(both, 15);
  }
}

MILLRACE_INLINE void addFifthBits(Source bits, Bytes* values) {
  const Bytes all = loadBytes(bits);
  values[0] |= shiftMask<-4>(all, 16);
  values[1] |= shiftMask<-3>(all, 16);
  values[2] |= shiftMask<-2>(all, 16);
  values[3] |= shiftMask<-1>(all, 16);
  values[4] |= shiftMask<0>(all, 16);
  values[5] |= shiftMask<1>(all, 16);
  values[6] |= shiftMask<2>(all, 16);
  values[7] |= shiftMask<3>(all, 16);
}

// Values 0 to 15 around 8.
struct PackedQ4_0 {
  static constexpr TensorType kType = TensorType::Q4_0;
  using Sum = Dot;
  // 16-bit sums hold 32 columns, else 16.
  static constexpr bool kFitsWhole = true;
  static constexpr Centre kCentre = Centre::Nibbles;
  MILLRACE_INLINE void unpack(Source cell, BlockCell& out) {
    out.scales[0] = loadHalves(cell);
    unpackNibbles(cell + 16, out.values);
  }
};

struct PackedQ4_1 {
  static constexpr TensorType kType = TensorType::Q4_1;
  using Sum = Dot;
  static constexpr bool kFitsWhole = true;
  static constexpr Centre kCentre = Centre::None;
  MILLRACE_INLINE void unpack(Source cell, BlockCell& out) {
    out.scales[0] = loadHalves(cell);
    out.shift = loadHalves(cell + 16) * splatFloats(0.125f);
    unpackNibbles(cell + 32, out.values);
  }
};

struct PackedQ5_0 {
  static constexpr TensorType kType = TensorType::Q5_0;
  using Sum = Dot;
  static constexpr bool kFitsWhole = false;
  static constexpr Centre kCentre = Centre::None;
  MILLRACE_INLINE void unpack(Source cell, BlockCell& out) {
    out.scales[0] = loadHalves(cell);
    out.shift = out.scales[0] * splatFloats(-2.0f);
    unpackNibbles(cell + 48, out.values);
    addFifthBits(cell + 16, out.values);
  }
};

struct PackedQ5_1 {
  static constexpr TensorType kType = TensorType::Q5_1;
  using Sum = Dot;
  static constexpr bool kFitsWhole = false;
  static constexpr Centre kCentre = Centre::None;
  MILLRACE_INLINE void unpack(Source cell, BlockCell& out) {
    out.scales[0] = loadHalves(cell);
    out.shift = loadHalves(cell + 16) * splatFloats(0.125f);
    unpackNibbles(cell + 64, out.values);
    addFifthBits(cell + 32, out.values);
  }
};

// FP4 values doubled and 12 added, by code.
MILLRACE_INLINE void unpackFP4(Source nibbles, Bytes* values) {
  alignas(16) static constexpr int8_t kValues[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};
  unpackNibbles(nibbles, values);
  MILLRACE_UNROLL_INT
  for (int c = 0; c < 8; c++) values[c] = lookUp(kValues, values[c]);
}

// The scale is an exponent.
struct PackedMXFP4 {
  static constexpr TensorType kType = TensorType::MXFP4;
  using Sum = Dot;
  static constexpr bool kFitsWhole = false;
  static constexpr Centre kCentre = Centre::None;
  MILLRACE_INLINE void unpack(Source cell, BlockCell& out) {
    const Ints exponents = loadU8s(cell);
    // 2^(e − 128): a subnormal below 2.
    out.scales[0] = reinterpret_cast<Floats>(exponents < 2 ? (Ints{} + 0x200000) << exponents : (exponents - 1) << 23);
    out.shift = out.scales[0] * splatFloats(-1.5f);
    unpackFP4(cell + 8, out.values);
  }
};

// The scales are E4M3 codes, of 16 columns each, and halved, as the values are doubled.
struct PackedNVFP4 {
  static constexpr TensorType kType = TensorType::NVFP4;
  using Sum = Dot;
  static constexpr bool kFitsWhole = false;
  static constexpr Centre kCentre = Centre::Exact;
  MILLRACE_INLINE void unpack(Source cell, BlockCell& out) {
    // The code's bits, moved to those of an f32, have an exponent that is 120 too small; the product is exact,
    // subnormals included.
    MILLRACE_UNROLL_INT
    for (int s = 0; s < 2; s++) out.scales[s] = reinterpret_cast<Floats>(loadU8s(cell + 8 * s) << 20) * splatFloats(0x1p119f);
    unpackFP4(cell + 16, out.values);
  }
};

// Bytes under f16 or f32 scales.
template <TensorType kOf>
MILLRACE_INLINE Floats unpackByteScales(Source cell) {
  if constexpr (kOf == TensorType::Q8_0 || kOf == TensorType::Q8_0_INT8) return loadHalves(cell);
  else return loadFloats(cell);
}
// Where the bytes of a cell begin: after the scales.
template <TensorType kOf>
constexpr int64_t kBytesAt = packedInfoOf(kOf).cellBytes - 32 * kPackedRows;

// For int8 activations: bytes 0 to 255 around 128.
template <TensorType kOf>
struct PackedCentredBytes {
  static constexpr TensorType kType = kOf;
  using Sum = ByteDot;
  static constexpr bool kFitsWhole = true;
  static constexpr Centre kCentre = Centre::Exact;
  MILLRACE_INLINE void unpack(Source cell, BlockCell& out) {
    out.scales[0] = unpackByteScales<kOf>(cell);
    MILLRACE_UNROLL_INT
    for (int c = 0; c < 8; c++) out.values[c] = loadPairs(cell + kBytesAt<kOf> + 32 * c) ^ splatByte(128);
  }
};

template <TensorType kOf>
struct PackedBytes {
  static constexpr TensorType kType = kOf;
  static constexpr int kParts = 1;
  MILLRACE_INLINE void unpack(Source cell, WideCell<1>& out) {
    out.parts[0].scale = unpackByteScales<kOf>(cell);
    MILLRACE_UNROLL_INT
    for (int c = 0; c < 16; c++) out.parts[0].values[c] = loadWide(cell + kBytesAt<kOf> + 16 * c);
  }
};

struct PackedF8 {
  static constexpr TensorType kType = TensorType::F8_E4M3;
  MILLRACE_INLINE Floats scaleOf(Source cell) { return loadFloats(cell); }
  // Column 4c + j. The code's bits, moved to those of an f32, have an exponent that is 120 too small; the product is
  // exact, subnormals included.
  MILLRACE_INLINE Floats valueOf(Source cell, int c, int j) {
    const Ints codes = reinterpret_cast<Ints>(loadBytes(cell + 32 + 32 * c));
    const Ints bits = ((codes << (24 - 8 * j)) >> 4) & static_cast<int32_t>(0x87f00000u);
    return reinterpret_cast<Floats>(bits) * splatFloats(0x1p120f);
  }
};

MILLRACE_INLINE void unpackPairNibbles(Source nibbles, WidePair* out) {
  alignas(16) static constexpr int8_t kValues[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  MILLRACE_UNROLL_INT
  for (int p = 0; p < 4; p++) {
    const Bytes both = loadBytes(nibbles + 32 * p);
    widen(lookUp(kValues, both & splatByte(15)), out + 2 * p);
    widen(lookUp(kValues, shiftMask<4>(both, 15)), out + 8 + 2 * p);
  }
}

struct PackedIQ4_NL {
  static constexpr TensorType kType = TensorType::IQ4_NL;
  static constexpr int kParts = 1;
  MILLRACE_INLINE void unpack(Source cell, WideCell<1>& out) {
    out.parts[0].scale = loadHalves(cell);
    unpackPairNibbles(cell + 16, out.parts[0].values);
  }
};

struct PackedIQ4_XS {
  static constexpr TensorType kType = TensorType::IQ4_XS;
  static constexpr int kParts = 8;
  MILLRACE_INLINE void unpack(Source cell, WideCell<8>& out) {
    const Floats d = loadHalves(cell);
    const Sixes sixes = unpackSixes(cell + 16);
    MILLRACE_UNROLL_INT
    for (int s = 0; s < 8; s++) {
      out.parts[s].scale = d * toFloats(valuesOf(sixes, s) - 32);
      unpackPairNibbles(cell + 64 + 128 * s, out.parts[s].values);
    }
  }
};

// 256 columns of a vector's rows but their values.
template <class Format>
struct SuperHead {
  // One scale for each run of 32 or 16 columns.
  RowScales scales[Format::kNumScales];
  // Pairs of i16: the minima of two neighbouring scales' columns.
  Ints minima[Format::kNumMinima > 0 ? Format::kNumMinima / 2 : 1];
  Floats scale;
  // −dmin
  Floats minimumScale;
};

// Vector c has columns 4c to 4c + 3.
template <class Format>
struct SuperCell : SuperHead<Format> {
  Bytes values[64];
};

// Fills the pairs of a SuperHead from minima(i), one for each scale.
template <int kNumPairs, class Minima>
MILLRACE_INLINE void pairMinima(Ints* pairs, Minima minima) {
  MILLRACE_UNROLL_INT
  for (int p = 0; p < kNumPairs; p++) pairs[p] = (minima(2 * p) & 0xffff) | (minima(2 * p + 1) << 16);
}

// The head that Q4_K and Q5_K share.
template <class Cell>
MILLRACE_INLINE void unpackSixBitScales(Source packed, Cell& out) {
  out.scale = loadHalves(packed);
  out.minimumScale = Floats{} - loadHalves(packed + 16);
  const Sixes scales = unpackSixes(packed + 32);
  MILLRACE_UNROLL_INT
  for (int s = 0; s < 8; s++) out.scales[s] = scalesOf(scales, s);
  const Sixes minima = unpackSixes(packed + 80);
  MILLRACE_UNROLL_INT
  for (int p = 0; p < 4; p++) out.minima[p] = pairsOf(minima, p);
}

struct PackedQ4_K {
  static constexpr TensorType kType = TensorType::Q4_K;
  // That 16-bit sums hold.
  static constexpr int kSumColumns = 32;
  static constexpr int kNumScales = 8;
  static constexpr int kNumMinima = 8;
  static constexpr bool kIsCentred = false;
  MILLRACE_INLINE void unpackHead(Source packed, SuperHead<PackedQ4_K>& out) { unpackSixBitScales(packed, out); }
  // Columns 32s to 32s + 31.
  MILLRACE_INLINE void unpackPart(Source packed, int s, Bytes* values) { unpackNibbles(packed + 128 + 128 * s, values); }
};

struct PackedQ5_K {
  static constexpr TensorType kType = TensorType::Q5_K;
  static constexpr int kSumColumns = 16;
  static constexpr int kNumScales = 8;
  static constexpr int kNumMinima = 8;
  static constexpr bool kIsCentred = false;
  MILLRACE_INLINE void unpackHead(Source packed, SuperHead<PackedQ5_K>& out) { unpackSixBitScales(packed, out); }
  MILLRACE_INLINE void unpackPart(Source packed, int s, Bytes* values) {
    unpackNibbles(packed + 160 + 160 * s, values);
    addFifthBits(packed + 128 + 160 * s, values);
  }
};

// Values 0 to 63 around 32. Off 32-bit sums it is taken as a minimum of 32 · scale, in integers; off 16-bit sums at
// once (Block256::offsets16), for they only fit without it.
struct PackedQ6_K {
  static constexpr TensorType kType = TensorType::Q6_K;
  static constexpr int kSumColumns = 16;
  static constexpr int kNumScales = 16;
  static constexpr int kNumMinima = kHasWideSums ? 16 : 0;
  static constexpr bool kIsCentred = true;
  MILLRACE_INLINE void unpackHead(Source packed, SuperHead<PackedQ6_K>& out) {
    out.scale = loadHalves(packed);
    MILLRACE_UNROLL_INT
    for (int s = 0; s < 16; s++) out.scales[s] = makeScales(loadI8s(packed + 16 + 8 * s));
    pairMinima<kNumMinima / 2>(out.minima, [&](int s) { return out.scales[s].value * 32; });
  }
  MILLRACE_INLINE void unpackPart(Source packed, int s, Bytes* values) {
    Source part = packed + 144 + 192 * s;
    unpackNibbles(part + 64, values);
    MILLRACE_UNROLL_INT
    for (int h = 0; h < 2; h++) {
      const Bytes upper = loadBytes(part + 32 * h);
      values[4 * h] |= shiftMask<-4>(upper, 48);
      values[4 * h + 1] |= shiftMask<-2>(upper, 48);
      values[4 * h + 2] |= shiftMask<0>(upper, 48);
      values[4 * h + 3] |= shiftMask<2>(upper, 48);
    }
  }
};

MILLRACE_INLINE void unpackTwoBits(Source bits, Bytes* values) {
  MILLRACE_UNROLL_INT
  for (int h = 0; h < 2; h++) {
    const Bytes all = loadBytes(bits + 32 * h);
    values[4 * h] = shiftMask<0>(all, 3);
    values[4 * h + 1] = shiftMask<2>(all, 3);
    values[4 * h + 2] = shiftMask<4>(all, 3);
    values[4 * h + 3] = shiftMask<6>(all, 3);
  }
}

MILLRACE_INLINE void unpackThreeBits(Source bits, Bytes* values) {
  unpackTwoBits(bits + 32, values);
  const Bytes third = loadBytes(bits);
  values[0] |= shiftMask<-2>(third, 4);
  values[1] |= shiftMask<-1>(third, 4);
  values[2] |= shiftMask<0>(third, 4);
  values[3] |= shiftMask<1>(third, 4);
  values[4] |= shiftMask<2>(third, 4);
  values[5] |= shiftMask<3>(third, 4);
  values[6] |= shiftMask<4>(third, 4);
  values[7] |= shiftMask<5>(third, 4);
}

struct PackedQ2_K {
  static constexpr TensorType kType = TensorType::Q2_K;
  static constexpr int kSumColumns = 16;
  static constexpr int kNumScales = 16;
  static constexpr int kNumMinima = 16;
  static constexpr bool kIsCentred = false;
  MILLRACE_INLINE void unpackHead(Source packed, SuperHead<PackedQ2_K>& out) {
    out.scale = loadHalves(packed);
    out.minimumScale = Floats{} - loadHalves(packed + 16);
    MILLRACE_UNROLL_INT
    for (int s = 0; s < 16; s++) out.scales[s] = makeScales(loadU8s(packed + 32 + 8 * s) & 15);
    pairMinima<8>(out.minima, [&](int s) { return loadU8s(packed + 32 + 8 * s) >> 4; });
  }
  MILLRACE_INLINE void unpackPart(Source packed, int s, Bytes* values) { unpackTwoBits(packed + 160 + 64 * s, values); }
};

// Values 0 to 7 around 4: the 4 is a minimum of 4 · scale.
struct PackedQ3_K {
  static constexpr TensorType kType = TensorType::Q3_K;
  static constexpr int kSumColumns = 16;
  static constexpr int kNumScales = 16;
  static constexpr int kNumMinima = 16;
  static constexpr bool kIsCentred = false;
  MILLRACE_INLINE void unpackHead(Source packed, SuperHead<PackedQ3_K>& out) {
    out.scale = loadHalves(packed);
    out.minimumScale = Floats{} - out.scale;
    const Sixes halves[2] = {unpackSixes(packed + 16), unpackSixes(packed + 64)};
    const auto scale = [&](int s) { return valuesOf(halves[s / 8], s % 8) - 32; };
    MILLRACE_UNROLL_INT
    for (int s = 0; s < 16; s++) out.scales[s] = makeScales(scale(s));
    pairMinima<8>(out.minima, [&](int s) { return scale(s) * 4; });
  }
  MILLRACE_INLINE void unpackPart(Source packed, int s, Bytes* values) {
    unpackThreeBits(packed + 112 + 96 * s, values);
  }
};

// The bytes that codes stand for: multiples around the least one, in steps of kFactor.
struct GridBytes {
  int8_t values[16];
};
template <TensorType kOf, int kCentre, int kFactor>
constexpr GridBytes gridBytes() {
  GridBytes bytes{};
  for (int code = 0; code < 16; code++) {
    bytes.values[code] = static_cast<int8_t>((gridMultiplesOf(kOf).values[code] + kCentre) / kFactor);
  }
  return bytes;
}

// Multiples of kFactor around kCentre, which is a minimum of kCentre · scale, in integers.
template <TensorType kOf, int kCentre, int kFactor, int kSums>
struct PackedGrid {
  static constexpr TensorType kType = kOf;
  static constexpr int kSumColumns = kSums;
  static constexpr GridPack kPack = gridPackOf(kOf);
  static constexpr int kNumScales = kPack.numScales == 16 ? 16 : 8;
  static constexpr int kNumMinima = kNumScales;
  static constexpr bool kIsCentred = true;
  MILLRACE_INLINE void unpackHead(Source packed, SuperHead<PackedGrid>& out) {
    out.scale = loadHalves(packed) * splatFloats(gridMultiplesOf(kOf).unit);
    MILLRACE_UNROLL_INT
    for (int s = 0; s < kNumScales; s++) out.scales[s] = makeScales(stepOf(packed, s) * kFactor);
    pairMinima<kNumMinima / 2>(out.minima, [&](int s) { return stepOf(packed, s) * centreOf(packed, s); });
  }
  MILLRACE_INLINE void unpackPart(Source packed, int s, Bytes* values) {
    alignas(16) static constexpr GridBytes kBytes = gridBytes<kOf, kCentre, kFactor>();
    Source part = packed + 16 + 4 * kPack.numScales + 32 * kPack.codeBits * s;
    if constexpr (kPack.codeBits == 2) return unpackTwoBits(part, values);
    if constexpr (kPack.codeBits == 3) unpackThreeBits(part, values);
    if constexpr (kPack.codeBits == 4) unpackNibbles(part, values);
    MILLRACE_UNROLL_INT
    for (int c = 0; c < 8; c++) values[c] = lookUp(kBytes.values, values[c]);
  }

 private:
  MILLRACE_INLINE Ints nibbleOf(Source packed, int s) {
    const Ints both = loadU8s(packed + 16 + 8 * (s / 2));
    return s % 2 == 0 ? both & 15 : both >> 4;
  }
  // 2 s + 1.
  MILLRACE_INLINE Ints stepOf(Source packed, int s) {
    if constexpr (kPack.numScales == 0) return Ints{} + 1;
    else return (nibbleOf(packed, s) & gridScale(kOf, 15)) * 2 + 1;
  }
  MILLRACE_INLINE Ints centreOf(Source packed, int s) {
    // Eight, less the eighth that is added to each value, or more.
    if constexpr (kOf == TensorType::IQ1_S) return kCentre - 1 + (nibbleOf(packed, s) >> 3) * 2;
    else return Ints{} + kCentre;
  }
};

// Types whose blocks differ but whose cells are alike share one type here.
using PackedIQ2_XXS = PackedGrid<TensorType::IQ2_XXS, 43, 1, 4>;
using PackedIQ2_S = PackedGrid<TensorType::IQ2_S, 43, 1, 4>;
using PackedIQ3_XXS = PackedGrid<TensorType::IQ3_XXS, 31, 1, 8>;
using PackedIQ3_S = PackedGrid<TensorType::IQ3_S, 15, 2, 32>;
using PackedIQ1_S = PackedGrid<TensorType::IQ1_S, 8, 8, 32>;
using PackedIQ1_M = PackedGrid<TensorType::IQ1_M, 9, 2, 32>;
using PackedTQ2_0 = PackedGrid<TensorType::TQ2_0, 1, 1, 32>;

}  // namespace millrace::MILLRACE_ISA
