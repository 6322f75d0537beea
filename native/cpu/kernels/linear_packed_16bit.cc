// linear over packed weights of 16 bits (packed.h), with sums in f32. A lane is a row of weights, and a step adds two
// columns.
//
// Every output has one accumulator, a lane, that walks K from the front. Tiles and blocks of columns only decide which
// outputs are computed side by side and when an accumulator rests in memory, so they never change a bit.
#include "linear_packed_16bit.h"

#include "linear_tile.h"
#include "simd_bfloat.h"

namespace millrace::MILLRACE_ISA {
namespace {

// Vectors of a group of rows.
constexpr int kVectors = kPacked16BitRows / kLanes;
// Bytes of two columns of a group.
constexpr int64_t kStepBytes = 4 * kPacked16BitRows;
// A tile has as many accumulators as there are registers for: two groups (one without AVX-512) against so many tokens.
#if defined(MILLRACE_ISA_AVX512)
constexpr int kTileTokens = 12;
constexpr int kTileGroups = 2;
#else
constexpr int kTileTokens = 4;
constexpr int kTileGroups = 1;
#endif
static_assert(kTileGroups * kPacked16BitRows * sizeof(float) <= linearScratchBytes(1) - linearScratchBytes(0), "accumulators rest in linear's scratch");
// Columns whose weights, for the groups of a tile, stay in the second-level cache from one tile of tokens to the next.
constexpr int64_t kBlockCols = 4096;

// bfloat16 weights and activations. Where the instruction set has a product of bfloat16 pairs (dpbf16), it adds the odd
// column, then the even one, and takes subnormals for zeros; elsewhere two fused multiply-adds do the same, and keep
// subnormals.
struct BfloatPairsKind {
  static constexpr TensorType kType = TensorType::BF16_BF16;
  static constexpr int64_t kActivationBytes = 2;
  // Products of so few tokens wait for memory, which answers one stream of weights fastest.
  static constexpr int64_t kLoneTokens = 8;
  using Weights = BfloatPairs;
  MILLRACE_INLINE Weights load(const uint8_t* step, int v) { return loadBfloatPairs(step + 4 * kLanes * v); }
  using Pair = BfloatPairs;
  MILLRACE_INLINE Pair splat(const uint8_t* x) { return splatPair(x); }
  MILLRACE_INLINE Floats add(Weights weights, Pair pair, Floats sum) { return addProducts(weights, pair, sum); }
};

// Two columns in f32.
struct FloatPair {
  Floats even;
  Floats odd;
};

// Weights of 16 bits, widened, and activations in f32.
struct WidenedKind {
  static constexpr int64_t kActivationBytes = 4;
  // As above. Both products of a step go to one accumulator, and the second one waits for the first, so five tokens
  // already need the accumulators of two groups to keep the multipliers busy.
  static constexpr int64_t kLoneTokens = 4;
  using Weights = FloatPair;
  using Pair = FloatPair;
  MILLRACE_INLINE Pair splat(const uint8_t* x) {
    float values[2];
    memcpy(values, x, sizeof values);
    return {splatFloats(values[0]), splatFloats(values[1])};
  }
  MILLRACE_INLINE Floats add(const Weights& weights, const Pair& pair, Floats sum) {
    return mulAdd(weights.odd, pair.odd, mulAdd(weights.even, pair.even, sum));
  }
};

struct BfloatsKind : WidenedKind {
  static constexpr TensorType kType = TensorType::BF16;
  MILLRACE_INLINE Weights load(const uint8_t* step, int v) {
    UnsignedInts pairs;
    memcpy(&pairs, step + 4 * kLanes * v, sizeof pairs);
    return {evenOf(pairs), oddOf(pairs)};
  }
};

struct HalvesKind : WidenedKind {
  static constexpr TensorType kType = TensorType::F16;
  MILLRACE_INLINE Weights load(const uint8_t* step, int v) {
    return {loadHalves(step + 2 * kLanes * v), loadHalves(step + 2 * (kPacked16BitRows + kLanes * v))};
  }
};

// Advances the sums of kTokens tokens from `token` on and of kGroups groups from `group` on by a block of columns;
// after the last block it writes the outputs. fetches[g]: the same columns of the group kGroups later are prefetched
// with those of group g.
template <class Kind, int kTokens, int kGroups>
void tile(const LinearArgs& args, const KBlock& columns, int64_t token, int64_t group, const bool* fetches, Floats* resting) {
  constexpr int kWidth = kGroups * kVectors;
  const int64_t groupBytes = packedGroupBytes(Kind::kType, args.weight.cols);
  const int64_t xStride = activationRowBytes(packedInfoOf(Kind::kType).activations, args.weight.cols);
  const uint8_t* x = reinterpret_cast<const uint8_t*>(args.x) + token * xStride + Kind::kActivationBytes * columns.first;
  const uint8_t* w[kGroups];
  const uint8_t* later[kGroups];
  Floats acc[kTokens][kWidth];
  MILLRACE_UNROLL
  for (int g = 0; g < kGroups; g++) {
    w[g] = args.weight.data + (group + g) * groupBytes + kStepBytes / 2 * columns.first;
    later[g] = w[g] + (fetches[g] ? kGroups * groupBytes : 0);
  }
  MILLRACE_UNROLL
  for (int t = 0; t < kTokens; t++) {
    MILLRACE_UNROLL
    for (int v = 0; v < kWidth; v++) acc[t][v] = columns.first == 0 ? Floats{} : resting[t * kWidth + v];
  }
  for (int64_t step = 0; step < columns.count / 2; step++) {
    typename Kind::Weights weights[kWidth];
    MILLRACE_UNROLL
    for (int g = 0; g < kGroups; g++) {
      __builtin_prefetch(later[g] + kStepBytes * step);
      MILLRACE_UNROLL
      for (int v = 0; v < kVectors; v++) weights[g * kVectors + v] = Kind::load(w[g] + kStepBytes * step, v);
    }
    MILLRACE_UNROLL
    for (int t = 0; t < kTokens; t++) {
      const typename Kind::Pair pair = Kind::splat(x + t * xStride + 2 * Kind::kActivationBytes * step);
      MILLRACE_UNROLL
      for (int v = 0; v < kWidth; v++) acc[t][v] = Kind::add(weights[v], pair, acc[t][v]);
    }
  }
  MILLRACE_UNROLL
  for (int t = 0; t < kTokens; t++) {
    MILLRACE_UNROLL
    for (int v = 0; v < kWidth; v++) {
      if (columns.isLast) storeRows(args, token + t, group * kPacked16BitRows + v * kLanes, acc[t][v]);
      else resting[t * kWidth + v] = acc[t][v];
    }
  }
}

// kGroups groups from `group` on, for tokens [m0, m1).
template <class Kind, int kGroups>
void groupsForTokens(const LinearArgs& args, int64_t group, int64_t m0, int64_t m1, Floats* resting) {
  const int64_t numCols = args.weight.cols;
  // Tiles, and blocks of columns, of nearly equal sizes. One tile reads weights once, and needs no blocks.
  const int64_t numTiles = (m1 - m0 + kTileTokens - 1) / kTileTokens;
  const int64_t numBlocks = numTiles == 1 ? 1 : (numCols + kBlockCols - 1) / kBlockCols;
  const int64_t blockCols = (numCols / 2 + numBlocks - 1) / numBlocks * 2;
  for (int64_t k0 = 0; k0 < numCols; k0 += blockCols) {
    const KBlock columns = {k0, minOf(blockCols, numCols - k0), k0 + blockCols >= numCols};
    for (int64_t i = 0, token = m0; i < numTiles; i++) {
      const int64_t numTokens = (m1 - token + numTiles - i - 1) / (numTiles - i);
      // The reading of the next groups is spread over the tiles.
      bool fetches[kGroups];
      for (int64_t g = 0; g < kGroups; g++) fetches[g] = g * numTiles / kGroups == i;
      Floats* sums = resting + (token - m0) * kGroups * kVectors;
      withTokens<kTileTokens>(numTokens, [&](auto size) { tile<Kind, size, kGroups>(args, columns, token, group, fetches, sums); });
      token += numTokens;
    }
  }
}

template <class Kind>
void run(const LinearArgs& args, int64_t begin, int64_t end, std::byte* scratch) {
  Floats* resting = reinterpret_cast<Floats*>(scratch);
  for (int64_t m0 = 0; m0 < args.numRows; m0 += kLinearPassTokens) {
    const int64_t m1 = minOf(m0 + kLinearPassTokens, args.numRows);
    int64_t group = begin;
    if (args.numRows > Kind::kLoneTokens) {
      for (; group + kTileGroups <= end; group += kTileGroups) groupsForTokens<Kind, kTileGroups>(args, group, m0, m1, resting);
    }
    for (; group < end; group++) groupsForTokens<Kind, 1>(args, group, m0, m1, resting);
  }
}

}  // namespace

void linearPacked16Bit(const LinearArgs& args, int64_t begin, int64_t end, std::byte* scratch) {
  switch (args.weight.type) {
    case TensorType::BF16_BF16: return run<BfloatPairsKind>(args, begin, end, scratch);
    case TensorType::BF16: return run<BfloatsKind>(args, begin, end, scratch);
    case TensorType::F16: return run<HalvesKind>(args, begin, end, scratch);
    default: return;
  }
}

}  // namespace millrace::MILLRACE_ISA
