// Integer vectors for packed weights: bytes that are eight (on AVX-512 twice eight) rows of four columns, and their
// products with four columns of one token. Sums of products are exact integers, so every instruction set computes the
// same ones.
#pragma once
#include "simd.h"
#if defined(__SSE2__) && !defined(MILLRACE_ISA_AVX2)
// Every x86-64 CPU has it.
#define MILLRACE_PORTABLE_SSE2
#include <emmintrin.h>
#endif

// Before a loop over a tile. The portable variants have too few registers to gain by unrolling, and it costs minutes of
// compiling.
#if defined(MILLRACE_ISA_AVX2) || defined(MILLRACE_ISA_NEON)
#define MILLRACE_UNROLL_INT MILLRACE_UNROLL
#else
#define MILLRACE_UNROLL_INT
#endif

namespace millrace::MILLRACE_ISA {

typedef uint8_t Bytes __attribute__((vector_size(4 * kLanes)));
typedef int16_t Shorts __attribute__((vector_size(4 * kLanes)));
typedef uint16_t UnsignedShorts __attribute__((vector_size(4 * kLanes)));

#if defined(MILLRACE_ISA_AVX512)
typedef __m512i Register;
#define MILLRACE_MM(name) _mm512_##name
MILLRACE_INLINE Bytes loadBytes(Source p) { return reinterpret_cast<Bytes>(loadThirtyTwos(p)); }
#else
#if defined(MILLRACE_ISA_AVX2)
typedef __m256i Register;
#define MILLRACE_MM(name) _mm256_##name
#endif
MILLRACE_INLINE Bytes loadBytes(const uint8_t* address) {
  Bytes value;
  memcpy(&value, address, sizeof value);
  return value;
}
MILLRACE_INLINE Bytes loadBytes(Source p) { return loadBytes(p.at); }
#endif

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

MILLRACE_INLINE Bytes splatByte(uint8_t value) { return Bytes{} + value; }

// Bits of each byte moved down (or up, when negative) by `count`, masked: shifts of 16-bit lanes whose foreign bits the
// mask drops.
template <int kCount>
MILLRACE_INLINE Bytes shiftMask(Bytes bytes, uint8_t mask) {
  UnsignedShorts lanes = reinterpret_cast<UnsignedShorts>(bytes);
  if constexpr (kCount > 0) lanes >>= kCount;
  if constexpr (kCount < 0) lanes <<= -kCount;
  return reinterpret_cast<Bytes>(lanes) & splatByte(mask);
}

MILLRACE_INLINE int32_t loadI32(const void* address) {
  int32_t value;
  memcpy(&value, address, 4);
  return value;
}

// x86 without VNNI adds up products in pairs of 16-bit lanes; others have sums of 32 bits.
#if defined(MILLRACE_ISA_AVX2) && !defined(MILLRACE_ISA_AVX512VNNI)
#define MILLRACE_PAIR_SUMS
constexpr bool kHasWideSums = false;
#else
constexpr bool kHasWideSums = true;
#endif

// Scales of rows, ready to multiply partial sums: those of pairs twice per 32-bit lane, so that one instruction scales
// and widens.
struct RowScales {
  Ints value;
};
MILLRACE_INLINE RowScales makeScales(Ints scales) {
#if defined(MILLRACE_PAIR_SUMS)
  return {(scales & 0xffff) | (scales << 16)};
#else
  return {scales};
#endif
}

// Eight times six bits a row, by sub-block (packed.h); scalesOf() gives them as scales, valuesOf() as integers,
// pairsOf() those of sub-blocks 2p and 2p + 1 as pairs of i16.
#if defined(MILLRACE_ISA_AVX512)
// 16 bytes are the rows' values of sub-block 2i in `even`, 2i + 1 in `odd`.
struct Sixes {
  __m512i even;
  __m512i odd;
};
MILLRACE_INLINE Sixes unpackSixes(Source p) {
  const __m512i interleave = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
  const __m512i low = _mm512_permutexvar_epi64(interleave, reinterpret_cast<__m512i>(loadBytes(p)));
  // Bytes of sub-blocks 0 to 3 in the first two quarters, of 4 to 7 in the others.
  const __m512i both = _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 0, 2, 1, 3, 1, 3), _mm512_castsi256_si512(loadSixteens(p + 32)));
  const __m512i upper = _mm512_srlv_epi64(both, _mm512_setr_epi64(0, 0, 4, 4, 0, 0, 4, 4));
  const __m512i four = _mm512_set1_epi8(15);
  const __m512i two = _mm512_set1_epi8(48);
  return {(low & four) | (_mm512_slli_epi16(upper, 4) & two), (_mm512_srli_epi16(low, 4) & four) | (_mm512_slli_epi16(upper, 2) & two)};
}
MILLRACE_INLINE Ints quarterOf(__m512i bytes, int index) {
  const __m128i quarter = index == 0   ? _mm512_castsi512_si128(bytes)
                          : index == 1 ? _mm512_extracti32x4_epi32(bytes, 1)
                          : index == 2 ? _mm512_extracti32x4_epi32(bytes, 2)
                                       : _mm512_extracti32x4_epi32(bytes, 3);
  return reinterpret_cast<Ints>(_mm512_cvtepu8_epi32(quarter));
}
MILLRACE_INLINE Ints valuesOf(const Sixes& sixes, int s) { return quarterOf(s % 2 == 0 ? sixes.even : sixes.odd, s / 2); }
MILLRACE_INLINE RowScales scalesOf(const Sixes& sixes, int s) { return makeScales(valuesOf(sixes, s)); }
MILLRACE_INLINE Ints pairsOf(const Sixes& sixes, int p) { return quarterOf(sixes.even, p) | (quarterOf(sixes.odd, p) << 16); }
#else
struct Sixes {
  uint8_t values[8][8];
};
MILLRACE_INLINE Sixes unpackSixes(Source p) {
  uint64_t low[4], high[2];
  memcpy(low, p.at, 32);
  memcpy(high, p.at + 32, 16);
  constexpr uint64_t kFours = 0x0f0f0f0f0f0f0f0fu;
  constexpr uint64_t kTwos = 0x3030303030303030u;
  Sixes sixes;
  MILLRACE_UNROLL_INT
  for (int s = 0; s < 8; s++) {
    const uint64_t upper = s % 4 < 2 ? high[s / 4] << (4 - 2 * (s % 4)) : high[s / 4] >> (2 * (s % 4) - 4);
    const uint64_t value = ((low[s / 2] >> (4 * (s % 2))) & kFours) | (upper & kTwos);
    memcpy(sixes.values[s], &value, 8);
  }
  return sixes;
}
MILLRACE_INLINE Ints valuesOf(const Sixes& sixes, int s) { return loadU8x8(sixes.values[s]); }
MILLRACE_INLINE RowScales scalesOf(const Sixes& sixes, int s) {
#if defined(MILLRACE_ISA_AVX2)
  int64_t eight;
  memcpy(&eight, sixes.values[s], 8);
  const __m256i twice = _mm256_setr_epi8(0, -1, 0, -1, 1, -1, 1, -1, 2, -1, 2, -1, 3, -1, 3, -1, 4, -1, 4, -1, 5, -1, 5, -1, 6, -1, 6, -1, 7, -1, 7, -1);
  return {reinterpret_cast<i32x8>(_mm256_shuffle_epi8(_mm256_set1_epi64x(eight), twice))};
#else
  return makeScales(valuesOf(sixes, s));
#endif
}
MILLRACE_INLINE Ints pairsOf(const Sixes& sixes, int p) {
#if defined(MILLRACE_ISA_AVX2)
  // Two loads of eight bytes: they were just stored, which one of sixteen would have to wait for.
  int64_t low, high;
  memcpy(&low, sixes.values[2 * p], 8);
  memcpy(&high, sixes.values[2 * p + 1], 8);
  const __m256i spread = _mm256_setr_epi8(0, -1, -1, -1, 1, -1, -1, -1, 2, -1, -1, -1, 3, -1, -1, -1, 4, -1, -1, -1, 5, -1, -1, -1, 6, -1, -1, -1, 7, -1, -1, -1);
  const __m256i upper = _mm256_shuffle_epi8(_mm256_set1_epi64x(high), spread);
  return reinterpret_cast<i32x8>(_mm256_or_si256(_mm256_shuffle_epi8(_mm256_set1_epi64x(low), spread), _mm256_slli_epi32(upper, 16)));
#else
  return valuesOf(sixes, 2 * p) | (valuesOf(sixes, 2 * p + 1) << 16);
#endif
}
#endif

