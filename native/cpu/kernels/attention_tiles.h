// The register tiles of pagedAttention: stored K and V widened to f32 a register of octets at a time, scores of a few
// queries against keys, and weighted sums of values. Every output has its own chain of multiply-adds, over the head
// dimension for a score and over the entries for a value, so that tiling changes no bit.
#pragma once
#include <type_traits>

#include "kernel.h"
#include "kv_cache.h"
#include "simd.h"
#include "small_floats.h"

namespace millrace::MILLRACE_ISA {

// Queries that share the registers of a tile, and vectors (of keys, or of the head dimension) side by side: as many
// accumulators as there are registers for.
#if defined(MILLRACE_ISA_AVX512)
constexpr int kTileQueries = 4;
#else
constexpr int kTileQueries = 3;
#endif
constexpr int kTileVectors = 4;
// Twice as many queries, of half as many vectors each, read K and V as they are stored: reading once is worth more than
// the fuller tile.
constexpr int kDirectQueries = 2 * kTileQueries;
constexpr int tileVectors(int numQueries) { return numQueries > kTileQueries ? kTileVectors / 2 : kTileVectors; }
// Octets that are widened at once and stay in the first-level cache while all queries pass over them.
constexpr int64_t kChunkOctets = kTileVectors * kEights;
// Floats from one query's weights to the next one's: off a power of two, which would put them all into the same cache
// sets. A chunk's last scores may reach beyond the part.
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
  switch (type) {
    case KvType::f16: return body(std::integral_constant<KvType, KvType::f16>{});
    case KvType::f32: return body(std::integral_constant<KvType, KvType::f32>{});
    case KvType::int8: return body(std::integral_constant<KvType, KvType::int8>{});
    case KvType::fp8_e4m3: return body(std::integral_constant<KvType, KvType::fp8_e4m3>{});
    case KvType::fp8_e5m2: return body(std::integral_constant<KvType, KvType::fp8_e5m2>{});
    case KvType::fp4: return body(std::integral_constant<KvType, KvType::fp4>{});
  }
}

// Bytes of eight stored values.
constexpr int64_t vectorBytes(KvType type) {
  return type == KvType::f32 ? 32 : type == KvType::f16 ? 16 : type == KvType::fp4 ? 4 : 8;
}
// Dimensions of eight entries' keys that a line of memory holds.
constexpr int64_t keyStep(KvType type) { return 64 / vectorBytes(type); }

// Octets of keys or values that are widened together: as many as fill registers, the last one perhaps twice. Null in
// place of one that comes next: there is none.
struct Octets {
  const uint8_t* at[kEights];
};

// Asks for a line of an upcoming octet (null: there is none): blocks lie scattered, which hardware prefetchers do not
// follow. One line per line that is read, because many prefetches at once would stall.
MILLRACE_INLINE void ask(const uint8_t* next, int64_t offset) {
  if (offset % 64 == 0 && next != nullptr) __builtin_prefetch(next + offset);
}

// The factors 2^(e - 127) of entries' exponent bytes e. The byte 0 gives 0. The byte 255 gives infinity: its entry
// holds zeros alone, and infinity times zero is NaN, so that the broken entry shows.
MILLRACE_INLINE Floats exponentsOf(Source bytes) { return reinterpret_cast<Floats>(loadU8s(bytes) << 23); }

// A register of octets' keys, widened one dimension at a time. Products with scales of fp8 and fp4 are exact.
template <KvType kType>
class StoredKeys {
 public:
  StoredKeys() = default;
  MILLRACE_MEMBER StoredKeys(const KvGeometry& kv, const Octets& keys) : source_{keys.at[0], keys.at[kEights - 1] - keys.at[0]} {
    if (kType == KvType::int8) scales_ = loadFloats(source_ + kv.scalesOffset());
    if (kType == KvType::fp8_e4m3 || kType == KvType::fp4) exponents_ = exponentsOf(source_ + kv.exponentsOffset());
    if (kType == KvType::fp8_e4m3) scales_ = exponents_;
    groupScales_ = kv.scalesOffset();
  }

  // Is called before dimensions [d, d + keyStep) are read; d is a multiple of keyStep.
  MILLRACE_MEMBER void enter(int64_t d) {
    if (kType == KvType::fp4) scales_ = loadE4m3s(source_ + (groupScales_ + d / kFp4Group * kKvOctet)) * exponents_;
  }

  // Dimension d + i of the lanes' entries; d is even, and i is 0 or 1.
  MILLRACE_MEMBER Floats at(int64_t d, int i) const {
    if (kType == KvType::f16) return loadHalves(source_ + (d + i) * 16);
    if (kType == KvType::f32) return loadFloats(source_ + (d + i) * 32);
    if (kType == KvType::int8) return toFloats(loadI8s(source_ + (d + i) * 8)) * scales_;
    if (kType == KvType::fp8_e4m3) return loadE4m3s(source_ + (d + i) * 8) * scales_;
    if (kType == KvType::fp8_e5m2) return loadE5m2s(source_ + (d + i) * 8);
    return fromE2m1s(loadU8s(source_ + d * 4) >> (4 * i)) * scales_;
  }

