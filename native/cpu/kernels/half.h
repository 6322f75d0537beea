// Scalar f16 and bf16 conversions: exact widening, narrowing by round-to-nearest-even; subnormals, infinities and NaN
// included.
#pragma once
#include <cstdint>
#include <cstring>

#include "isa.h"

namespace millrace::MILLRACE_ISA {

static inline uint32_t bitsOf(float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  return bits;
}

static inline float floatOf(uint32_t bits) {
  float value;
  memcpy(&value, &bits, 4);
  return value;
}

static inline float halfToFloat(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 31u;
  const uint32_t fraction = half & 1023u;
  if (exponent == 31) return floatOf(sign | 0x7f800000u | (fraction << 13) | (fraction != 0 ? 0x400000u : 0));
  if (exponent == 0) {  // fraction · 2^−24, exact in f32
    const float magnitude = static_cast<float>(fraction) * 5.9604644775390625e-8f;
    return sign != 0 ? -magnitude : magnitude;
  }
  return floatOf(sign | ((exponent + 112u) << 23) | (fraction << 13));
}

static inline uint16_t floatToHalf(float value) {
  const uint32_t bits = bitsOf(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x1ffu));
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // rounds to 65536 or more
  if (magnitude < 0x38800000u) {
    // Below 2^−14: adding 0.5 leaves the result in units of 2^−24 in the low bits, rounded to nearest even by the
    // addition.
    const float shifted = floatOf(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (bitsOf(shifted) - 0x3f000000u));
  }
  const uint32_t isOdd = (magnitude >> 13) & 1u;
  return static_cast<uint16_t>(sign | ((magnitude + 0xfffu + isOdd - 0x38000000u) >> 13));
}

static inline float bfloatToFloat(uint16_t value) { return floatOf(static_cast<uint32_t>(value) << 16); }

static inline uint16_t loadU16(const void* address) {
  uint16_t value;
  memcpy(&value, address, 2);
  return value;
}

static inline float loadHalf(const void* address) { return halfToFloat(loadU16(address)); }

}  // namespace millrace::MILLRACE_ISA
