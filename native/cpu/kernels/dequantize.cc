// The bit layouts of the weight types (GGML's, little-endian): eight values at a time.
// No operation here is fused, so every instruction set gives the same values.
#include "dequantize.h"

#include "grid_blocks.h"
#include "simd.h"
#include "small_floats.h"

namespace millrace::MILLRACE_ISA {
namespace {

void fromF16(const uint8_t* source, int64_t numValues, float* out) {
  int64_t i = 0;
  for (; i + 8 <= numValues; i += 8) store8(out + i, loadHalf8(source + 2 * i));
  for (; i < numValues; i++) out[i] = loadHalf(source + 2 * i);
}

void fromBf16(const uint8_t* source, int64_t numValues, float* out) {
  int64_t i = 0;
  for (; i + 8 <= numValues; i += 8) store8(out + i, loadBfloat8(source + 2 * i));
  for (; i < numValues; i++) out[i] = bfloatToFloat(loadU16(source + 2 * i));
}

// f16 d; i8 q[32]: d · q
MILLRACE_INLINE void blockQ8_0(const uint8_t* block, float* out) {
  const f32x8 d = splat8(loadHalf(block));
  for (int i = 0; i < 32; i += 8) store8(out + i, d * toFloat8(loadI8x8(block + 2 + i)));
}

// f16 d; 16 bytes, value j in the low nibble of byte j, value j + 16 in its high nibble: d · (q − 8)
MILLRACE_INLINE void blockQ4_0(const uint8_t* block, float* out) {
  const f32x8 d = splat8(loadHalf(block));
  for (int i = 0; i < 16; i += 8) {
    const i32x8 q = loadU8x8(block + 2 + i);
    store8(out + i, d * toFloat8((q & 15) - 8));
    store8(out + i + 16, d * toFloat8((q >> 4) - 8));
  }
}

// f16 d, m; nibbles as Q4_0: d · q + m
MILLRACE_INLINE void blockQ4_1(const uint8_t* block, float* out) {
  const f32x8 d = splat8(loadHalf(block));
  const f32x8 m = splat8(loadHalf(block + 2));
  for (int i = 0; i < 16; i += 8) {
    const i32x8 q = loadU8x8(block + 4 + i);
    store8(out + i, d * toFloat8(q & 15) + m);
    store8(out + i + 16, d * toFloat8(q >> 4) + m);
  }
}

// Bits first … first + 7 of `bits`, each as 0 or 16.
MILLRACE_INLINE i32x8 fifthBits(uint32_t bits, int first) {
  const u32x8 lanes = {0, 1, 2, 3, 4, 5, 6, 7};
  const u32x8 shifted = (u32x8{} + (bits >> first)) >> lanes;
  return reinterpret_cast<i32x8>((shifted & 1u) << 4);
}

MILLRACE_INLINE uint32_t loadU32(const uint8_t* address) {
  uint32_t value;
  memcpy(&value, address, 4);
  return value;
}

// f16 d; u32 fifth bits, value j's at bit j; nibbles as Q4_0: d · (q − 16)
MILLRACE_INLINE void blockQ5_0(const uint8_t* block, float* out) {
  const f32x8 d = splat8(loadHalf(block));
  const uint32_t high = loadU32(block + 2);
  for (int i = 0; i < 16; i += 8) {
    const i32x8 q = loadU8x8(block + 6 + i);
    store8(out + i, d * toFloat8(((q & 15) | fifthBits(high, i)) - 16));
    store8(out + i + 16, d * toFloat8(((q >> 4) | fifthBits(high, i + 16)) - 16));
  }
}

// f16 d, m; u32 fifth bits; nibbles: d · q + m
MILLRACE_INLINE void blockQ5_1(const uint8_t* block, float* out) {
  const f32x8 d = splat8(loadHalf(block));
  const f32x8 m = splat8(loadHalf(block + 2));
  const uint32_t high = loadU32(block + 4);
  for (int i = 0; i < 16; i += 8) {
    const i32x8 q = loadU8x8(block + 8 + i);
    store8(out + i, d * toFloat8((q & 15) | fifthBits(high, i)) + m);
    store8(out + i + 16, d * toFloat8((q >> 4) | fifthBits(high, i + 16)) + m);
  }
}

// Six-bit scale and minimum of sub-block j (of eight) from the 12 bytes of a Q4_K or Q5_K block.
MILLRACE_INLINE void scaleAndMin(const uint8_t* packed, int j, float* scale, float* minimum) {
  if (j < 4) {
    *scale = static_cast<float>(packed[j] & 63);
    *minimum = static_cast<float>(packed[j + 4] & 63);
  } else {
    *scale = static_cast<float>((packed[j + 4] & 15) | (packed[j - 4] >> 6) << 4);
    *minimum = static_cast<float>((packed[j + 4] >> 4) | (packed[j] >> 6) << 4);
  }
}

// 16 bytes of 4-bit scales (low) and minima (high); 64 bytes of bit pairs; f16 d, dmin: d · sc · q − dmin · m, a scale
// per 16 values. In each half of 128 values, group g of 32 has its pairs at bit 2g of the half's 32 bytes.
MILLRACE_INLINE void blockQ2_K(const uint8_t* block, float* out) {
  const float d = loadHalf(block + 80);
  const float dmin = loadHalf(block + 82);
  for (int half = 0; half < 2; half++) {
    for (int g = 0; g < 4; g++) {
      for (int i = 0; i < 32; i += 8) {
        const uint8_t scale = block[8 * half + 2 * g + i / 16];
        const f32x8 step = splat8(d * static_cast<float>(scale & 15));
        const f32x8 base = splat8(dmin * static_cast<float>(scale >> 4));
        const i32x8 q = (loadU8x8(block + 16 + 32 * half + i) >> (2 * g)) & 3;
        store8(out + 128 * half + 32 * g + i, step * toFloat8(q) - base);
      }
    }
  }
}

// 32 bytes of third bits; 64 bytes of bit pairs as Q2_K; 12 bytes of scales; f16 d: d · (sc − 32) · (q − 4), a scale
// per 16 values. The third bit of value i of group g (of eight) is bit g of byte i. Scale j has its low four bits in
// nibble j / 8 of byte j % 8 and its upper two at 2 · (j / 4) of byte 8 + j % 4.
MILLRACE_INLINE void blockQ3_K(const uint8_t* block, float* out) {
  const uint8_t* scales = block + 96;
  const float d = loadHalf(block + 108);
  for (int g = 0; g < 8; g++) {
    for (int i = 0; i < 32; i += 8) {
      const int j = 2 * g + i / 16;
      const int scale = ((scales[j % 8] >> (4 * (j / 8))) & 15) | ((scales[8 + j % 4] >> (2 * (j / 4))) & 3) << 4;
      const f32x8 step = splat8(d * static_cast<float>(scale - 32));
      const i32x8 q = ((loadU8x8(block + 32 + 32 * (g / 4) + i) >> (2 * (g % 4))) & 3) | ((loadU8x8(block + i) >> g) & 1) << 2;
      store8(out + 32 * g + i, step * toFloat8(q - 4));
    }
  }
}

// f16 d, dmin; 12 bytes of scales; 128 bytes: per 64 values 32 low nibbles, then the 32 high ones: d · sc · q − dmin ·
// m. Q5_K has 32 bytes of fifth bits before the nibbles: value i of sub-block j has bit j of byte i.
template <bool kHasFifthBit>
MILLRACE_INLINE void blockQ45_K(const uint8_t* block, float* out) {
  const float d = loadHalf(block);
  const float dmin = loadHalf(block + 2);
  const uint8_t* nibbles = block + (kHasFifthBit ? 48 : 16);
  for (int j = 0; j < 8; j++) {
    float scale, minimum;
    scaleAndMin(block + 4, j, &scale, &minimum);
    const f32x8 step = splat8(d * scale);
    const f32x8 base = splat8(dmin * minimum);
    for (int i = 0; i < 32; i += 8) {
      i32x8 q = (loadU8x8(nibbles + 32 * (j / 2) + i) >> (4 * (j % 2))) & 15;
      if (kHasFifthBit) q |= ((loadU8x8(block + 16 + i) >> j) & 1) << 4;
      store8(out + 32 * j + i, step * toFloat8(q) - base);
    }
  }
}

// 128 bytes of low nibbles, 64 bytes of high bit pairs, i8 scales[16], f16 d: d · sc · (q − 32), a scale per 16 values.
// In each half of 128 values, group g of 32 has its low bits in nibble g / 2 of bytes 32 · (g % 2) + i and its high
// bits at 2g of byte i.
MILLRACE_INLINE void blockQ6_K(const uint8_t* block, float* out) {
  const int8_t* scales = reinterpret_cast<const int8_t*>(block + 192);
  const float d = loadHalf(block + 208);
  for (int half = 0; half < 2; half++) {
    for (int g = 0; g < 4; g++) {
      const uint8_t* low = block + 64 * half + 32 * (g % 2);
      const uint8_t* high = block + 128 + 32 * half;
      for (int i = 0; i < 32; i += 8) {
        const f32x8 step = splat8(d * static_cast<float>(scales[8 * half + 2 * g + i / 16]));
        const i32x8 q = ((loadU8x8(low + i) >> (4 * (g / 2))) & 15) | ((loadU8x8(high + i) >> (2 * g)) & 3) << 4;
        store8(out + 128 * half + 32 * g + i, step * toFloat8(q - 32));
      }
    }
  }
}

// Nibbles as Q4_0 that index a table: step · table[q].
MILLRACE_INLINE void lookUp32(const uint8_t* nibbles, const int8_t* table, float step, float* out) {
  const f32x8 d = splat8(step);
  for (int i = 0; i < 16; i += 8) {
    store8(out + i, d * toFloat8(lookUpLow8(table, nibbles + i)));
    store8(out + i + 16, d * toFloat8(lookUpHigh8(table, nibbles + i)));
  }
}

alignas(16) constexpr int8_t kIq4Grid[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

// f16 d; 16 bytes of nibbles: d · grid[q]
MILLRACE_INLINE void blockIQ4_NL(const uint8_t* block, float* out) { lookUp32(block + 2, kIq4Grid, loadHalf(block), out); }

// f16 d; u16 upper two bits of eight scales; 4 bytes of their lower nibbles; per 32 values 16 bytes of nibbles: d · (sc
// − 32) · grid[q]
MILLRACE_INLINE void blockIQ4_XS(const uint8_t* block, float* out) {
  const float d = loadHalf(block);
  const int high = loadU16(block + 2);
  for (int j = 0; j < 8; j++) {
    const int scale = ((block[4 + j / 2] >> (4 * (j % 2))) & 15) | ((high >> (2 * j)) & 3) << 4;
    lookUp32(block + 8 + 16 * j, kIq4Grid, d * static_cast<float>(scale - 32), out + 32 * j);
  }
}

// u8 exponent e (E8M0); 16 bytes of nibbles: 2^(e − 128) · grid[q], where the grid is twice the 4-bit floats of the OCP
// MX formats.
alignas(16) constexpr int8_t kE2M1Grid[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
MILLRACE_INLINE void blockMXFP4(const uint8_t* block, float* out) {
  const uint32_t e = block[0];
  lookUp32(block + 1, kE2M1Grid, floatOf(e < 2 ? 0x200000u << e : (e - 1) << 23), out);
}

// Four E4M3 scales without a sign, one for each 16 values; 32 bytes, value j of 16 in the low nibble of its byte j,
// value j + 8 in the high one: scale / 2 · grid[q]. With kIsScaled an f32 in front: d · (scale / 2 · grid[q]).
template <bool kIsScaled>
MILLRACE_INLINE void blockNVFP4(const uint8_t* block, float* out) {
  float d = 1;
  if (kIsScaled) memcpy(&d, block, 4);
  const uint8_t* scales = block + (kIsScaled ? 4 : 0);
  for (int s = 0; s < 4; s++) {
    const f32x8 step = splat8(floatOf(static_cast<uint32_t>(scaleCode(scales[s])) << 20) * 0x1p119f);
    const uint8_t* nibbles = scales + 4 + 8 * s;
    store8(out + 16 * s, splat8(d) * (step * toFloat8(lookUpLow8(kE2M1Grid, nibbles))));
    store8(out + 16 * s + 8, splat8(d) * (step * toFloat8(lookUpHigh8(kE2M1Grid, nibbles))));
  }
}

// f32 d; 32 E4M3 bytes: d · value. The byte's bits are an f16's with one exponent bit less: the same number times 2⁻⁸;
// NaN is all ones.
MILLRACE_INLINE void blockF8(const uint8_t* block, float* out) {
  float d;
  memcpy(&d, block, 4);
  for (int i = 0; i < 32; i += 8) {
    const i32x8 bits = loadU8x8(block + 4 + i);
    // As f32 bits, with the exponent 120 too small; the product is exact, subnormals included.
    const i32x8 magnitude = (bits & 127) << 20;
    const i32x8 isNaN = (bits & 127) == 127;
    const f32x8 value = reinterpret_cast<f32x8>(magnitude) * splat8(0x1p120f);
    const i32x8 signedBits = reinterpret_cast<i32x8>(value) | (bits & 128) << 24 | (isNaN & 0x7fc00000);
    store8(out + i, splat8(d) * reinterpret_cast<f32x8>(signedBits));
  }
}

// f32 d; i8 q[32]: d · q
MILLRACE_INLINE void blockI8(const uint8_t* block, float* out) {
  float d;
  memcpy(&d, block, 4);
  for (int i = 0; i < 32; i += 8) store8(out + i, splat8(d) * toFloat8(loadI8x8(block + 4 + i)));
}

// Codes that stand for multiples of scales: grid_blocks.h.
template <TensorType kOf>
void blockGrid(const uint8_t* block, float* out) {
  alignas(16) static constexpr GridMultiples kMultiples = gridMultiplesOf(kOf);
  constexpr int kScaleValues = gridPackOf(kOf).numScales == 16 ? 16 : 32;
  uint8_t codes[256];
  uint8_t scales[16];
  const float d = halfToFloat(takeGridApart(kOf, block, codes, scales)) * kMultiples.unit;
  for (int i = 0; i < 256; i += 8) {
    const f32x8 step = splat8(d * static_cast<float>(2 * gridScale(kOf, scales[i / kScaleValues]) + 1));
    store8(out + i, step * toFloat8(lookUpLow8(kMultiples.values, codes + i)));
  }
}

template <void (*Block)(const uint8_t*, float*), int kValues, int kBytes>
void fromBlocks(const uint8_t* source, int64_t numValues, float* out) {
  for (int64_t i = 0; i < numValues; i += kValues, source += kBytes) Block(source, out + i);
}

}  // namespace

void dequantize(TensorType type, const uint8_t* source, int64_t numValues, float* out) {
  switch (type) {
    case TensorType::F32: memcpy(out, source, static_cast<size_t>(numValues) * 4); return;
    case TensorType::F16: return fromF16(source, numValues, out);
    case TensorType::BF16:
    case TensorType::BF16_BF16: return fromBf16(source, numValues, out);
    case TensorType::Q8_0:
    case TensorType::Q8_0_INT8: return fromBlocks<blockQ8_0, 32, 34>(source, numValues, out);
    case TensorType::Q4_0: return fromBlocks<blockQ4_0, 32, 18>(source, numValues, out);
    case TensorType::Q4_1: return fromBlocks<blockQ4_1, 32, 20>(source, numValues, out);
    case TensorType::Q5_0: return fromBlocks<blockQ5_0, 32, 22>(source, numValues, out);
    case TensorType::Q5_1: return fromBlocks<blockQ5_1, 32, 24>(source, numValues, out);
    case TensorType::Q2_K: return fromBlocks<blockQ2_K, 256, 84>(source, numValues, out);
    case TensorType::Q3_K: return fromBlocks<blockQ3_K, 256, 110>(source, numValues, out);
    case TensorType::Q4_K: return fromBlocks<blockQ45_K<false>, 256, 144>(source, numValues, out);
    case TensorType::Q5_K: return fromBlocks<blockQ45_K<true>, 256, 176>(source, numValues, out);
    case TensorType::Q6_K: return fromBlocks<blockQ6_K, 256, 210>(source, numValues, out);
    case TensorType::IQ4_NL: return fromBlocks<blockIQ4_NL, 32, 18>(source, numValues, out);
    case TensorType::IQ4_XS: return fromBlocks<blockIQ4_XS, 256, 136>(source, numValues, out);
    case TensorType::MXFP4: return fromBlocks<blockMXFP4, 32, 17>(source, numValues, out);
    case TensorType::F8_E4M3:
    case TensorType::F8_E4M3_BF16: return fromBlocks<blockF8, 32, 36>(source, numValues, out);
    case TensorType::I8:
    case TensorType::I8_INT8: return fromBlocks<blockI8, 32, 36>(source, numValues, out);
    case TensorType::NVFP4: return fromBlocks<blockNVFP4<false>, 64, 36>(source, numValues, out);
    case TensorType::NVFP4_SCALED: return fromBlocks<blockNVFP4<true>, 64, 40>(source, numValues, out);
    case TensorType::IQ2_XXS: return fromBlocks<blockGrid<TensorType::IQ2_XXS>, 256, 66>(source, numValues, out);
    case TensorType::IQ2_XS: return fromBlocks<blockGrid<TensorType::IQ2_XS>, 256, 74>(source, numValues, out);
    case TensorType::IQ2_S: return fromBlocks<blockGrid<TensorType::IQ2_S>, 256, 82>(source, numValues, out);
    case TensorType::IQ3_XXS: return fromBlocks<blockGrid<TensorType::IQ3_XXS>, 256, 98>(source, numValues, out);
    case TensorType::IQ3_S: return fromBlocks<blockGrid<TensorType::IQ3_S>, 256, 110>(source, numValues, out);
    case TensorType::IQ1_S: return fromBlocks<blockGrid<TensorType::IQ1_S>, 256, 50>(source, numValues, out);
    case TensorType::IQ1_M: return fromBlocks<blockGrid<TensorType::IQ1_M>, 256, 56>(source, numValues, out);
    case TensorType::TQ1_0: return fromBlocks<blockGrid<TensorType::TQ1_0>, 256, 54>(source, numValues, out);
    case TensorType::TQ2_0: return fromBlocks<blockGrid<TensorType::TQ2_0>, 256, 66>(source, numValues, out);
  }
}

}  // namespace millrace::MILLRACE_ISA