// Σ over columns of u8 weights · i8 activations for a vector's rows. Of pairs, the callers add up as many columns as
// fit. Unsigned lanes: sums may wrap around as long as they come back (dotOffset).
#if defined(MILLRACE_ISA_AVX2)
// Four columns of a token, once per row.
struct Columns {
  Register value;
};
MILLRACE_INLINE Columns loadColumns(const int8_t* activations) { return {MILLRACE_MM(set1_epi32)(loadI32(activations))}; }
#endif
#if defined(MILLRACE_ISA_AVX512VNNI)
struct Dot {
  Register sum;
};
MILLRACE_INLINE void dotAdd(Dot& dot, Bytes weights, Columns columns) {
  dot.sum = _mm512_dpbusd_epi32(dot.sum, reinterpret_cast<__m512i>(weights), columns.value);
}
MILLRACE_INLINE Ints dotSum(Dot dot) { return reinterpret_cast<Ints>(dot.sum); }
MILLRACE_INLINE Ints dotTimes(Dot dot, RowScales scales) { return dotSum(dot) * scales.value; }
#elif defined(MILLRACE_PAIR_SUMS)
struct Dot {
  UnsignedShorts sum;
};
MILLRACE_INLINE void dotAdd(Dot& dot, Bytes weights, Columns columns) {
  dot.sum += reinterpret_cast<UnsignedShorts>(MILLRACE_MM(maddubs_epi16)(reinterpret_cast<Register>(weights), columns.value));
}
// The sums of columns whose weights all have 32 taken off them: `offsets` are the two i16 of Block256::offsets16.
MILLRACE_INLINE void dotOffset(Dot& dot, const int16_t* offsets) {
  dot.sum += reinterpret_cast<UnsignedShorts>(MILLRACE_MM(set1_epi32)(loadI32(offsets)));
}
MILLRACE_INLINE Ints dotTimes(Dot dot, RowScales scales) {
  return reinterpret_cast<Ints>(MILLRACE_MM(madd_epi16)(reinterpret_cast<Register>(dot.sum), reinterpret_cast<Register>(scales.value)));
}
MILLRACE_INLINE Ints dotSum(Dot dot) {
  return reinterpret_cast<Ints>(MILLRACE_MM(madd_epi16)(reinterpret_cast<Register>(dot.sum), MILLRACE_MM(set1_epi16)(1)));
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
// Weights are at most 86, so they are i8 as well, and two products fit 16 bits.
MILLRACE_INLINE int32x4_t dotHalf(int32x4_t sum, int8x16_t weights, Columns columns) {
#if defined(MILLRACE_ISA_NEONDOT)
  return vdotq_s32(sum, weights, columns.value);
#else
  const int16x8_t low = vmull_s8(vget_low_s8(weights), vget_low_s8(columns.value));
  const int16x8_t high = vmull_high_s8(weights, columns.value);
  return vpadalq_s16(sum, vpaddq_s16(low, high));
#endif
}
MILLRACE_INLINE void dotAdd(Dot& dot, Bytes weights, Columns columns) {
  const auto halves = halvesOf<int8x16_t>(weights);
  dot.low = dotHalf(dot.low, halves.low, columns);
  dot.high = dotHalf(dot.high, halves.high, columns);
}
MILLRACE_INLINE Ints dotSum(Dot dot) { return wholeOf<Ints>(dot.low, dot.high); }
MILLRACE_INLINE Ints dotTimes(Dot dot, RowScales scales) { return dotSum(dot) * scales.value; }
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
MILLRACE_INLINE void dotAdd(Dot& dot, Bytes weights, Columns columns) {
  const auto halves = halvesOf<__m128i>(weights);
  const __m128i zero = _mm_setzero_si128();
  dot.pairs[0] = _mm_add_epi32(dot.pairs[0], _mm_madd_epi16(_mm_unpacklo_epi8(halves.low, zero), columns.value));
  dot.pairs[1] = _mm_add_epi32(dot.pairs[1], _mm_madd_epi16(_mm_unpackhi_epi8(halves.low, zero), columns.value));
  dot.pairs[2] = _mm_add_epi32(dot.pairs[2], _mm_madd_epi16(_mm_unpacklo_epi8(halves.high, zero), columns.value));
  dot.pairs[3] = _mm_add_epi32(dot.pairs[3], _mm_madd_epi16(_mm_unpackhi_epi8(halves.high, zero), columns.value));
}
// The sums of the pairs of four rows.
MILLRACE_INLINE __m128i pairSums(__m128i low, __m128i high) {
  const __m128 a = _mm_castsi128_ps(low);
  const __m128 b = _mm_castsi128_ps(high);
  return _mm_add_epi32(_mm_castps_si128(_mm_shuffle_ps(a, b, 0x88)), _mm_castps_si128(_mm_shuffle_ps(a, b, 0xdd)));
}
MILLRACE_INLINE Ints dotSum(Dot dot) { return wholeOf<Ints>(pairSums(dot.pairs[0], dot.pairs[1]), pairSums(dot.pairs[2], dot.pairs[3])); }
MILLRACE_INLINE Ints dotTimes(Dot dot, RowScales scales) { return dotSum(dot) * scales.value; }
#else
struct Dot {
  Ints sum;
};
struct Columns {
  int32_t value[4];
};
MILLRACE_INLINE Columns loadColumns(const int8_t* activations) { return {{activations[0], activations[1], activations[2], activations[3]}}; }
MILLRACE_INLINE void dotAdd(Dot& dot, Bytes weights, Columns columns) {
  for (int r = 0; r < 8; r++) {
    int32_t sum = 0;
    for (int j = 0; j < 4; j++) sum += static_cast<int32_t>(weights[4 * r + j]) * columns.value[j];
    dot.sum[r] += sum;
  }
}
MILLRACE_INLINE Ints dotTimes(Dot dot, RowScales scales) { return dot.sum * scales.value; }
MILLRACE_INLINE Ints dotSum(Dot dot) { return dot.sum; }
#endif

// The same where weights use all eight bits: their products are too large for pairs of 16-bit lanes, and they are no
// i8.
#if defined(MILLRACE_PAIR_SUMS)
struct ByteDot {
  Ints sum;
};
MILLRACE_INLINE void dotAdd(ByteDot& dot, Bytes weights, Columns columns) {
  // Columns 0 and 2 of each row, then 1 and 3, as 16-bit lanes.
  const Shorts evens = reinterpret_cast<Shorts>(columns.value) << 8 >> 8;
  const Shorts odds = reinterpret_cast<Shorts>(columns.value) >> 8;
  const UnsignedShorts lanes = reinterpret_cast<UnsignedShorts>(weights);
  dot.sum += reinterpret_cast<Ints>(MILLRACE_MM(madd_epi16)(reinterpret_cast<Register>(lanes & 255), reinterpret_cast<Register>(evens)));
  dot.sum += reinterpret_cast<Ints>(MILLRACE_MM(madd_epi16)(reinterpret_cast<Register>(lanes >> 8), reinterpret_cast<Register>(odds)));
}
MILLRACE_INLINE Ints dotSum(ByteDot dot) { return dot.sum; }
#elif defined(MILLRACE_ISA_NEON)
// Dot products of the weights' upper seven bits, and of their lowest bit.
struct ByteDot {
  Dot halves;
  Dot units;
};
MILLRACE_INLINE void dotAdd(ByteDot& dot, Bytes weights, Columns columns) {
  dotAdd(dot.halves, shiftMask<1>(weights, 127), columns);
  dotAdd(dot.units, weights & splatByte(1), columns);
}
MILLRACE_INLINE Ints dotSum(ByteDot dot) { return dotSum(dot.halves) * 2 + dotSum(dot.units); }
#else
using ByteDot = Dot;
#endif

// Two chunks of eight rows' two columns each, as eight rows of four.
MILLRACE_INLINE Bytes loadPairs(Source p) {
#if defined(MILLRACE_ISA_AVX512)
  alignas(64) static constexpr int16_t kOrder[32] = {0,  8,  1,  9,  2,  10, 3,  11, 4,  12, 5,  13, 6,  14, 7,  15,
                                                     16, 24, 17, 25, 18, 26, 19, 27, 20, 28, 21, 29, 22, 30, 23, 31};
  const __m512i order = _mm512_load_si512(kOrder);
  return reinterpret_cast<Bytes>(_mm512_permutexvar_epi16(order, reinterpret_cast<__m512i>(loadBytes(p))));
#elif defined(MILLRACE_ISA_AVX2)
  // Rows 0 to 3 of both chunks, then 4 to 7.
  const __m256i halves = _mm256_permute4x64_epi64(reinterpret_cast<__m256i>(loadBytes(p)), 0xd8);
  const __m256i order = _mm256_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15, 0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15);
  return reinterpret_cast<Bytes>(_mm256_shuffle_epi8(halves, order));
#else
  uint16_t chunks[16], rows[16];
  memcpy(chunks, p.at, 32);
  for (int r = 0; r < 8; r++) {
    rows[2 * r] = chunks[r];
    rows[2 * r + 1] = chunks[8 + r];
  }
  Bytes value;
  memcpy(&value, rows, 32);
  return value;
#endif
}

