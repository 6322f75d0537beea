// Eight f32 lanes: AVX2+FMA+F16C intrinsics, two NEON registers, or compiler vectors with the same lane structure; and
// Floats, for lanes that have nothing to do with each other. `fma8` fuses where the target has a fused multiply-add and
// rounds twice elsewhere; either way it is the same for every caller.
#pragma once
#include <cstdint>
#include <cstring>

#include "half.h"
#include "isa.h"
#if defined(MILLRACE_ISA_AVX2)
#if defined(__GNUC__) && !defined(__clang__)
// The compiler's own headers: GCC warns of values that they leave undefined on purpose.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop
#else
#include <immintrin.h>
#endif
#elif defined(MILLRACE_ISA_NEON)
#include <arm_neon.h>
#endif

#define MILLRACE_INLINE static inline __attribute__((always_inline))
#define MILLRACE_MEMBER inline __attribute__((always_inline))
// Before a loop over a tile's registers: only unrolled does its array become registers.
#if defined(__clang__)
#define MILLRACE_UNROLL _Pragma("unroll")
#else
#define MILLRACE_UNROLL _Pragma("GCC unroll 16")
#endif

namespace millrace::MILLRACE_ISA {

typedef float f32x8 __attribute__((vector_size(32)));
typedef float f32x4 __attribute__((vector_size(16)));
typedef double f64x4 __attribute__((vector_size(32)));
typedef uint64_t u64x4 __attribute__((vector_size(32)));
typedef int32_t i32x8 __attribute__((vector_size(32)));
typedef uint32_t u32x8 __attribute__((vector_size(32)));
typedef uint16_t u16x8 __attribute__((vector_size(16)));
typedef uint8_t u8x8 __attribute__((vector_size(8)));
typedef int8_t i8x8 __attribute__((vector_size(8)));

MILLRACE_INLINE f32x8 splat8(float value) { return f32x8{value, value, value, value, value, value, value, value}; }

#if defined(MILLRACE_ISA_NEON)
// The two registers of a vector.
MILLRACE_INLINE float32x4_t lowOf(f32x8 v) { return float32x4_t{v[0], v[1], v[2], v[3]}; }
MILLRACE_INLINE float32x4_t highOf(f32x8 v) { return float32x4_t{v[4], v[5], v[6], v[7]}; }
MILLRACE_INLINE f32x8 joined8(float32x4_t low, float32x4_t high) {
  return f32x8{low[0], low[1], low[2], low[3], high[0], high[1], high[2], high[3]};
}
#endif

MILLRACE_INLINE f32x8 load8(const float* address) {
  f32x8 value;
  memcpy(&value, address, 32);
  return value;
}
MILLRACE_INLINE f32x4 load4(const float* address) {
  f32x4 value;
  memcpy(&value, address, 16);
  return value;
}
MILLRACE_INLINE void store8(float* address, f32x8 value) { memcpy(address, &value, 32); }
MILLRACE_INLINE void store4(float* address, f32x4 value) { memcpy(address, &value, 16); }

// The first `count` (0 to 8) lanes; the others are +0.
MILLRACE_INLINE f32x8 loadPartial8(const float* address, int64_t count) {
#if defined(MILLRACE_ISA_AVX2)
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_maskload_ps(address, _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), lanes));
#else
  f32x8 value{};
  memcpy(&value, address, static_cast<size_t>(count) * 4);
  return value;
#endif
}
MILLRACE_INLINE void storePartial8(float* address, f32x8 value, int64_t count) {
  memcpy(address, &value, static_cast<size_t>(count) * 4);
}