 private:
  Source source_{};
  Floats scales_{};
  Floats exponents_{};
  int64_t groupScales_ = 0;
};

// One entry's value, widened a register of dimensions at a time.
template <KvType kType>
class StoredValue {
 public:
  // @param row of the octet
  MILLRACE_MEMBER StoredValue(const KvGeometry& kv, const uint8_t* octet, int64_t row) : row_(octet + row * kv.valueBytes()) {
    if (kType == KvType::int8) scale_ = splatFloats(reinterpret_cast<const float*>(octet + kv.scalesOffset())[row]);
    if (kType == KvType::fp8_e4m3 || kType == KvType::fp4) {
      exponent_ = floatOf(static_cast<uint32_t>(octet[kv.exponentsOffset() + row]) << 23);
    }
    if (kType == KvType::fp8_e4m3) scale_ = splatFloats(exponent_);
    groupScales_ = octet + kv.scalesOffset() + row * kv.numGroups();
  }

  // Where dimension d lies, a multiple of kLanes.
  MILLRACE_MEMBER const uint8_t* address(int64_t d) const { return row_ + d * vectorBytes(kType) / 8; }

  // A register of dimensions, from d on.
  MILLRACE_MEMBER Floats at(int64_t d) const {
    if (kType != KvType::fp4) return widened(address(d));
    const int64_t group = d / kFp4Group;
    const float scale = kE4m3Magnitudes.at[groupScales_[group] & 127] * exponent_;
    return fromE2m1s(loadNibbles(row_ + group * (kFp4Group / 2), d % kFp4Group)) * splatFloats(scale);
  }

  // The last dimensions, which are fewer than kLanes, followed by zeros.
  MILLRACE_MEMBER Floats tail(int64_t d, int64_t headDim) const {
    if (kType == KvType::fp4) return at(d);
    uint8_t padded[vectorBytes(kType) * kEights] = {};
    memcpy(padded, address(d), static_cast<size_t>((headDim - d) * vectorBytes(kType) / 8));
    return widened(padded);
  }

 private:
  MILLRACE_MEMBER Floats widened(const uint8_t* from) const {
    if (kType == KvType::f16) return loadHalves(from);
    if (kType == KvType::f32) return loadFloats(reinterpret_cast<const float*>(from));
    if (kType == KvType::int8) return toFloats(loadI8s(from)) * scale_;
    if (kType == KvType::fp8_e4m3) return loadE4m3s(from) * scale_;
    return loadE5m2s(from);
  }

  const uint8_t* row_;
  Floats scale_{};
  float exponent_ = 0;
  const uint8_t* groupScales_;
};

// keys: octets of [headDim, 8] → out [headDim, kLanes].
template <KvType kType>
void widenKeys(const KvGeometry& kv, const Octets& octets, const Octets& next, float* out) {
  StoredKeys<kType> keys(kv, octets);
  for (int64_t first = 0; first < kv.headDim; first += keyStep(kType)) {
    for (const uint8_t* octet : next.at) ask(octet, first * vectorBytes(kType));
    keys.enter(first);
    const int64_t end = first + keyStep(kType) < kv.headDim ? first + keyStep(kType) : kv.headDim;
    for (int64_t d = first; d < end; d++, out += kLanes) storeFloats(out, keys.at(d / 2 * 2, d % 2));
  }
}

// values: octets of [8, headDim] → out [8 · kEights, paddedDim], padded with zeros.
template <KvType kType>
void widenValues(const KvGeometry& kv, const Octets& values, const Octets& next, float* out, int64_t paddedDim) {
  for (int64_t row = 0; row < kLanes; row++, out += paddedDim) {
    const uint8_t* ahead = next.at[row / kKvOctet];
    const StoredValue<kType> value(kv, values.at[row / kKvOctet], row % kKvOctet);
    const uint8_t* nextRow = ahead == nullptr ? nullptr : ahead + row % kKvOctet * kv.valueBytes();
    int64_t d = 0;
    for (; d + kLanes <= kv.headDim; d += kLanes) {
      ask(nextRow, d * vectorBytes(kType) / 8);
      storeFloats(out + d, value.at(d));
    }
    if (d < kv.headDim) storeFloats(out + d, value.tail(d, kv.headDim));
  }
}