// Rows of two columns: i16 weights, [row][2].
struct WidePair {
  Shorts value;
};
#if defined(MILLRACE_ISA_AVX512)
// 16 bytes of i8 of each eight rows.
MILLRACE_INLINE WidePair loadWide(Source p) { return {reinterpret_cast<Shorts>(_mm512_cvtepi8_epi16(loadSixteens(p)))}; }
#else
MILLRACE_INLINE WidePair loadWide(const uint8_t* address) {
#if defined(MILLRACE_ISA_AVX2)
  return {reinterpret_cast<Shorts>(_mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(address))))};
#elif defined(MILLRACE_ISA_NEON)
  const int8x16_t bytes = vreinterpretq_s8_u8(vld1q_u8(address));
  return {wholeOf<Shorts>(vmovl_s8(vget_low_s8(bytes)), vmovl_high_s8(bytes))};
#elif defined(MILLRACE_PORTABLE_SSE2)
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(address));
  return {wholeOf<Shorts>(_mm_srai_epi16(_mm_unpacklo_epi8(bytes, bytes), 8), _mm_srai_epi16(_mm_unpackhi_epi8(bytes, bytes), 8))};
#else
  typedef int8_t i8x16 __attribute__((vector_size(16)));
  i8x16 bytes;
  memcpy(&bytes, address, 16);
  return {__builtin_convertvector(bytes, Shorts)};
