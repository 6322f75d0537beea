// Products of bfloat16 pairs in f32: an instruction (dpbf16) that takes subnormals for zeros, or two fused
// multiply-adds.
#pragma once
#include "simd.h"

namespace millrace::MILLRACE_ISA {

// Columns of pairs of bfloat16, the even one in the low half, as f32.
MILLRACE_INLINE Floats evenOf(UnsignedInts pairs) { return reinterpret_cast<Floats>(pairs << 16); }
MILLRACE_INLINE Floats oddOf(UnsignedInts pairs) { return reinterpret_cast<Floats>(pairs & 0xffff0000u); }

// Two bfloat16 a lane: the even column in the low half.
#if defined(MILLRACE_ISA_AVX512BF16)
typedef __m512bh BfloatPairs;
MILLRACE_INLINE BfloatPairs loadBfloatPairs(const uint8_t* p) { return reinterpret_cast<BfloatPairs>(_mm512_loadu_si512(p)); }
// The same two columns in each lane.
MILLRACE_INLINE BfloatPairs splatPair(const void* p) {
  int32_t pair;
  memcpy(&pair, p, 4);
  return reinterpret_cast<BfloatPairs>(_mm512_set1_epi32(pair));
}
// sum + products of the odd columns, then of the even ones.
MILLRACE_INLINE Floats addProducts(BfloatPairs a, BfloatPairs b, Floats sum) { return _mm512_dpbf16_ps(sum, a, b); }
#else
typedef UnsignedInts BfloatPairs;
MILLRACE_INLINE BfloatPairs loadBfloatPairs(const uint8_t* p) {
  BfloatPairs pairs;
  memcpy(&pairs, p, sizeof pairs);
  return pairs;
}
// The same two columns in each lane.
MILLRACE_INLINE BfloatPairs splatPair(const void* p) {
  uint32_t pair;
  memcpy(&pair, p, 4);
  return BfloatPairs{} + pair;
}
// sum + products of the odd columns, then of the even ones.
MILLRACE_INLINE Floats addProducts(BfloatPairs a, BfloatPairs b, Floats sum) { return mulAdd(evenOf(a), evenOf(b), mulAdd(oddOf(a), oddOf(b), sum)); }
#endif

}  // namespace millrace::MILLRACE_ISA