MILLRACE_INLINE f32x8 fma8(f32x8 a, f32x8 b, f32x8 c) {
#if defined(MILLRACE_ISA_AVX2)
  return _mm256_fmadd_ps(a, b, c);
#elif defined(MILLRACE_ISA_NEON)
  return joined8(vfmaq_f32(lowOf(c), lowOf(a), lowOf(b)), vfmaq_f32(highOf(c), highOf(a), highOf(b)));
#elif defined(__FP_FAST_FMAF)
  f32x8 result;
  for (int i = 0; i < 8; i++) result[i] = __builtin_fmaf(a[i], b[i], c[i]);
  return result;
#else
  return a * b + c;
#endif
}

// a · b − c, as fma8.
MILLRACE_INLINE f32x8 fms8(f32x8 a, f32x8 b, f32x8 c) {
#if defined(MILLRACE_ISA_AVX2)
  return _mm256_fmsub_ps(a, b, c);
#else
  return fma8(a, b, -c);
#endif
}

// Where either lane is NaN, the result is the lane of `b`.
MILLRACE_INLINE f32x8 max8(f32x8 a, f32x8 b) {
#if defined(MILLRACE_ISA_AVX2)
  return _mm256_max_ps(a, b);
#else
  return a > b ? a : b;
#endif
}

MILLRACE_INLINE f32x8 min8(f32x8 a, f32x8 b) {
#if defined(MILLRACE_ISA_AVX2)
  return _mm256_min_ps(a, b);
#else
  return a < b ? a : b;
#endif
}

// Bit i is set where lane i of a comparison holds.
MILLRACE_INLINE int moveMask8(i32x8 mask) {
#if defined(MILLRACE_ISA_AVX2)
  return _mm256_movemask_ps(reinterpret_cast<__m256>(mask));
#else
  int bits = 0;
  for (int i = 0; i < 8; i++) bits |= (mask[i] & 1) << i;
  return bits;
#endif
}

// Eight f16 or bf16 values at any alignment, widened.
MILLRACE_INLINE f32x8 loadHalf8(const void* address) {
#if defined(MILLRACE_ISA_AVX2)
  return _mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(address)));
#elif defined(MILLRACE_ISA_NEON)
  const float16x8_t halves = vreinterpretq_f16_u8(vld1q_u8(static_cast<const uint8_t*>(address)));
  return joined8(vcvt_f32_f16(vget_low_f16(halves)), vcvt_high_f32_f16(halves));
#else
  u16x8 halves;
  memcpy(&halves, address, 16);
  const i32x8 bits = __builtin_convertvector(halves, i32x8);
  const i32x8 magnitude = (bits & 0x7fff) << 13;
  // Exponents move from a bias of 15 to one of 127 by a product, which is exact for subnormals too. Infinities and NaN
  // get theirs from the mask.
  const i32x8 scaled = reinterpret_cast<i32x8>(reinterpret_cast<f32x8>(magnitude) * splat8(0x1p112f));
  const i32x8 special = ((magnitude >= 0x0f800000) & 0x7f800000) | ((magnitude > 0x0f800000) & 0x400000);
  return reinterpret_cast<f32x8>(scaled | special | (bits & 0x8000) << 16);
#endif
}
MILLRACE_INLINE f32x8 loadBfloat8(const void* address) {
#if defined(MILLRACE_ISA_AVX2)
  const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(static_cast<const __m128i*>(address)));
  return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
#else
  f32x8 result;
  for (int i = 0; i < 8; i++) result[i] = bfloatToFloat(loadU16(static_cast<const uint8_t*>(address) + 2 * i));
  return result;
#endif
}
// Rounds to nearest even.
MILLRACE_INLINE void storeHalf8(void* address, f32x8 value) {
#if defined(MILLRACE_ISA_AVX2)
  _mm_storeu_si128(static_cast<__m128i*>(address), _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT));
#elif defined(MILLRACE_ISA_NEON)
  vst1q_u8(static_cast<uint8_t*>(address), vreinterpretq_u8_f16(vcvt_high_f16_f32(vcvt_f16_f32(lowOf(value)), highOf(value))));
#else
  for (int i = 0; i < 8; i++) {
    const uint16_t half = floatToHalf(value[i]);
    memcpy(static_cast<uint8_t*>(address) + 2 * i, &half, 2);
  }
