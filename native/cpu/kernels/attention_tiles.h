// The register tiles of pagedAttention: stored K and V widened to f32 a register of octets at a time, scores of a few queries against keys,
// and weighted sums of values. Every output has its own chain of multiply-adds, over the head dimension for a score and over the entries
// for a value, so that tiling changes no bit.
#pragma once
#include <type_traits>

#include "kernel.h"
#include "kv_cache.h"
#include "simd.h"

namespace millrace::MILLRACE_ISA {

// Queries that share the registers of a tile, and vectors (of keys, or of the head dimension) side by side: as many accumulators as there are
// registers for.
#if defined(MILLRACE_ISA_AVX512)
constexpr int kTileQueries = 4;
#else
constexpr int kTileQueries = 3;
#endif
constexpr int kTileVectors = 4;
// Twice as many queries, of half as many vectors each, read K and V as they are stored: reading once is worth more than the fuller tile.
constexpr int kDirectQueries = 2 * kTileQueries;
constexpr int tileVectors(int numQueries) { return numQueries > kTileQueries ? kTileVectors / 2 : kTileVectors; }
// Octets that are widened at once and stay in the first-level cache while all queries pass over them.
constexpr int64_t kChunkOctets = kTileVectors * kEights;
// Floats from one query's weights to the next one's: off a power of two, which would put them all into the same cache sets. A chunk's last
// scores may reach beyond the part.
constexpr int64_t kScorePitch = kAttentionPart + 16;

// Calls body with `size`, 1 to kMost, as a constant.
template <int kMost, class Body>
MILLRACE_INLINE void withSize(int64_t size, Body body) {
  if (size == kMost) return body(std::integral_constant<int, kMost>{});
  if constexpr (kMost > 1) withSize<kMost - 1>(size, body);
}

// Covers items [begin, end) by tiles of kMost, a power of two, or fewer: calls tile(count, first).
template <int kMost, class Tile>
MILLRACE_INLINE void inTiles(int64_t begin, int64_t end, Tile tile) {
  for (; begin + kMost <= end; begin += kMost) tile(std::integral_constant<int, kMost>{}, begin);
  if constexpr (kMost > 1) inTiles<kMost / 2>(begin, end, tile);
}

// Calls body with the type of the stored values as a constant.
template <class Body>
MILLRACE_INLINE void withType(KvType type, Body body) {
  if (type == KvType::f16) return body(std::integral_constant<KvType, KvType::f16>{});
  if (type == KvType::int8) return body(std::integral_constant<KvType, KvType::int8>{});
  body(std::integral_constant<KvType, KvType::f32>{});
}

// Bytes of eight stored values.
constexpr int64_t vectorBytes(KvType type) { return type == KvType::f16 ? 16 : type == KvType::f32 ? 32 : 8; }

// Stored values, widened; of int8 without their scale.
template <KvType kType>
MILLRACE_INLINE Floats loadStored(Source values) {
  if (kType == KvType::f16) return loadHalves(values);
  if (kType == KvType::int8) return toFloats(loadI8s(values));
  return loadFloats(values);
}

// The same of one run of memory.
template <KvType kType>
MILLRACE_INLINE Floats loadStored(const uint8_t* values) {
  if (kType == KvType::f16) return loadHalves(values);
  if (kType == KvType::int8) return toFloats(loadI8s(values));
  return loadFloats(reinterpret_cast<const float*>(values));
}

// Octets of keys or values that are widened together: as many as fill registers, the last one perhaps twice. Null in place of one that
// comes next: there is none.
struct Octets {
  const uint8_t* at[kEights];
};

// Asks for a line of an upcoming octet (null: there is none): blocks lie scattered, which hardware prefetchers do not follow. Line by line,
// as what is there now is read: many at once would stall.
MILLRACE_INLINE void ask(const uint8_t* next, int64_t offset) {
  if (offset % 64 == 0 && next != nullptr) __builtin_prefetch(next + offset);
}

// keys: octets of [headDim, 8] → out [headDim, kLanes].
template <KvType kType>
void widenKeys(const KvGeometry& kv, const Octets& keys, const Octets& next, float* out) {
  const Source first = {keys.at[0], keys.at[kEights - 1] - keys.at[0]};
  const Floats scales = kType == KvType::int8 ? loadFloats(first + kv.scalesOffset()) : Floats{};
  const int64_t numBytes = kv.headDim * vectorBytes(kType);
  for (int64_t at = 0; at < numBytes; at += vectorBytes(kType), out += kLanes) {
    for (const uint8_t* octet : next.at) ask(octet, at);
    const Floats vector = loadStored<kType>(first + at);
    storeFloats(out, kType == KvType::int8 ? vector * scales : vector);
  }
}

// values: octets of [8, headDim] → out [8 · kEights, paddedDim], padded with zeros.
template <KvType kType>
void widenValues(const KvGeometry& kv, const Octets& values, const Octets& next, float* out, int64_t paddedDim) {
  constexpr int64_t kBytes = vectorBytes(kType) * kEights;
  const int64_t rowBytes = kv.headDim * vectorBytes(kType) / 8;
  const int64_t tailBytes = rowBytes % kBytes;
  for (int64_t row = 0; row < kLanes; row++, out += paddedDim) {
    const uint8_t* octet = values.at[row / kKvOctet];
    const int64_t offset = row % kKvOctet * rowBytes;
    const uint8_t* nextRow = next.at[row / kKvOctet] == nullptr ? nullptr : next.at[row / kKvOctet] + offset;
    float scale = 1.0f;
    if (kType == KvType::int8) memcpy(&scale, octet + kv.scalesOffset() + 4 * (row % kKvOctet), 4);
    const auto widen = [&](const uint8_t* from, float* to) {
      const Floats vector = loadStored<kType>({from, vectorBytes(kType)});
      storeFloats(to, kType == KvType::int8 ? vector * splatFloats(scale) : vector);
    };
    float* to = out;
    for (int64_t at = 0; at + kBytes <= rowBytes; at += kBytes, to += kLanes) {
      ask(nextRow, at);
      widen(octet + offset + at, to);
    }
    if (tailBytes == 0) continue;
    uint8_t padded[kBytes] = {};
    memcpy(padded, octet + offset + rowBytes - tailBytes, static_cast<size_t>(tailBytes));
    widen(padded, to);
  }
}

// q: [headDim, kQueries]; keys: kVectors times [headDim, kLanes] → scores [kQueries, kScorePitch], the first kLanes · kVectors of each.
template <int kQueries, int kVectors>
void scoreTile(const float* q, const float* keys, int64_t headDim, float* scores) {
  Floats acc[kQueries][kVectors];
  MILLRACE_UNROLL
  for (int i = 0; i < kQueries; i++) {
    MILLRACE_UNROLL
    for (int v = 0; v < kVectors; v++) acc[i][v] = Floats{};
  }
  int64_t d = 0;
  do {
    Floats qs[kQueries];
    MILLRACE_UNROLL
    for (int i = 0; i < kQueries; i++) qs[i] = splatFloats(q[d * kQueries + i]);
    MILLRACE_UNROLL
    for (int v = 0; v < kVectors; v++) {
      const Floats k = loadFloats(keys + kLanes * (v * headDim + d));
      MILLRACE_UNROLL
      for (int i = 0; i < kQueries; i++) acc[i][v] = mulAdd(qs[i], k, acc[i][v]);
    }
  } while (++d < headDim);
  MILLRACE_UNROLL
  for (int i = 0; i < kQueries; i++) {
    MILLRACE_UNROLL
    for (int v = 0; v < kVectors; v++) storeFloats(scores + i * kScorePitch + kLanes * v, acc[i][v]);
  }
}

// As scoreTile, of keys as they are stored, widened in registers: for so few queries that memory and scratch would be most of the work.
template <KvType kType, int kQueries, int kVectors>
void scoreStoredTile(const KvGeometry& kv, const float* q, const Octets* keys, const Octets* next, float* scores) {
  constexpr int kStep = 64 / vectorBytes(kType);
  Source source[kVectors];
  Floats scales[kVectors];
  Floats acc[kQueries][kVectors];
  MILLRACE_UNROLL
  for (int v = 0; v < kVectors; v++) {
    source[v] = {keys[v].at[0], keys[v].at[kEights - 1] - keys[v].at[0]};
    if (kType == KvType::int8) scales[v] = loadFloats(source[v] + kv.scalesOffset());
    MILLRACE_UNROLL
    for (int i = 0; i < kQueries; i++) acc[i][v] = Floats{};
  }
  for (int64_t first = 0; first < kv.headDim; first += kStep) {
    MILLRACE_UNROLL
    for (int v = 0; v < kVectors; v++) {
      for (const uint8_t* octet : next[v].at) ask(octet, first * vectorBytes(kType));
    }
    for (int64_t d = first; d < first + kStep; d++) {
      Floats qs[kQueries];
      MILLRACE_UNROLL
      for (int i = 0; i < kQueries; i++) qs[i] = splatFloats(q[d * kQueries + i]);
      MILLRACE_UNROLL
      for (int v = 0; v < kVectors; v++) {
        const Floats stored = loadStored<kType>(source[v] + d * vectorBytes(kType));
        const Floats k = kType == KvType::int8 ? stored * scales[v] : stored;
        MILLRACE_UNROLL
        for (int i = 0; i < kQueries; i++) acc[i][v] = mulAdd(qs[i], k, acc[i][v]);
      }
    }
  }
  MILLRACE_UNROLL
  for (int i = 0; i < kQueries; i++) {
    MILLRACE_UNROLL
    for (int v = 0; v < kVectors; v++) storeFloats(scores + i * kScorePitch + kLanes * v, acc[i][v]);
  }
}

// Scores of kQueries queries against numVectors vectors of widened keys.
template <int kQueries>
void scoreVectors(const float* q, const float* keys, int64_t headDim, int64_t numVectors, float* scores) {
  inTiles<kTileVectors>(0, numVectors, [&](auto vectors, int64_t v) {
    scoreTile<kQueries, vectors>(q, keys + kLanes * v * headDim, headDim, scores + kLanes * v);
  });
}

// weights: [kQueries, kScorePitch]; values: [numEntries, paddedDim], at least one entry; adds weight · value to kVectors vectors of out [kQueries, paddedDim].
template <int kQueries, int kVectors>
void valueTile(const float* weights, const float* values, int64_t numEntries, int64_t paddedDim, float* out) {
  Floats acc[kQueries][kVectors];
  MILLRACE_UNROLL
  for (int i = 0; i < kQueries; i++) {
    MILLRACE_UNROLL
    for (int v = 0; v < kVectors; v++) acc[i][v] = loadFloats(out + i * paddedDim + kLanes * v);
  }
  int64_t j = 0;
  do {  // at least once, so that the accumulators need no second home
    Floats weight[kQueries];
    MILLRACE_UNROLL
    for (int i = 0; i < kQueries; i++) weight[i] = splatFloats(weights[i * kScorePitch + j]);
    MILLRACE_UNROLL
    for (int v = 0; v < kVectors; v++) {
      const Floats value = loadFloats(values + j * paddedDim + kLanes * v);
      MILLRACE_UNROLL
      for (int i = 0; i < kQueries; i++) acc[i][v] = mulAdd(weight[i], value, acc[i][v]);
    }
  } while (++j < numEntries);
  MILLRACE_UNROLL
  for (int i = 0; i < kQueries; i++) {
    MILLRACE_UNROLL
    for (int v = 0; v < kVectors; v++) storeFloats(out + i * paddedDim + kLanes * v, acc[i][v]);
  }
}

// Adds weight · value of numEntries entries to the whole width of kQueries outputs.
template <int kQueries>
void valueEntries(const float* weights, const float* values, int64_t numEntries, int64_t paddedDim, float* out) {
  if (numEntries <= 0) return;
  inTiles<kTileVectors>(0, paddedDim / kLanes, [&](auto vectors, int64_t v) {
    valueTile<kQueries, vectors>(weights, values + kLanes * v, numEntries, paddedDim, out + kLanes * v);
  });
}

// As valueTile, of entries [begin, end) as they are stored in `octets`, from column d on; `next` are the octets that come a chunk later.
template <KvType kType, int kQueries, int kVectors>
void valueStoredTile(const KvGeometry& kv, const float* weights, const uint8_t* const* octets, const uint8_t* const* next, int64_t begin, int64_t end,
                     int64_t d, float* out) {
  constexpr int64_t kBytes = vectorBytes(kType) * kEights;
  const int64_t rowBytes = kv.headDim * vectorBytes(kType) / 8;
  const int64_t column = d * vectorBytes(kType) / 8;
  Floats acc[kQueries][kVectors];
  MILLRACE_UNROLL
  for (int i = 0; i < kQueries; i++) {
    MILLRACE_UNROLL
    for (int v = 0; v < kVectors; v++) acc[i][v] = loadFloats(out + i * kv.headDim + kLanes * v);
  }
  for (int64_t j = begin; j < end; j++) {
    const uint8_t* octet = octets[j / kKvOctet];
    const int64_t offset = j % kKvOctet * rowBytes + column;
    const uint8_t* ahead = next[j / kKvOctet];
    Floats scale{};
    if (kType == KvType::int8) scale = splatFloats(reinterpret_cast<const float*>(octet + kv.scalesOffset())[j % kKvOctet]);
    Floats weight[kQueries];
    MILLRACE_UNROLL
    for (int i = 0; i < kQueries; i++) weight[i] = splatFloats(weights[i * kScorePitch + j]);
    MILLRACE_UNROLL
    for (int v = 0; v < kVectors; v++) {
      if (ahead != nullptr) __builtin_prefetch(ahead + offset + kBytes * v);
      const Floats stored = loadStored<kType>(octet + offset + kBytes * v);
      const Floats value = kType == KvType::int8 ? stored * scale : stored;
      MILLRACE_UNROLL
      for (int i = 0; i < kQueries; i++) acc[i][v] = mulAdd(weight[i], value, acc[i][v]);
    }
  }
  MILLRACE_UNROLL
  for (int i = 0; i < kQueries; i++) {
    MILLRACE_UNROLL
    for (int v = 0; v < kVectors; v++) storeFloats(out + i * kv.headDim + kLanes * v, acc[i][v]);
  }
}

// e^x for x <= 0 to about 1 ulp, e^−87 below −87, where the value no longer counts beside the maximum's 1. NaN gives NaN.
MILLRACE_INLINE Floats weightOf(Floats x) {
  x = maxFloats(splatFloats(-87.0f), x);
  // Adding 1.5 · 2^23 + 127 rounds to an integer, which is then in the low bits with the exponent's bias.
  const Floats shifter = splatFloats(12582912.0f + 127.0f);
  const Floats shifted = mulAdd(x, splatFloats(1.44269504f), shifter);
  const Floats n = shifted - shifter;
  Floats r = mulAdd(n, splatFloats(-0.693359375f), x);
  r = mulAdd(n, splatFloats(2.12194440e-4f), r);
  // Minimax over |r| <= ln 2 / 2 with p(0) = 1: relative error 2e-8.
  Floats p = splatFloats(0.0013843607157468796f);
  p = mulAdd(p, r, splatFloats(0.008374195545911789f));
  p = mulAdd(p, r, splatFloats(0.04166800528764725f));
  p = mulAdd(p, r, splatFloats(0.16666430234909058f));
  p = mulAdd(p, r, splatFloats(0.4999999403953552f));
  p = mulAdd(p, r, splatFloats(1.0f));
  p = mulAdd(p, r, splatFloats(1.0f));
  UnsignedInts bits;
  memcpy(&bits, &shifted, sizeof bits);
  bits <<= 23;
  Floats scale;
  memcpy(&scale, &bits, sizeof bits);
  return p * scale;
}

}  // namespace millrace::MILLRACE_ISA
