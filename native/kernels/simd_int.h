// Integer vectors for packed weights: 32 bytes that are eight rows of four columns, and their products with four columns of one token.
// Sums of products are exact integers, so every instruction set computes the same ones.
#pragma once
#include "simd.h"
#if defined(__SSE2__) && !defined(MILLRACE_ISA_AVX2)
// Every x86-64 CPU has it.
#define MILLRACE_PORTABLE_SSE2
#include <emmintrin.h>
#endif

// Before a loop over a tile. The portable variants have too few registers to gain by unrolling, and it costs minutes of compiling.
#if defined(MILLRACE_ISA_AVX2) || defined(MILLRACE_ISA_NEON)
#define MILLRACE_UNROLL_INT MILLRACE_UNROLL
#else
#define MILLRACE_UNROLL_INT
#endif

namespace millrace::MILLRACE_ISA {

typedef uint8_t u8x32 __attribute__((vector_size(32)));
typedef int16_t i16x16 __attribute__((vector_size(32)));
typedef uint16_t u16x16 __attribute__((vector_size(32)));

#if defined(MILLRACE_ISA_NEON) || defined(MILLRACE_PORTABLE_SSE2)
// The two registers of a vector: rows 0 to 3 and 4 to 7.
template <class Half>
struct Halves {
  Half low;
  Half high;
};
template <class Half, class Whole>
MILLRACE_INLINE Halves<Half> halvesOf(Whole value) {
  Halves<Half> halves;
  memcpy(&halves, &value, 32);
  return halves;
}
template <class Whole, class Half>
MILLRACE_INLINE Whole wholeOf(Half low, Half high) {
  const Halves<Half> halves = {low, high};
  Whole value;
  memcpy(&value, &halves, 32);
  return value;
}
#endif

MILLRACE_INLINE u8x32 loadBytes(const uint8_t* address) {
  u8x32 value;
  memcpy(&value, address, 32);
  return value;
}
MILLRACE_INLINE u8x32 splatByte(uint8_t value) { return u8x32{} + value; }

// Bits of each byte moved down (or up, when negative) by `count`, masked: shifts of 16-bit lanes whose foreign bits the mask drops.
template <int kCount>
MILLRACE_INLINE u8x32 shiftMask(u8x32 bytes, uint8_t mask) {
  u16x16 lanes = reinterpret_cast<u16x16>(bytes);
  if constexpr (kCount > 0) lanes >>= kCount;
  if constexpr (kCount < 0) lanes <<= -kCount;
  return reinterpret_cast<u8x32>(lanes) & splatByte(mask);
}

MILLRACE_INLINE int32_t loadI32(const void* address) {
  int32_t value;
  memcpy(&value, address, 4);
  return value;
}

// Scales of eight rows, ready to multiply partial sums: on AVX2 twice per 32-bit lane, so that one instruction scales and widens.
struct RowScales {
  i32x8 value;
};
#if defined(MILLRACE_ISA_AVX2)
MILLRACE_INLINE RowScales makeScales(i32x8 scales) {
  return {(scales & 0xffff) | (scales << 16)};
}
#else
MILLRACE_INLINE RowScales makeScales(i32x8 scales) { return {scales}; }
#endif

// The scales in eight bytes, one a row.
MILLRACE_INLINE RowScales loadScales(const uint8_t* bytes) {
#if defined(MILLRACE_ISA_AVX2)
  int64_t eight;
  memcpy(&eight, bytes, 8);
  const __m256i twice = _mm256_setr_epi8(0, -1, 0, -1, 1, -1, 1, -1, 2, -1, 2, -1, 3, -1, 3, -1, 4, -1, 4, -1, 5, -1, 5, -1, 6, -1, 6, -1, 7, -1, 7, -1);
  return {reinterpret_cast<i32x8>(_mm256_shuffle_epi8(_mm256_set1_epi64x(eight), twice))};
#else
  return makeScales(loadU8x8(bytes));
#endif
}
// Pairs of i16, one pair a row, from two times eight bytes.
MILLRACE_INLINE i32x8 loadPairs(const uint8_t* bytes) {
#if defined(MILLRACE_ISA_AVX2)
  // Two loads of eight bytes: they may have just been stored, which one of sixteen would have to wait for.
  int64_t low, high;
  memcpy(&low, bytes, 8);
  memcpy(&high, bytes + 8, 8);
  const __m256i spread = _mm256_setr_epi8(0, -1, -1, -1, 1, -1, -1, -1, 2, -1, -1, -1, 3, -1, -1, -1, 4, -1, -1, -1, 5, -1, -1, -1, 6, -1, -1, -1, 7, -1, -1, -1);
  const __m256i upper = _mm256_shuffle_epi8(_mm256_set1_epi64x(high), spread);
  return reinterpret_cast<i32x8>(_mm256_or_si256(_mm256_shuffle_epi8(_mm256_set1_epi64x(low), spread), _mm256_slli_epi32(upper, 16)));
#else
  return loadU8x8(bytes) | (loadU8x8(bytes + 8) << 16);
#endif
}

// Σ over columns of u8 weights · i8 activations for eight rows. On AVX2 the sum is kept in pairs of 16-bit lanes: the callers add up as
// many columns as fit. Unsigned lanes: sums may wrap around as long as they come back (dotOffset).
#if defined(MILLRACE_ISA_AVX2)
struct Dot {
  u16x16 sum;
};
// Four columns of a token, once per row.
struct Columns {
  __m256i value;
};
MILLRACE_INLINE Columns loadColumns(const int8_t* activations) { return {_mm256_set1_epi32(loadI32(activations))}; }
MILLRACE_INLINE void dotAdd(Dot& dot, u8x32 weights, Columns columns) {
  dot.sum += reinterpret_cast<u16x16>(_mm256_maddubs_epi16(reinterpret_cast<__m256i>(weights), columns.value));
}
// The dot of columns whose weights all have 32 taken off them: `offsets` are the two i16 of Block256::offsets16.
MILLRACE_INLINE void dotOffset(Dot& dot, const int16_t* offsets) { dot.sum += reinterpret_cast<u16x16>(_mm256_set1_epi32(loadI32(offsets))); }
MILLRACE_INLINE i32x8 dotTimes(Dot dot, RowScales scales) {
  return reinterpret_cast<i32x8>(_mm256_madd_epi16(reinterpret_cast<__m256i>(dot.sum), reinterpret_cast<__m256i>(scales.value)));
}
MILLRACE_INLINE i32x8 dotSum(Dot dot) {
  return reinterpret_cast<i32x8>(_mm256_madd_epi16(reinterpret_cast<__m256i>(dot.sum), _mm256_set1_epi16(1)));
}
#elif defined(MILLRACE_ISA_NEON)
struct Dot {
  int32x4_t low;
  int32x4_t high;
};
struct Columns {
  int8x16_t value;
};
MILLRACE_INLINE Columns loadColumns(const int8_t* activations) { return {vreinterpretq_s8_s32(vdupq_n_s32(loadI32(activations)))}; }
// Weights are at most 63, so they are i8 as well, and four products fit 16 bits.
MILLRACE_INLINE int32x4_t dotHalf(int32x4_t sum, int8x16_t weights, Columns columns) {
#if defined(MILLRACE_ISA_NEONDOT)
  return vdotq_s32(sum, weights, columns.value);
#else
  const int16x8_t low = vmull_s8(vget_low_s8(weights), vget_low_s8(columns.value));
  const int16x8_t high = vmull_high_s8(weights, columns.value);
  return vpadalq_s16(sum, vpaddq_s16(low, high));
#endif
}
MILLRACE_INLINE void dotAdd(Dot& dot, u8x32 weights, Columns columns) {
  const auto halves = halvesOf<int8x16_t>(weights);
  dot.low = dotHalf(dot.low, halves.low, columns);
  dot.high = dotHalf(dot.high, halves.high, columns);
}
MILLRACE_INLINE void dotOffset(Dot& dot, const int16_t* offsets) {
  const int32x4_t offset = vdupq_n_s32(static_cast<int32_t>(offsets[0]) + offsets[1]);
  dot.low = vaddq_s32(dot.low, offset);
  dot.high = vaddq_s32(dot.high, offset);
}
MILLRACE_INLINE i32x8 dotSum(Dot dot) { return wholeOf<i32x8>(dot.low, dot.high); }
MILLRACE_INLINE i32x8 dotTimes(Dot dot, RowScales scales) { return dotSum(dot) * scales.value; }
#elif defined(MILLRACE_PORTABLE_SSE2)
// [i]: rows 2i and 2i + 1, two sums over two columns each.
struct Dot {
  __m128i pairs[4];
};
// Four columns as i16, twice.
struct Columns {
  __m128i value;
};
MILLRACE_INLINE Columns loadColumns(const int8_t* activations) {
  const __m128i bytes = _mm_set1_epi32(loadI32(activations));
  return {_mm_srai_epi16(_mm_unpacklo_epi8(bytes, bytes), 8)};
}
MILLRACE_INLINE void dotAdd(Dot& dot, u8x32 weights, Columns columns) {
  const auto halves = halvesOf<__m128i>(weights);
  const __m128i zero = _mm_setzero_si128();
  dot.pairs[0] = _mm_add_epi32(dot.pairs[0], _mm_madd_epi16(_mm_unpacklo_epi8(halves.low, zero), columns.value));
  dot.pairs[1] = _mm_add_epi32(dot.pairs[1], _mm_madd_epi16(_mm_unpackhi_epi8(halves.low, zero), columns.value));
  dot.pairs[2] = _mm_add_epi32(dot.pairs[2], _mm_madd_epi16(_mm_unpacklo_epi8(halves.high, zero), columns.value));
  dot.pairs[3] = _mm_add_epi32(dot.pairs[3], _mm_madd_epi16(_mm_unpackhi_epi8(halves.high, zero), columns.value));
}
MILLRACE_INLINE void dotOffset(Dot& dot, const int16_t* offsets) {
  const __m128i offset = _mm_set_epi32(offsets[1], offsets[0], offsets[1], offsets[0]);
  for (__m128i& pair : dot.pairs) pair = _mm_add_epi32(pair, offset);
}
// The sums of the pairs of four rows.
MILLRACE_INLINE __m128i pairSums(__m128i low, __m128i high) {
  const __m128 a = _mm_castsi128_ps(low);
  const __m128 b = _mm_castsi128_ps(high);
  return _mm_add_epi32(_mm_castps_si128(_mm_shuffle_ps(a, b, 0x88)), _mm_castps_si128(_mm_shuffle_ps(a, b, 0xdd)));
}
MILLRACE_INLINE i32x8 dotSum(Dot dot) { return wholeOf<i32x8>(pairSums(dot.pairs[0], dot.pairs[1]), pairSums(dot.pairs[2], dot.pairs[3])); }
MILLRACE_INLINE i32x8 dotTimes(Dot dot, RowScales scales) { return dotSum(dot) * scales.value; }
#else
struct Dot {
  i32x8 sum;
};
struct Columns {
  int32_t value[4];
};
MILLRACE_INLINE Columns loadColumns(const int8_t* activations) { return {{activations[0], activations[1], activations[2], activations[3]}}; }
MILLRACE_INLINE void dotAdd(Dot& dot, u8x32 weights, Columns columns) {
  for (int r = 0; r < 8; r++) {
    int32_t sum = 0;
    for (int j = 0; j < 4; j++) sum += static_cast<int32_t>(weights[4 * r + j]) * columns.value[j];
    dot.sum[r] += sum;
  }
}
MILLRACE_INLINE void dotOffset(Dot& dot, const int16_t* offsets) { dot.sum += static_cast<int32_t>(offsets[0]) + offsets[1]; }
MILLRACE_INLINE i32x8 dotTimes(Dot dot, RowScales scales) { return dot.sum * scales.value; }
MILLRACE_INLINE i32x8 dotSum(Dot dot) { return dot.sum; }
#endif

// Eight rows of two columns: i16 weights, [row][2].
struct WidePair {
  i16x16 value;
};
// 16 bytes of i8.
MILLRACE_INLINE WidePair loadWide(const uint8_t* address) {
#if defined(MILLRACE_ISA_AVX2)
  return {reinterpret_cast<i16x16>(_mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(address))))};