// The values that are the last latentDim numbers of keys: octets of [headDim, 8] → out [8 · kEights, paddedDim], padded
// with zeros. A register of dimensions is widened for all entries, then turned.
template <KvType kType>
void widenLatent(const KvGeometry& kv, const Octets& octets, const Octets& next, int64_t latentDim, float* out, int64_t paddedDim) {
  StoredKeys<kType> keys(kv, octets);
  const int64_t skipped = kv.headDim - latentDim;
  alignas(64) float turned[kLanes][kLanes];
  for (int64_t first = skipped / keyStep(kType) * keyStep(kType); first < kv.headDim; first += keyStep(kType)) {
    for (const uint8_t* octet : next.at) ask(octet, first * vectorBytes(kType));
    keys.enter(first);
    const int64_t end = first + keyStep(kType) < kv.headDim ? first + keyStep(kType) : kv.headDim;
    for (int64_t d = first > skipped ? first : skipped; d < end; d++) {
      const int64_t column = (d - skipped) % kLanes;
      storeFloats(turned[column], keys.at(d / 2 * 2, d % 2));
      if (column + 1 < kLanes && d + 1 < kv.headDim) continue;
      for (int64_t row = 0; row < kLanes; row++) {
        float* to = out + row * paddedDim + (d - skipped - column);
        for (int64_t i = 0; i < kLanes; i++) to[i] = i <= column ? turned[i][row] : 0.0f;
      }
    }
  }
}

// q: [headDim, kQueries]; keys: kVectors times [headDim, kLanes] → scores [kQueries, kScorePitch], the first kLanes ·
// kVectors of each.
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

// As scoreTile, of keys as they are stored, widened in registers: for so few queries that memory and scratch would be
// most of the work.
template <KvType kType, int kQueries, int kVectors>
void scoreStoredTile(const KvGeometry& kv, const float* q, const Octets* octets, const Octets* next, float* scores) {
  constexpr int64_t kStep = keyStep(kType);
  StoredKeys<kType> keys[kVectors];
  Floats acc[kQueries][kVectors];
  MILLRACE_UNROLL
  for (int v = 0; v < kVectors; v++) {
    keys[v] = StoredKeys<kType>(kv, octets[v]);
    MILLRACE_UNROLL
    for (int i = 0; i < kQueries; i++) acc[i][v] = Floats{};
  }
  for (int64_t first = 0; first < kv.headDim; first += kStep) {
    MILLRACE_UNROLL
    for (int v = 0; v < kVectors; v++) {
      for (const uint8_t* octet : next[v].at) ask(octet, first * vectorBytes(kType));
      keys[v].enter(first);
    }
    for (int64_t d = first; d < first + kStep; d += 2) {
      MILLRACE_UNROLL
      for (int odd = 0; odd < 2; odd++) {
        Floats qs[kQueries];
        MILLRACE_UNROLL
        for (int i = 0; i < kQueries; i++) qs[i] = splatFloats(q[(d + odd) * kQueries + i]);
        MILLRACE_UNROLL
        for (int v = 0; v < kVectors; v++) {
          const Floats k = keys[v].at(d, odd);
          MILLRACE_UNROLL
          for (int i = 0; i < kQueries; i++) acc[i][v] = mulAdd(qs[i], k, acc[i][v]);
        }
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

// weights: [kQueries, kScorePitch]; values: [numEntries, paddedDim], at least one entry; adds weight · value to
// kVectors vectors of out [kQueries, paddedDim].
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

// As valueTile, of entries [begin, end) as they are stored in `octets`, from column d on; `next` are the octets that
// come a chunk later.
template <KvType kType, int kQueries, int kVectors>
void valueStoredTile(const KvGeometry& kv, const float* weights, const uint8_t* const* octets, const uint8_t* const* next, int64_t begin, int64_t end,
                     int64_t d, float* out) {
  Floats acc[kQueries][kVectors];
  MILLRACE_UNROLL
  for (int i = 0; i < kQueries; i++) {
    MILLRACE_UNROLL
    for (int v = 0; v < kVectors; v++) acc[i][v] = loadFloats(out + i * kv.headDim + kLanes * v);
  }
  for (int64_t j = begin; j < end; j++) {
    const StoredValue<kType> stored(kv, octets[j / kKvOctet], j % kKvOctet);
    const uint8_t* ahead = next[j / kKvOctet] == nullptr ? nullptr : next[j / kKvOctet] + (stored.address(d) - octets[j / kKvOctet]);
    Floats weight[kQueries];
    MILLRACE_UNROLL
    for (int i = 0; i < kQueries; i++) weight[i] = splatFloats(weights[i * kScorePitch + j]);
    MILLRACE_UNROLL
    for (int v = 0; v < kVectors; v++) {
      if (ahead != nullptr) __builtin_prefetch(ahead + v * vectorBytes(kType) * kEights);
      const Floats value = stored.at(d + kLanes * v);
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

// e^x for x <= 0 to about 1 ulp, e^−87 below −87, where the value no longer counts beside the maximum's 1. NaN gives
// NaN.
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
