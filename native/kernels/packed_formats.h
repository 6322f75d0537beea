// One struct a packed type: how a cell of packed.h unpacks into the vectors that linear_packed.cc multiplies. Four kinds of arithmetic:
//   BlockCell  u8 weights per 32 columns, one f32 scale and shift a row:  Σ d · (d_a · Σ w·q) + shift · 8 d_a Σq
//   SuperCell  u8 weights per 256 columns with integer scales per 16 or 32: d · Σ scale · (Σ w·q) − dmin · Σ minimum · Σq
//   WideCell   i8 weights per 32 columns, widened to i16, one f32 scale a row
#pragma once
#include "packed.h"
#include "simd_int.h"

namespace millrace::MILLRACE_ISA {

// 32 columns of eight rows; vector c has columns 4c to 4c + 3.
struct BlockCell {
  u8x32 values[8];
  f32x8 scale;
  // Multiplies Block32::sum8.
  f32x8 shift;
};

struct WideCell {
  WidePair values[16];
  f32x8 scale;
};

MILLRACE_INLINE void unpackNibbles(const uint8_t* nibbles, u8x32* values) {
  MILLRACE_UNROLL
  for (int c = 0; c < 4; c++) {
    const u8x32 both = loadBytes(nibbles + 32 * c);
    values[c] = both & splatByte(15);
    values[c + 4] = shiftMask<4>(both, 15);
  }
}

MILLRACE_INLINE void addFifthBits(const uint8_t* bits, u8x32* values) {
  const u8x32 all = loadBytes(bits);
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
  // 16-bit sums hold 32 columns, else 16.
  static constexpr bool kFitsWhole = true;
  // shift is −scale: Σ scale · (d_a · Σ − sum8) needs one operation less.
  static constexpr bool kIsCentred = true;
  MILLRACE_INLINE void unpack(const uint8_t* cell, BlockCell& out) {
    out.scale = loadHalf8(cell);
    unpackNibbles(cell + 16, out.values);
  }
};

struct PackedQ4_1 {
  static constexpr TensorType kType = TensorType::Q4_1;
  static constexpr bool kFitsWhole = true;
  static constexpr bool kIsCentred = false;
  MILLRACE_INLINE void unpack(const uint8_t* cell, BlockCell& out) {
    out.scale = loadHalf8(cell);
    out.shift = loadHalf8(cell + 16) * splat8(0.125f);
    unpackNibbles(cell + 32, out.values);
  }
};

struct PackedQ5_0 {
  static constexpr TensorType kType = TensorType::Q5_0;
  static constexpr bool kFitsWhole = false;
  static constexpr bool kIsCentred = false;
  MILLRACE_INLINE void unpack(const uint8_t* cell, BlockCell& out) {
    out.scale = loadHalf8(cell);
    out.shift = out.scale * splat8(-2.0f);
    unpackNibbles(cell + 48, out.values);
    addFifthBits(cell + 16, out.values);
  }
};

struct PackedQ5_1 {
  static constexpr TensorType kType = TensorType::Q5_1;
  static constexpr bool kFitsWhole = false;
  static constexpr bool kIsCentred = false;
  MILLRACE_INLINE void unpack(const uint8_t* cell, BlockCell& out) {
    out.scale = loadHalf8(cell);
    out.shift = loadHalf8(cell + 16) * splat8(0.125f);
    unpackNibbles(cell + 64, out.values);
    addFifthBits(cell + 32, out.values);
  }
};

struct PackedQ8_0 {
  static constexpr TensorType kType = TensorType::Q8_0;
  MILLRACE_INLINE void unpack(const uint8_t* cell, WideCell& out) {
    out.scale = loadHalf8(cell);
    MILLRACE_UNROLL
    for (int c = 0; c < 16; c++) out.values[c] = loadWide(cell + 16 + 16 * c);
  }
};

alignas(16) constexpr int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

struct PackedIQ4_NL {
  static constexpr TensorType kType = TensorType::IQ4_NL;
  MILLRACE_INLINE void unpack(const uint8_t* cell, WideCell& out) {
    out.scale = loadHalf8(cell);
    MILLRACE_UNROLL
    for (int p = 0; p < 4; p++) {
      const u8x32 both = loadBytes(cell + 16 + 32 * p);
      widen(lookUp(kIq4Values, both & splatByte(15)), out.values + 2 * p);
      widen(lookUp(kIq4Values, shiftMask<4>(both, 15)), out.values + 8 + 2 * p);
    }
  }
};

// Sixes of packed.h as bytes, [sub-block][row].
MILLRACE_INLINE void unpackSixes(const uint8_t* packed, uint8_t (*out)[8]) {
  uint64_t low[4], high[2];
  memcpy(low, packed, 32);
  memcpy(high, packed + 32, 16);
  constexpr uint64_t kFours = 0x0f0f0f0f0f0f0f0fu;
  constexpr uint64_t kTwos = 0x3030303030303030u;
  MILLRACE_UNROLL
  for (int s = 0; s < 8; s++) {
    const uint64_t upper = s % 4 < 2 ? high[s / 4] << (4 - 2 * (s % 4)) : high[s / 4] >> (2 * (s % 4) - 4);
    const uint64_t value = ((low[s / 2] >> (4 * (s % 2))) & kFours) | (upper & kTwos);
    memcpy(out[s], &value, 8);
  }
}

// 256 columns of eight rows; vector c has columns 4c to 4c + 3.
template <class Format>
struct SuperCell {
  u8x32 values[64];
  // Per 32 columns, or per 16 where there are no minima.
  RowScales scales[Format::kHasMinima ? 8 : 16];
  f32x8 scale;
  // Pairs of i16: minima of sub-blocks 2p and 2p + 1.
  i32x8 minima[4];
  // −dmin
  f32x8 minimumScale;

