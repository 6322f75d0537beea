// Floats of 8 and 4 bits (Open Compute Project's "OFP8" and "Microscaling" specifications, 2023), as KV caches store
// them, and the scales of NVFP4. In caches E4M3 has no infinity and is kept as code · 2^−8, which an f16 holds: 2^-17
// at least and 1.75 at most. Widening is exact; narrowing rounds to nearest even.
#pragma once
#include "simd.h"

namespace millrace::MILLRACE_ISA {

typedef int16_t i16x8 __attribute__((vector_size(16)));

// The code of an E4M3 scale, which has no sign; as in GGML, NaN scales by zero.
MILLRACE_INLINE uint8_t scaleCode(uint8_t byte) { return (byte & 127) == 127 ? 0 : byte & 127; }

// The code of magnitude y <= 1.75, in E4M3 of unit 2^-8; the sign bit is not set.
MILLRACE_INLINE uint8_t magnitudeToE4m3(float y) {
  const uint32_t bits = bitsOf(y);
  // Below 2^-14 a code counts steps of 2^-17: adding 64 leaves their number in the low bits.
  const uint32_t small = bitsOf(y + 64.0f) - 0x42800000u;
  const uint32_t normal = ((bits + 0x7ffffu + ((bits >> 20) & 1u)) >> 20) - (112u << 3);
  return static_cast<uint8_t>(bits < 0x38800000u ? small : normal);
}
// The values of magnitudes' codes, in the same unit; 127, which is NaN elsewhere, is not stored.
struct E4m3Magnitudes {
  float at[128];

  constexpr E4m3Magnitudes() : at() {
    float step = 0x1p-17f;
    for (int exponent = 0; exponent < 16; exponent++) {
      for (int i = 0; i < 8; i++) at[exponent * 8 + i] = static_cast<float>(exponent == 0 ? i : 8 + i) * step;
      if (exponent > 0) step *= 2;
    }
  }
};
constexpr E4m3Magnitudes kE4m3Magnitudes;

// E5M2, the upper half of an f16; beyond its range the largest finite value, as vLLM saturates. NaN stays NaN.
MILLRACE_INLINE uint8_t floatToE5m2(float value) {
  const uint32_t bits = bitsOf(value);
  const uint32_t sign = (bits >> 24) & 0x80u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint8_t>(sign | 0x7fu);
  if (magnitude >= 0x47600000u) return static_cast<uint8_t>(sign | 0x7bu);  // 57344 and above
  // Below 2^-14 a code counts steps of 2^-16.
  if (magnitude < 0x38800000u) return static_cast<uint8_t>(sign | (bitsOf(floatOf(magnitude) + 128.0f) - 0x43000000u));
  return static_cast<uint8_t>(sign | (((magnitude + 0xfffffu + ((magnitude >> 21) & 1u)) >> 21) - (112u << 2)));
}

// E2M1's magnitudes, by code.
constexpr float kE2m1Magnitudes[8] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};

// The code of a magnitude in E2M1, saturated at 6; a tie goes to the even code.
MILLRACE_INLINE uint8_t magnitudeToE2m1(float y) {
  return static_cast<uint8_t>((y > 0.25f) + (y >= 0.75f) + (y > 1.25f) + (y >= 1.75f) + (y > 2.5f) + (y >= 3.5f) + (y > 5.0f));
}

// Eight E4M3 codes, signs included, in units of 2^-8.
MILLRACE_INLINE f32x8 loadE4m3x8(const uint8_t* address) {
  i8x8 codes;
  memcpy(&codes, address, 8);
  const i16x8 halves = __builtin_convertvector(codes, i16x8) << 7 & static_cast<int16_t>(0xbf80);
  return loadHalf8(&halves);
}
MILLRACE_INLINE f32x8 loadE5m2x8(const uint8_t* address) {
  u8x8 codes;
  memcpy(&codes, address, 8);
  const u16x8 halves = __builtin_convertvector(codes, u16x8) << 8;
  return loadHalf8(&halves);
}
// E2M1 codes in the low four bits of each lane.
MILLRACE_INLINE f32x8 fromE2m1x8(i32x8 codes) {
#if defined(MILLRACE_ISA_AVX2)
  const __m256i lanes = reinterpret_cast<__m256i>(codes);
  const __m256 magnitudes = _mm256_permutevar8x32_ps(_mm256_loadu_ps(kE2m1Magnitudes), lanes);
  return _mm256_or_ps(magnitudes, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_srli_epi32(lanes, 3), 31)));
#else
  f32x8 result;
  for (int i = 0; i < 8; i++) {
    const float magnitude = kE2m1Magnitudes[codes[i] & 7];
    result[i] = (codes[i] & 8) != 0 ? -magnitude : magnitude;
  }
  return result;
#endif
}

// Loads of as many codes as a register has lanes; the eights of a Source may lie apart.
#if defined(MILLRACE_ISA_AVX512)
MILLRACE_INLINE Floats fromE4m3s(__m128i codes) {
  const __m256i halves = _mm256_and_si256(_mm256_slli_epi16(_mm256_cvtepi8_epi16(codes), 7), _mm256_set1_epi16(static_cast<int16_t>(0xbf80)));
  return _mm512_cvtph_ps(halves);
}
MILLRACE_INLINE Floats loadE4m3s(Source p) { return fromE4m3s(loadEights(p)); }
MILLRACE_INLINE Floats loadE4m3s(const uint8_t* p) { return fromE4m3s(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))); }
MILLRACE_INLINE Floats fromE5m2s(__m128i codes) { return _mm512_cvtph_ps(_mm256_slli_epi16(_mm256_cvtepu8_epi16(codes), 8)); }
MILLRACE_INLINE Floats loadE5m2s(Source p) { return fromE5m2s(loadEights(p)); }
MILLRACE_INLINE Floats loadE5m2s(const uint8_t* p) { return fromE5m2s(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))); }
MILLRACE_INLINE Floats fromE2m1s(Ints codes) {
  const __m512 table = _mm512_setr_ps(0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6);
  return _mm512_permutexvar_ps(reinterpret_cast<__m512i>(codes), table);
}
// A group of 16 E2M1 codes, of which eight bytes hold the first eight in their low halves: lane i has code i in its low
// four bits.
MILLRACE_INLINE Ints loadNibbles(const uint8_t* group, int64_t) {
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(group));
  return reinterpret_cast<Ints>(_mm512_cvtepu8_epi32(_mm_unpacklo_epi64(bytes, _mm_srli_epi64(bytes, 4))));
}
#else
MILLRACE_INLINE Floats loadE4m3s(Source p) { return loadE4m3x8(p.at); }
MILLRACE_INLINE Floats loadE4m3s(const uint8_t* p) { return loadE4m3x8(p); }
MILLRACE_INLINE Floats loadE5m2s(Source p) { return loadE5m2x8(p.at); }
MILLRACE_INLINE Floats loadE5m2s(const uint8_t* p) { return loadE5m2x8(p); }
MILLRACE_INLINE Floats fromE2m1s(Ints codes) { return fromE2m1x8(codes); }
// Codes [first, first + 8) of a group of 16, first being 0 or 8: eight bytes hold the first eight in their low halves.
MILLRACE_INLINE Ints loadNibbles(const uint8_t* group, int64_t first) { return loadU8x8(group) >> static_cast<int>(first / 2); }
#endif

}  // namespace millrace::MILLRACE_ISA