#endif
}

// Eight bytes at any alignment, widened.
MILLRACE_INLINE i32x8 loadU8x8(const uint8_t* address) {
#if defined(MILLRACE_ISA_AVX2)
  return reinterpret_cast<i32x8>(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(address))));
#else
  u8x8 bytes;
  memcpy(&bytes, address, 8);
  return __builtin_convertvector(bytes, i32x8);
#endif
}
MILLRACE_INLINE i32x8 loadI8x8(const uint8_t* address) {
#if defined(MILLRACE_ISA_AVX2)
  return reinterpret_cast<i32x8>(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(address))));
#else
  i8x8 bytes;
  memcpy(&bytes, address, 8);
  return __builtin_convertvector(bytes, i32x8);
#endif
}
// table[low nibble], table[high nibble] of eight bytes; a table of 16 values.
MILLRACE_INLINE i32x8 lookUpLow8(const int8_t* table, const uint8_t* bytes) {
#if defined(MILLRACE_ISA_AVX2)
  const __m128i nibbles = _mm_and_si128(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes)), _mm_set1_epi8(15));
  const __m128i values = _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)), nibbles);
  return reinterpret_cast<i32x8>(_mm256_cvtepi8_epi32(values));
#else
  i32x8 result;
  for (int i = 0; i < 8; i++) result[i] = table[bytes[i] & 15];
  return result;
#endif
}
MILLRACE_INLINE i32x8 lookUpHigh8(const int8_t* table, const uint8_t* bytes) {
#if defined(MILLRACE_ISA_AVX2)
  const __m128i pairs = _mm_srli_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes)), 4);
  const __m128i values = _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)), _mm_and_si128(pairs, _mm_set1_epi8(15)));
  return reinterpret_cast<i32x8>(_mm256_cvtepi8_epi32(values));
#else
  i32x8 result;
  for (int i = 0; i < 8; i++) result[i] = table[bytes[i] >> 4];
  return result;
#endif
}
MILLRACE_INLINE f32x8 toFloat8(i32x8 value) { return __builtin_convertvector(value, f32x8); }

// The lower and the upper four lanes.
MILLRACE_INLINE void toDouble4(f32x8 value, f64x4* low, f64x4* high) {
#if defined(MILLRACE_ISA_AVX2)
  *low = _mm256_cvtps_pd(_mm256_castps256_ps128(value));
  *high = _mm256_cvtps_pd(_mm256_extractf128_ps(value, 1));
#else
  *low = f64x4{value[0], value[1], value[2], value[3]};
  *high = f64x4{value[4], value[5], value[6], value[7]};
#endif
}

// Lane sums of four vectors, each ((v0+v1)+(v2+v3)) + ((v4+v5)+(v6+v7)): the one order in which lanes are ever added
// up.
MILLRACE_INLINE f32x4 sum4(f32x8 a, f32x8 b, f32x8 c, f32x8 d) {
#if defined(MILLRACE_ISA_AVX2)
  const __m256 pairs = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
  return _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1));
#elif defined(MILLRACE_ISA_NEON)
  const float32x4_t ab = vpaddq_f32(vpaddq_f32(lowOf(a), highOf(a)), vpaddq_f32(lowOf(b), highOf(b)));
  const float32x4_t cd = vpaddq_f32(vpaddq_f32(lowOf(c), highOf(c)), vpaddq_f32(lowOf(d), highOf(d)));
  return vpaddq_f32(ab, cd);
#else
  const f32x8 v[4] = {a, b, c, d};
  f32x4 sums;
  for (int i = 0; i < 4; i++) {
    sums[i] = ((v[i][0] + v[i][1]) + (v[i][2] + v[i][3])) + ((v[i][4] + v[i][5]) + (v[i][6] + v[i][7]));
  }
  return sums;