#endif
}
MILLRACE_INLINE WidePair loadWide(Source p) { return loadWide(p.at); }
#endif
// Two i16 columns of a token, once per row.
#if defined(MILLRACE_ISA_AVX2)
struct WideColumns {
  Register value;
};
MILLRACE_INLINE WideColumns loadWideColumns(const int16_t* activations) { return {MILLRACE_MM(set1_epi32)(loadI32(activations))}; }
MILLRACE_INLINE void wideAdd(Ints& sum, WidePair weights, WideColumns columns) {
#if defined(MILLRACE_ISA_AVX512VNNI)
  sum = reinterpret_cast<Ints>(_mm512_dpwssd_epi32(reinterpret_cast<__m512i>(sum), reinterpret_cast<__m512i>(weights.value), columns.value));
#else
  sum += reinterpret_cast<Ints>(MILLRACE_MM(madd_epi16)(reinterpret_cast<Register>(weights.value), columns.value));
#endif
}
#elif defined(MILLRACE_ISA_NEON)
struct WideColumns {
  int16x8_t value;
};
MILLRACE_INLINE WideColumns loadWideColumns(const int16_t* activations) { return {vreinterpretq_s16_s32(vdupq_n_s32(loadI32(activations)))}; }
MILLRACE_INLINE int32x4_t wideHalf(int16x8_t weights, int16x8_t columns) {
  return vpaddq_s32(vmull_s16(vget_low_s16(weights), vget_low_s16(columns)), vmull_high_s16(weights, columns));
}
MILLRACE_INLINE void wideAdd(Ints& sum, WidePair weights, WideColumns columns) {
  const auto halves = halvesOf<int16x8_t>(weights.value);
  sum += wholeOf<Ints>(wideHalf(halves.low, columns.value), wideHalf(halves.high, columns.value));
}
#elif defined(MILLRACE_PORTABLE_SSE2)
struct WideColumns {
  __m128i value;
};
MILLRACE_INLINE WideColumns loadWideColumns(const int16_t* activations) { return {_mm_set1_epi32(loadI32(activations))}; }
MILLRACE_INLINE void wideAdd(Ints& sum, WidePair weights, WideColumns columns) {
  const auto halves = halvesOf<__m128i>(weights.value);
  sum += wholeOf<Ints>(_mm_madd_epi16(halves.low, columns.value), _mm_madd_epi16(halves.high, columns.value));
}
#else
struct WideColumns {
  int32_t value[2];
};
MILLRACE_INLINE WideColumns loadWideColumns(const int16_t* activations) { return {{activations[0], activations[1]}}; }
MILLRACE_INLINE void wideAdd(Ints& sum, WidePair weights, WideColumns columns) {
  for (int r = 0; r < 8; r++) sum[r] += weights.value[2 * r] * columns.value[0] + weights.value[2 * r + 1] * columns.value[1];
}
#endif

