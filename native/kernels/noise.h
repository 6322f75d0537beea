// The sampler's noise: a function of (seed, position, token id) only (exactness rule E5), so a token never depends on the batch it was
// drawn in. Two rounds of splitmix64's finaliser (Steele, Lea & Flood, "Fast splittable pseudorandom number generators", 2014), with
// G = 0x9e3779b97f4a7c15 and everything modulo 2^64:
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

  double of(int32_t id) const {
    const uint64_t bits = mix(atPosition_ + kGamma * (static_cast<uint64_t>(id) + 1)) >> 40;
    const double u = (static_cast<double>(bits) + 0.5) * 5.9604644775390625e-8;
    return -logDouble(-logDouble(u));
  }

 private:
  static constexpr uint64_t kGamma = 0x9e3779b97f4a7c15u;

  static uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  uint64_t atPosition_;
};

}  // namespace millrace::MILLRACE_ISA
