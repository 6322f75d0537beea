// The bit layouts of the weight types (GGML's, little-endian): plain loops over a block that compilers turn into vector code.
// No operation here is fused, so every instruction set gives the same values.
#include "dequantize.h"

#include "simd.h"

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
void blockQ8_0(const uint8_t* block, float* out) {
  const float d = loadHalf(block);
  const int8_t* q = reinterpret_cast<const int8_t*>(block + 2);
  for (int i = 0; i < 32; i++) out[i] = d * static_cast<float>(q[i]);
}

// f16 d; 16 bytes, value j in the low nibble of byte j, value j + 16 in its high nibble: d · (q − 8)
void blockQ4_0(const uint8_t* block, float* out) {
  const float d = loadHalf(block);
  const uint8_t* q = block + 2;
  for (int i = 0; i < 16; i++) {
    out[i] = d * static_cast<float>((q[i] & 15) - 8);
    out[i + 16] = d * static_cast<float>((q[i] >> 4) - 8);
  }
}

// f16 d, m; nibbles as Q4_0: d · q + m
void blockQ4_1(const uint8_t* block, float* out) {
  const float d = loadHalf(block);
  const float m = loadHalf(block + 2);
  const uint8_t* q = block + 4;
  for (int i = 0; i < 16; i++) {
    out[i] = d * static_cast<float>(q[i] & 15) + m;
    out[i + 16] = d * static_cast<float>(q[i] >> 4) + m;
  }
}

// Nibbles as Q4_0, the fifth bit of value j is bit j of `high`.
void unpackFiveBits(const uint8_t* nibbles, const uint8_t* highBytes, int32_t* q) {
  uint32_t high;
  memcpy(&high, highBytes, 4);
  for (uint32_t i = 0; i < 16; i++) {
    q[i] = static_cast<int32_t>((nibbles[i] & 15u) | ((high >> i) & 1u) << 4);
    q[i + 16] = static_cast<int32_t>((nibbles[i] >> 4) | ((high >> (i + 16)) & 1u) << 4);
  }
}

// f16 d; u32 fifth bits; nibbles: d · (q − 16)
void blockQ5_0(const uint8_t* block, float* out) {
  const float d = loadHalf(block);
  int32_t q[32];
  unpackFiveBits(block + 6, block + 2, q);
  for (int i = 0; i < 32; i++) out[i] = d * static_cast<float>(q[i] - 16);
}

// f16 d, m; u32 fifth bits; nibbles: d · q + m
void blockQ5_1(const uint8_t* block, float* out) {
  const float d = loadHalf(block);
  const float m = loadHalf(block + 2);
  int32_t q[32];
  unpackFiveBits(block + 8, block + 4, q);
  for (int i = 0; i < 32; i++) out[i] = d * static_cast<float>(q[i]) + m;
}

// Six-bit scale and minimum of sub-block j (of eight) from the 12 bytes of a Q4_K or Q5_K block.
void scaleAndMin(const uint8_t* packed, int j, float* scale, float* minimum) {
  if (j < 4) {
    *scale = static_cast<float>(packed[j] & 63);
    *minimum = static_cast<float>(packed[j + 4] & 63);
  } else {
    *scale = static_cast<float>((packed[j + 4] & 15) | (packed[j - 4] >> 6) << 4);
    *minimum = static_cast<float>((packed[j + 4] >> 4) | (packed[j] >> 6) << 4);
  }
}

// f16 d, dmin; 12 bytes of scales; 128 bytes: per 64 values 32 low nibbles, then the 32 high ones: d · sc · q − dmin · m
void blockQ4_K(const uint8_t* block, float* out) {
  const float d = loadHalf(block);
  const float dmin = loadHalf(block + 2);
  for (int j = 0; j < 8; j++) {
    float scale, minimum;
    scaleAndMin(block + 4, j, &scale, &minimum);
    const float step = d * scale;
    const float base = dmin * minimum;
    const uint8_t* q = block + 16 + 32 * (j / 2);
    const int shift = 4 * (j % 2);
    for (int i = 0; i < 32; i++) out[32 * j + i] = step * static_cast<float>((q[i] >> shift) & 15) - base;
  }
}