  void unpack(const uint8_t* cell) {
    scale = loadHalf8(cell);
    for (int s = 0; s < 8; s++) Format::unpack(cell + Format::kSubStart + s * Format::kSubBytes, values + 8 * s);
    if constexpr (Format::kHasMinima) {
      uint8_t sixes[8][8];
      unpackSixes(cell + 32, sixes);
      MILLRACE_UNROLL
      for (int s = 0; s < 8; s++) scales[s] = makeScales(loadU8x8(sixes[s]));
      unpackSixes(cell + 80, sixes);
      MILLRACE_UNROLL
      for (int p = 0; p < 4; p++) minima[p] = loadU8x8(sixes[2 * p]) | (loadU8x8(sixes[2 * p + 1]) << 16);
      minimumScale = zero8() - loadHalf8(cell + 16);
    } else {
      MILLRACE_UNROLL
      for (int s = 0; s < 16; s++) scales[s] = makeScales(loadI8x8(cell + 16 + 8 * s));
    }
  }
};

struct PackedQ4_K {
  static constexpr TensorType kType = TensorType::Q4_K;
  static constexpr bool kHasMinima = true;
  static constexpr bool kFitsWhole = true;
  static constexpr int kSubBytes = 128;
  static constexpr int kSubStart = 128;
  MILLRACE_INLINE void unpack(const uint8_t* sub, u8x32* values) { unpackNibbles(sub, values); }
};

struct PackedQ5_K {
  static constexpr TensorType kType = TensorType::Q5_K;
  static constexpr bool kHasMinima = true;
  static constexpr bool kFitsWhole = false;
  static constexpr int kSubBytes = 160;
  static constexpr int kSubStart = 128;
  MILLRACE_INLINE void unpack(const uint8_t* sub, u8x32* values) {
    unpackNibbles(sub + 32, values);
    addFifthBits(sub, values);
  }
};

// Values 0 to 63 around 32, an i8 scale per 16 columns.
struct PackedQ6_K {
  static constexpr TensorType kType = TensorType::Q6_K;
  static constexpr bool kHasMinima = false;
  static constexpr bool kFitsWhole = false;
  static constexpr int kSubBytes = 192;
  static constexpr int kSubStart = 144;
  MILLRACE_INLINE void unpack(const uint8_t* sub, u8x32* values) {
    unpackNibbles(sub + 64, values);
    MILLRACE_UNROLL
    for (int h = 0; h < 2; h++) {
      const u8x32 upper = loadBytes(sub + 32 * h);
      values[4 * h] |= shiftMask<-4>(upper, 48);
      values[4 * h + 1] |= shiftMask<-2>(upper, 48);
      values[4 * h + 2] |= shiftMask<0>(upper, 48);
      values[4 * h + 3] |= shiftMask<2>(upper, 48);
    }
  }
};

}  // namespace millrace::MILLRACE_ISA
