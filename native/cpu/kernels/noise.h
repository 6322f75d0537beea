// The sampler's noise: a function of (seed, position, token id) only (exactness rule E5), so a token never depends on
// the batch it was drawn in. Two rounds of splitmix64's finaliser (Steele, Lea & Flood, "Fast splittable pseudorandom
// number generators", 2014), with G = 0x9e3779b97f4a7c15 and everything modulo 2^64:
//   atPosition = mix(seed + G · (position + 1)),  word = mix(atPosition + G · (id + 1))
// The word's top 24 bits give u = (bits + ½) · 2^−24 and the noise −ln(−ln u), which is Gumbel distributed.
#pragma once
#include <cstdint>

#include "math.h"

namespace millrace::MILLRACE_ISA {

// No token's noise exceeds this: −ln(−ln((2^24 − ½) · 2^−24)) = 17.33.
constexpr double kMaxNoise = 17.4;

class NoiseSource {
 public:
  NoiseSource(uint64_t seed, uint64_t position) : atPosition_(mix(seed + kGamma * (position + 1))) {}

  double of(int32_t id) const { return -logDouble(-logDouble(uniformOf(id))); }

  // One number between 0 and 1 that belongs to the position alone: that of id −1, which no token has.
  double uniform() const { return uniformOf(-1); }

  // At least the noise of ids first … first + 7, mostly by less than 0.1 where the noise is large; no logarithm is
  // taken. −ln(−ln u) ≤ −ln(1 − u), and the bits of a float f read as an integer give e + m ≤ log2 f.
  f32x8 bounds8(int64_t first) const {
    const f32x8 f = toFloat8(0xffffff - bits8(first)) + splat8(0.5f);  // (1 − u) · 2^24
    i32x8 exponentAndFraction;
    memcpy(&exponentAndFraction, &f, 32);
    return splat8(kBoundAtZero) - splat8(kBoundPerBit) * toFloat8(exponentAndFraction);
  }
  float boundOf(int32_t id) const {
    const float f = static_cast<float>(0xffffff - static_cast<int32_t>(wordOf(id) >> 40)) + 0.5f;
    return kBoundAtZero - kBoundPerBit * static_cast<float>(bitsOf(f));
  }

 private:
  static constexpr uint64_t kGamma = 0x9e3779b97f4a7c15u;
  // ln 2 · ((24 + 127) − bits · 2^−23)
  static constexpr float kBoundAtZero = 104.66522f;
  static constexpr float kBoundPerBit = 8.2629582e-8f;

  double uniformOf(int32_t id) const { return (static_cast<double>(wordOf(id) >> 40) + 0.5) * 5.9604644775390625e-8; }

  uint64_t wordOf(int32_t id) const { return mix(atPosition_ + kGamma * (static_cast<uint64_t>(id) + 1)); }

  template <typename Word>
  MILLRACE_INLINE Word mixed(Word z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  static uint64_t mix(uint64_t z) { return mixed(z); }

  // The top 24 bits of the words of ids first … first + 7.
  i32x8 bits8(int64_t first) const {
    const uint64_t start = atPosition_ + kGamma * (static_cast<uint64_t>(first) + 1);
    const u64x4 from = {start, start, start, start};
    // Ids 0 1 4 5 and 2 3 6 7: then taking every second 32-bit lane of both, 128 bits at a time, puts them in order.
    const u64x4 a = mixed(from + u64x4{0, kGamma, 4 * kGamma, 5 * kGamma}) >> 40;
    const u64x4 b = mixed(from + u64x4{2 * kGamma, 3 * kGamma, 6 * kGamma, 7 * kGamma}) >> 40;
#if defined(MILLRACE_ISA_AVX2)
    const __m256 even = _mm256_shuffle_ps(reinterpret_cast<__m256>(a), reinterpret_cast<__m256>(b), 0x88);
    return reinterpret_cast<i32x8>(even);
#else
    i32x8 result;
    for (int i = 0; i < 2; i++) {
      for (int j = 0; j < 2; j++) {
        result[4 * i + j] = static_cast<int32_t>(a[2 * i + j]);
        result[4 * i + 2 + j] = static_cast<int32_t>(b[2 * i + j]);
      }
    }
    return result;
#endif
  }

  uint64_t atPosition_;
};

}  // namespace millrace::MILLRACE_ISA