#endif
}
MILLRACE_INLINE float sum1(f32x8 v) { return sum4(v, v, v, v)[0]; }
// The largest lane, if none is NaN.
MILLRACE_INLINE float max1(f32x8 v) {
#if defined(MILLRACE_ISA_AVX2)
  __m128 maxima = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  maxima = _mm_max_ps(maxima, _mm_movehl_ps(maxima, maxima));
  return _mm_cvtss_f32(_mm_max_ss(maxima, _mm_movehdup_ps(maxima)));
#else
  float maximum = v[0];
  for (int i = 1; i < 8; i++) maximum = maximum > v[i] ? maximum : v[i];
  return maximum;
#endif
}

// As many lanes as a register has, in eights that may lie apart in memory.
#if defined(MILLRACE_ISA_AVX512)
typedef float Floats __attribute__((vector_size(64)));
typedef int32_t Ints __attribute__((vector_size(64)));
typedef uint32_t UnsignedInts __attribute__((vector_size(64)));
#else
typedef f32x8 Floats;
typedef i32x8 Ints;
typedef u32x8 UnsignedInts;
#endif
constexpr int kLanes = sizeof(Floats) / sizeof(float);
constexpr int kEights = kLanes / 8;

// Where a register's first eight lanes lie, and how far behind them the others.
struct Source {
  const uint8_t* at;
  int64_t pitch;

  Source operator+(int64_t numBytes) const { return {at + numBytes, pitch}; }
};

