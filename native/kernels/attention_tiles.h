// The register tiles of pagedAttention: stored K and V widened to f32 an octet at a time, scores of a few queries against octets of keys,
// and weighted sums of values. Every output has its own chain of multiply-adds, over the head dimension for a score and over the entries
// for a value, so that tiling changes no bit.
#pragma once
#include "kernel.h"
#include "simd.h"

namespace millrace::MILLRACE_ISA {

// Queries that share the registers of a tile, and octets (or vectors of the head dimension) side by side: 12 accumulators.
constexpr int kTileQueries = 3;
constexpr int kTileVectors = 4;
// Octets that are widened at once and stay in the first-level cache while all queries pass over them.
constexpr int64_t kChunkOctets = 4;
// Floats from one query's weights to the next one's: off a power of two, which would put them all into the same cache sets.
constexpr int64_t kScorePitch = kAttentionPart + 8;

// Bytes of eight stored values.
constexpr int64_t vectorBytes(KvType type) { return type == KvType::f16 ? 16 : type == KvType::f32 ? 32 : 8; }

// Eight stored values, widened; of int8 without their scale.
template <KvType kType>
MILLRACE_INLINE f32x8 loadStored8(const uint8_t* values) {
  if (kType == KvType::f16) return loadHalf8(values);
  if (kType == KvType::int8) return toFloat8(loadI8x8(values));
  return load8(reinterpret_cast<const float*>(values));
}

// `numVectors` stored vectors, widened, times `scale`. Asks for as much of `next` (null: nothing) as it reads itself, line by line between
// the vectors: blocks lie scattered, which hardware prefetchers do not follow, and many lines at once would stall.
template <KvType kType>
static inline void widenVectors(const uint8_t* stored, const uint8_t* next, int64_t numVectors, f32x8 scale, float* out) {
  constexpr int64_t kLineVectors = 64 / vectorBytes(kType);
  for (int64_t i = 0; i < numVectors; i++) {
    if (i % kLineVectors == 0 && next != nullptr) __builtin_prefetch(next + vectorBytes(kType) * i);
    const f32x8 vector = loadStored8<kType>(stored + vectorBytes(kType) * i);
    store8(out + 8 * i, kType == KvType::int8 ? vector * scale : vector);
  }
}

// keys: one stored octet [headDim, 8] → out [headDim, 8].
template <KvType kType>
static inline void widenKeys(const KvGeometry& kv, const uint8_t* keys, const uint8_t* next, float* out) {
  const f32x8 scales = kType == KvType::int8 ? loadStored8<KvType::f32>(keys + kv.scalesOffset()) : zero8();
  widenVectors<kType>(keys, next, kv.headDim, scales, out);
}

// values: one stored octet [8, headDim] → out [8, paddedDim], padded with zeros.
template <KvType kType>
static inline void widenValues(const KvGeometry& kv, const uint8_t* values, const uint8_t* next, float* out, int64_t paddedDim) {
  const int64_t rowBytes = kv.headDim * vectorBytes(kType) / 8;
  const int64_t numVectors = kv.headDim / 8;
  const int64_t tailBytes = rowBytes - numVectors * vectorBytes(kType);
  if (tailBytes == 0 && kType != KvType::int8) return widenVectors<kType>(values, next, 8 * numVectors, zero8(), out);
  for (int64_t e = 0; e < 8; e++, out += paddedDim) {
    const uint8_t* row = values + e * rowBytes;
    float factor = 1.0f;
    if (kType == KvType::int8) memcpy(&factor, values + kv.scalesOffset() + 4 * e, 4);
    widenVectors<kType>(row, next == nullptr ? nullptr : next + e * rowBytes, numVectors, splat8(factor), out);
    if (tailBytes == 0) continue;
    uint8_t padded[32] = {};
    memcpy(padded, row + rowBytes - tailBytes, static_cast<size_t>(tailBytes));
    widenVectors<kType>(padded, nullptr, 1, splat8(factor), out + 8 * numVectors);
  }
}

static inline void widenKeys(const KvGeometry& kv, const uint8_t* keys, const uint8_t* next, float* out) {
  if (kv.type == KvType::f16) widenKeys<KvType::f16>(kv, keys, next, out);
  else if (kv.type == KvType::int8) widenKeys<KvType::int8>(kv, keys, next, out);
  else widenKeys<KvType::f32>(kv, keys, next, out);
}
static inline void widenValues(const KvGeometry& kv, const uint8_t* values, const uint8_t* next, float* out, int64_t paddedDim) {
  if (kv.type == KvType::f16) widenValues<KvType::f16>(kv, values, next, out, paddedDim);
  else if (kv.type == KvType::int8) widenValues<KvType::int8>(kv, values, next, out, paddedDim);
  else widenValues<KvType::f32>(kv, values, next, out, paddedDim);
}

// q: [headDim, kQueries]; keys: kOctets times [headDim, 8] → scores [kQueries, kScorePitch], the first 8 · kOctets of each.
template <int kQueries, int kOctets>
void scoreTile(const float* q, const float* keys, int64_t headDim, float* scores) {
  f32x8 acc[kQueries][kOctets];
  MILLRACE_UNROLL
  for (int i = 0; i < kQueries; i++) {
    MILLRACE_UNROLL
    for (int o = 0; o < kOctets; o++) acc[i][o] = zero8();
  }
  int64_t d = 0;
  do {
    f32x8 qs[kQueries];
    MILLRACE_UNROLL
    for (int i = 0; i < kQueries; i++) qs[i] = splat8(q[d * kQueries + i]);
    MILLRACE_UNROLL
    for (int o = 0; o < kOctets; o++) {
      const f32x8 k = load8(keys + 8 * (o * headDim + d));
      MILLRACE_UNROLL
      for (int i = 0; i < kQueries; i++) acc[i][o] = fma8(qs[i], k, acc[i][o]);
    }
  } while (++d < headDim);
  MILLRACE_UNROLL
  for (int i = 0; i < kQueries; i++) {
    MILLRACE_UNROLL
    for (int o = 0; o < kOctets; o++) store8(scores + i * kScorePitch + 8 * o, acc[i][o]);
  }
}

// Scores of kQueries queries against numOctets octets of widened keys.
template <int kQueries>
void scoreOctets(const float* q, const float* keys, int64_t headDim, int64_t numOctets, float* scores) {
  int64_t o = 0;
  for (; o + 4 <= numOctets; o += 4) scoreTile<kQueries, 4>(q, keys + 8 * o * headDim, headDim, scores + 8 * o);
  for (; o + 2 <= numOctets; o += 2) scoreTile<kQueries, 2>(q, keys + 8 * o * headDim, headDim, scores + 8 * o);
  for (; o < numOctets; o++) scoreTile<kQueries, 1>(q, keys + 8 * o * headDim, headDim, scores + 8 * o);
}

// weights: [kQueries, kScorePitch]; values: [numEntries, paddedDim], at least one entry; adds weight · value to kVectors vectors of out [kQueries, paddedDim].
template <int kQueries, int kVectors>
void valueTile(const float* weights, const float* values, int64_t numEntries, int64_t paddedDim, float* out) {
  f32x8 acc[kQueries][kVectors];
  MILLRACE_UNROLL
  for (int i = 0; i < kQueries; i++) {
    MILLRACE_UNROLL
    for (int v = 0; v < kVectors; v++) acc[i][v] = load8(out + i * paddedDim + 8 * v);
  }
  int64_t j = 0;
  do {  // at least once, so that the accumulators need no second home
    f32x8 weight[kQueries];
    MILLRACE_UNROLL
    for (int i = 0; i < kQueries; i++) weight[i] = splat8(weights[i * kScorePitch + j]);
    MILLRACE_UNROLL
    for (int v = 0; v < kVectors; v++) {
      const f32x8 value = load8(values + j * paddedDim + 8 * v);
      MILLRACE_UNROLL
      for (int i = 0; i < kQueries; i++) acc[i][v] = fma8(weight[i], value, acc[i][v]);
    }
  } while (++j < numEntries);
  MILLRACE_UNROLL
  for (int i = 0; i < kQueries; i++) {
    MILLRACE_UNROLL
    for (int v = 0; v < kVectors; v++) store8(out + i * paddedDim + 8 * v, acc[i][v]);
  }
}

// Adds weight · value of numEntries entries to the whole width of kQueries outputs.
template <int kQueries>
void valueEntries(const float* weights, const float* values, int64_t numEntries, int64_t paddedDim, float* out) {
  if (numEntries <= 0) return;
  int64_t d = 0;
  for (; d + 32 <= paddedDim; d += 32) valueTile<kQueries, 4>(weights, values + d, numEntries, paddedDim, out + d);
  for (; d + 16 <= paddedDim; d += 16) valueTile<kQueries, 2>(weights, values + d, numEntries, paddedDim, out + d);
  for (; d < paddedDim; d += 8) valueTile<kQueries, 1>(weights, values + d, numEntries, paddedDim, out + d);
}

// e^x for x <= 0 to about 1 ulp, e^−87 below −87, where the value no longer counts beside the maximum's 1. NaN gives NaN.
MILLRACE_INLINE f32x8 weight8(f32x8 x) {
  x = max8(splat8(-87.0f), x);
  // Adding 1.5 · 2^23 + 127 rounds to an integer, which is then in the low bits with the exponent's bias.
  const f32x8 shifter = splat8(12582912.0f + 127.0f);
  const f32x8 shifted = fma8(x, splat8(1.44269504f), shifter);
  const f32x8 n = shifted - shifter;
  f32x8 r = fma8(n, splat8(-0.693359375f), x);
  r = fma8(n, splat8(2.12194440e-4f), r);
  // Minimax over |r| <= ln 2 / 2 with p(0) = 1: relative error 2e-8.
  f32x8 p = splat8(0.0013843607157468796f);
  p = fma8(p, r, splat8(0.008374195545911789f));
  p = fma8(p, r, splat8(0.04166800528764725f));
  p = fma8(p, r, splat8(0.16666430234909058f));
  p = fma8(p, r, splat8(0.4999999403953552f));
  p = fma8(p, r, splat8(1.0f));
  p = fma8(p, r, splat8(1.0f));
  u32x8 bits;
  memcpy(&bits, &shifted, 32);
  bits <<= 23;
  f32x8 scale;
  memcpy(&scale, &bits, 32);
  return p * scale;
}

}  // namespace millrace::MILLRACE_ISA