#elif defined(MILLRACE_ISA_NEON)
  const int8x16_t bytes = vreinterpretq_s8_u8(vld1q_u8(address));
  return {wholeOf<i16x16>(vmovl_s8(vget_low_s8(bytes)), vmovl_high_s8(bytes))};
#elif defined(MILLRACE_PORTABLE_SSE2)
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(address));
  return {wholeOf<i16x16>(_mm_srai_epi16(_mm_unpacklo_epi8(bytes, bytes), 8), _mm_srai_epi16(_mm_unpackhi_epi8(bytes, bytes), 8))};
#else
  typedef int8_t i8x16 __attribute__((vector_size(16)));
  i8x16 bytes;
  memcpy(&bytes, address, 16);
  return {__builtin_convertvector(bytes, i16x16)};
#endif
}
// Two i16 columns of a token, once per row.
#if defined(MILLRACE_ISA_AVX2)
struct WideColumns {
  __m256i value;
};
MILLRACE_INLINE WideColumns loadWideColumns(const int16_t* activations) { return {_mm256_set1_epi32(loadI32(activations))}; }
MILLRACE_INLINE i32x8 wideTimes(WidePair weights, WideColumns columns) {
  return reinterpret_cast<i32x8>(_mm256_madd_epi16(reinterpret_cast<__m256i>(weights.value), columns.value));
}
#elif defined(MILLRACE_ISA_NEON)
struct WideColumns {
  int16x8_t value;
};
MILLRACE_INLINE WideColumns loadWideColumns(const int16_t* activations) { return {vreinterpretq_s16_s32(vdupq_n_s32(loadI32(activations)))}; }
MILLRACE_INLINE int32x4_t wideHalf(int16x8_t weights, int16x8_t columns) {
  return vpaddq_s32(vmull_s16(vget_low_s16(weights), vget_low_s16(columns)), vmull_high_s16(weights, columns));
}
MILLRACE_INLINE i32x8 wideTimes(WidePair weights, WideColumns columns) {
  const auto halves = halvesOf<int16x8_t>(weights.value);
  return wholeOf<i32x8>(wideHalf(halves.low, columns.value), wideHalf(halves.high, columns.value));
}
#elif defined(MILLRACE_PORTABLE_SSE2)
struct WideColumns {
  __m128i value;
};
MILLRACE_INLINE WideColumns loadWideColumns(const int16_t* activations) { return {_mm_set1_epi32(loadI32(activations))}; }
MILLRACE_INLINE i32x8 wideTimes(WidePair weights, WideColumns columns) {
  const auto halves = halvesOf<__m128i>(weights.value);
  return wholeOf<i32x8>(_mm_madd_epi16(halves.low, columns.value), _mm_madd_epi16(halves.high, columns.value));
}
#else
struct WideColumns {
  int32_t value[2];
};
MILLRACE_INLINE WideColumns loadWideColumns(const int16_t* activations) { return {{activations[0], activations[1]}}; }
MILLRACE_INLINE i32x8 wideTimes(WidePair weights, WideColumns columns) {
  i32x8 sum;
  for (int r = 0; r < 8; r++) sum[r] = weights.value[2 * r] * columns.value[0] + weights.value[2 * r + 1] * columns.value[1];
  return sum;
}
#endif
// i16 pairs of eight rows times one pair of i16.
MILLRACE_INLINE i32x8 pairTimes(i32x8 pairs, const int16_t* factors) {
  return wideTimes({reinterpret_cast<i16x16>(pairs)}, loadWideColumns(factors));
}

// Bytes looked up in a table of sixteen, by indices 0 to 15.
MILLRACE_INLINE u8x32 lookUp(const int8_t* table, u8x32 indices) {
#if defined(MILLRACE_ISA_AVX2)
  const __m256i both = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
  return reinterpret_cast<u8x32>(_mm256_shuffle_epi8(both, reinterpret_cast<__m256i>(indices)));
#elif defined(MILLRACE_ISA_NEON)
  const int8x16_t values = vld1q_s8(table);
  const auto halves = halvesOf<uint8x16_t>(indices);
  return wholeOf<u8x32>(vqtbl1q_s8(values, halves.low), vqtbl1q_s8(values, halves.high));
#else
  uint8_t stored[32];
  memcpy(stored, &indices, 32);
  for (uint8_t& byte : stored) byte = static_cast<uint8_t>(table[byte]);
  return loadBytes(stored);
#endif
}
// 32 i8, widened.
MILLRACE_INLINE void widen(u8x32 bytes, WidePair* out) {
  uint8_t stored[32];
  memcpy(stored, &bytes, 32);
  out[0] = loadWide(stored);
  out[1] = loadWide(stored + 16);
}

}  // namespace millrace::MILLRACE_ISA