// As Q4_K with 32 bytes of fifth bits before the nibbles: value i of sub-block j has bit j of byte i.
void blockQ5_K(const uint8_t* block, float* out) {
  const float d = loadHalf(block);
  const float dmin = loadHalf(block + 2);
  const uint8_t* high = block + 16;
  for (int j = 0; j < 8; j++) {
    float scale, minimum;
    scaleAndMin(block + 4, j, &scale, &minimum);
    const float step = d * scale;
    const float base = dmin * minimum;
    const uint8_t* q = block + 48 + 32 * (j / 2);
    const int shift = 4 * (j % 2);
    for (int i = 0; i < 32; i++) {
      const int value = ((q[i] >> shift) & 15) | ((high[i] >> j) & 1) << 4;
      out[32 * j + i] = step * static_cast<float>(value) - base;
    }
  }
}

// 128 bytes of low nibbles, 64 bytes of high bit pairs, i8 scales[16], f16 d: d · sc · (q − 32), a scale per 16 values.
// In each half of 128 values, group g of 32 has its low bits in nibble g / 2 of bytes 32 · (g % 2) + i and its high bits at 2g of byte i.
void blockQ6_K(const uint8_t* block, float* out) {
  const int8_t* scales = reinterpret_cast<const int8_t*>(block + 192);
  const float d = loadHalf(block + 208);
  for (int half = 0; half < 2; half++) {
    for (int g = 0; g < 4; g++) {
      const uint8_t* low = block + 64 * half + 32 * (g % 2);
      const uint8_t* high = block + 128 + 32 * half;
      const int lowShift = 4 * (g / 2);
      const int highShift = 2 * g;
      float* groupOut = out + 128 * half + 32 * g;
      for (int part = 0; part < 2; part++) {
        const float step = d * static_cast<float>(scales[8 * half + 2 * g + part]);
        for (int i = 16 * part; i < 16 * part + 16; i++) {
          const int value = ((low[i] >> lowShift) & 15) | ((high[i] >> highShift) & 3) << 4;
          groupOut[i] = step * static_cast<float>(value - 32);
        }
      }
    }
  }
}

// f16 d; nibbles as Q4_0 that index a table: d · table[q]
void blockIQ4_NL(const uint8_t* block, float* out) {
  static const float table[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  const float d = loadHalf(block);
  const uint8_t* q = block + 2;
  for (int i = 0; i < 16; i++) {
    out[i] = d * table[q[i] & 15];
    out[i + 16] = d * table[q[i] >> 4];
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
    case TensorType::BF16: return fromBf16(source, numValues, out);
    case TensorType::Q8_0: return fromBlocks<blockQ8_0, 32, 34>(source, numValues, out);
    case TensorType::Q4_0: return fromBlocks<blockQ4_0, 32, 18>(source, numValues, out);
    case TensorType::Q4_1: return fromBlocks<blockQ4_1, 32, 20>(source, numValues, out);
    case TensorType::Q5_0: return fromBlocks<blockQ5_0, 32, 22>(source, numValues, out);
    case TensorType::Q5_1: return fromBlocks<blockQ5_1, 32, 24>(source, numValues, out);
    case TensorType::Q4_K: return fromBlocks<blockQ4_K, 256, 144>(source, numValues, out);
    case TensorType::Q5_K: return fromBlocks<blockQ5_K, 256, 176>(source, numValues, out);
    case TensorType::Q6_K: return fromBlocks<blockQ6_K, 256, 210>(source, numValues, out);
    case TensorType::IQ4_NL: return fromBlocks<blockIQ4_NL, 32, 18>(source, numValues, out);
  }
}

}  // namespace millrace::MILLRACE_ISA