#if defined(MILLRACE_ISA_AVX512)
MILLRACE_INLINE __m128i loadEights(Source p) {
  const __m128i low = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p.at));
  return _mm_unpacklo_epi64(low, _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p.at + p.pitch)));
}
MILLRACE_INLINE __m256i loadSixteens(Source p) {
  const __m256i low = _mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p.at)));
  return _mm256_inserti128_si256(low, _mm_loadu_si128(reinterpret_cast<const __m128i*>(p.at + p.pitch)), 1);
}
MILLRACE_INLINE __m512i loadThirtyTwos(Source p) {
  const __m512i low = _mm512_castsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p.at)));
  return _mm512_inserti64x4(low, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p.at + p.pitch)), 1);
}
MILLRACE_INLINE Floats loadFloats(Source p) { return reinterpret_cast<Floats>(loadThirtyTwos(p)); }
MILLRACE_INLINE Floats loadHalves(Source p) { return _mm512_cvtph_ps(loadSixteens(p)); }
// Loads one run of memory, where two eights would take two loads and an insertion.
MILLRACE_INLINE Floats loadHalves(const uint8_t* p) { return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))); }
MILLRACE_INLINE Floats loadBfloats(const uint8_t* p) {
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}
MILLRACE_INLINE Ints loadI8s(const uint8_t* p) {
  return reinterpret_cast<Ints>(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
MILLRACE_INLINE Ints loadU8s(Source p) { return reinterpret_cast<Ints>(_mm512_cvtepu8_epi32(loadEights(p))); }
MILLRACE_INLINE Ints loadI8s(Source p) { return reinterpret_cast<Ints>(_mm512_cvtepi8_epi32(loadEights(p))); }
MILLRACE_INLINE Floats splatFloats(float value) { return _mm512_set1_ps(value); }
MILLRACE_INLINE Floats mulAdd(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
MILLRACE_INLINE Floats mulSub(Floats a, Floats b, Floats c) { return _mm512_fmsub_ps(a, b, c); }
MILLRACE_INLINE Floats maxFloats(Floats a, Floats b) { return _mm512_max_ps(a, b); }
MILLRACE_INLINE Floats toFloats(Ints value) { return _mm512_cvtepi32_ps(reinterpret_cast<__m512i>(value)); }
// The first `count` (0 to kLanes) lanes; the others are +0.
MILLRACE_INLINE Floats loadPartial(const float* address, int64_t count) {
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1), address);
}
MILLRACE_INLINE f32x8 lowEight(Floats v) { return static_cast<f32x8>(_mm512_castps512_ps256(v)); }
MILLRACE_INLINE f32x8 highEight(Floats v) { return static_cast<f32x8>(_mm512_extractf32x8_ps(v, 1)); }
// Lane i and lane i + 8 first.
MILLRACE_INLINE f32x8 halved(Floats v) { return lowEight(v) + highEight(v); }
MILLRACE_INLINE f32x4 sum4(Floats a, Floats b, Floats c, Floats d) { return sum4(halved(a), halved(b), halved(c), halved(d)); }
// [v0 + v1, v2 + v3, w0 + w1, w2 + w3] of each four lanes.
MILLRACE_INLINE Floats addPairs(Floats v, Floats w) { return _mm512_shuffle_ps(v, w, 0x88) + _mm512_shuffle_ps(v, w, 0xdd); }
// sum4 of a and of b, side by side.
MILLRACE_INLINE void sum4Twice(const Floats* a, const Floats* b, f32x4* sumsA, f32x4* sumsB) {
  Floats halves[4];
  MILLRACE_UNROLL
  for (int r = 0; r < 4; r++) halves[r] = _mm512_shuffle_f32x4(a[r], b[r], 0x44) + _mm512_shuffle_f32x4(a[r], b[r], 0xee);
  const Floats pairs = addPairs(addPairs(halves[0], halves[1]), addPairs(halves[2], halves[3]));
  const Floats sums = pairs + _mm512_shuffle_f32x4(pairs, pairs, 0xb1);
  *sumsA = _mm512_castps512_ps128(sums);
  *sumsB = _mm512_extractf32x4_ps(sums, 2);
}
MILLRACE_INLINE float sum1(Floats v) { return sum1(halved(v)); }
MILLRACE_INLINE float max1(Floats v) { return max1(max8(lowEight(v), highEight(v))); }
#else
MILLRACE_INLINE Floats loadFloats(Source p) { return load8(reinterpret_cast<const float*>(p.at)); }
MILLRACE_INLINE Floats loadHalves(Source p) { return loadHalf8(p.at); }
MILLRACE_INLINE Ints loadU8s(Source p) { return loadU8x8(p.at); }
MILLRACE_INLINE Ints loadI8s(Source p) { return loadI8x8(p.at); }
MILLRACE_INLINE Floats splatFloats(float value) { return splat8(value); }
MILLRACE_INLINE Floats mulAdd(Floats a, Floats b, Floats c) { return fma8(a, b, c); }
MILLRACE_INLINE Floats mulSub(Floats a, Floats b, Floats c) { return fms8(a, b, c); }
MILLRACE_INLINE Floats maxFloats(Floats a, Floats b) { return max8(a, b); }
MILLRACE_INLINE Floats toFloats(Ints value) { return toFloat8(value); }
MILLRACE_INLINE Floats loadHalves(const uint8_t* p) { return loadHalf8(p); }
MILLRACE_INLINE Floats loadBfloats(const uint8_t* p) { return loadBfloat8(p); }
MILLRACE_INLINE Ints loadI8s(const uint8_t* p) { return loadI8x8(p); }
MILLRACE_INLINE void sum4Twice(const Floats* a, const Floats* b, f32x4* sumsA, f32x4* sumsB) {
  *sumsA = sum4(a[0], a[1], a[2], a[3]);
  *sumsB = sum4(b[0], b[1], b[2], b[3]);
}
MILLRACE_INLINE Floats loadPartial(const float* address, int64_t count) { return loadPartial8(address, count); }
#endif
MILLRACE_INLINE Floats loadFloats(const float* address) {
  Floats value;
  memcpy(&value, address, sizeof value);
  return value;
}
MILLRACE_INLINE void storeFloats(float* address, Floats value) { memcpy(address, &value, sizeof value); }

}  // namespace millrace::MILLRACE_ISA