// Bytes looked up in a table of sixteen, by indices 0 to 15.
MILLRACE_INLINE Bytes lookUp(const int8_t* table, Bytes indices) {
#if defined(MILLRACE_ISA_AVX512)
  const __m512i all = _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
  return reinterpret_cast<Bytes>(_mm512_shuffle_epi8(all, reinterpret_cast<__m512i>(indices)));
#elif defined(MILLRACE_ISA_AVX2)
  const __m256i both = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
  return reinterpret_cast<Bytes>(_mm256_shuffle_epi8(both, reinterpret_cast<__m256i>(indices)));
#elif defined(MILLRACE_ISA_NEON)
  const int8x16_t values = vld1q_s8(table);
  const auto halves = halvesOf<uint8x16_t>(indices);
  return wholeOf<Bytes>(vqtbl1q_s8(values, halves.low), vqtbl1q_s8(values, halves.high));
#else
  uint8_t stored[32];
  memcpy(stored, &indices, 32);
  for (uint8_t& byte : stored) byte = static_cast<uint8_t>(table[byte]);
  return loadBytes(stored);
#endif
}
// i8, widened: the first sixteen of each group, then the others.
MILLRACE_INLINE void widen(Bytes bytes, WidePair* out) {
  uint8_t stored[sizeof bytes];
  memcpy(stored, &bytes, sizeof bytes);
  out[0] = loadWide(Source{stored, 32});
  out[1] = loadWide(Source{stored + 16, 32});
}

}  // namespace millrace::MILLRACE_ISA
