// linear over packed FP8 weights and bfloat16 activations. A code of E4M3 is a bfloat16 exactly; a lane is a row, and a
// step adds two columns (addProducts).
#if defined(__GNUC__) && !defined(__clang__)
// As in linear_packed.cc.
#pragma GCC optimize("no-tree-ter", "no-tree-reassoc")
#endif
#include "linear_packed_bfloats.h"

#include "packed_tiles.h"
#include "simd_bfloat.h"

namespace millrace::MILLRACE_ISA {
namespace {

#if defined(MILLRACE_ISA_AVX512BF16)
// The two bytes of the bfloat16 for each code of E4M3 without its sign.
struct BfloatBytes {
  alignas(64) uint8_t low[128] = {};
  alignas(64) uint8_t high[128] = {};

  constexpr BfloatBytes() {
    // 0 to 7 · 2^−9, which have no exponent of their own.
    constexpr uint16_t kSubnormals[8] = {0, 0x3b00, 0x3b80, 0x3bc0, 0x3c00, 0x3c20, 0x3c40, 0x3c60};
    for (int code = 0; code < 128; code++) {
      const int bits = code < 8 ? kSubnormals[code] : (code << 4) + (120 << 7);
      low[code] = static_cast<uint8_t>(bits);
      high[code] = static_cast<uint8_t>(bits >> 8);
    }
  }
};
constexpr BfloatBytes kBfloatBytes;

// Columns 4c and 4c + 1 of each row, then the next two. A look-up leaves the codes' signs out.
MILLRACE_INLINE void unpackPairs(Source cell, int c, BfloatPairs* pairs) {
  const __m512i order = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
  const auto lookUp = [](const uint8_t* table, __m512i codes) {
    return _mm512_permutex2var_epi8(_mm512_load_si512(table), codes, _mm512_load_si512(table + 64));
  };
  const __m512i codes = _mm512_shuffle_epi8(reinterpret_cast<__m512i>(loadBytes(cell + 32 + 32 * c)), order);
  const __m512i low = lookUp(kBfloatBytes.low, codes);
  constexpr int kOrAnd = 0xf8;
  const __m512i high = _mm512_ternarylogic_epi32(lookUp(kBfloatBytes.high, codes), codes, _mm512_set1_epi8(-128), kOrAnd);
  pairs[0] = reinterpret_cast<BfloatPairs>(_mm512_unpacklo_epi8(low, high));
  pairs[1] = reinterpret_cast<BfloatPairs>(_mm512_unpackhi_epi8(low, high));
}
#else
// Columns 4c and 4c + 1 of each row, then the next two.
MILLRACE_INLINE void unpackPairs(Source cell, int c, BfloatPairs* pairs) {
  MILLRACE_UNROLL_INT
  for (int h = 0; h < 2; h++) {
    const BfloatPairs even = reinterpret_cast<BfloatPairs>(PackedF8::valueOf(cell, c, 2 * h));
    pairs[h] = (even >> 16) | reinterpret_cast<BfloatPairs>(PackedF8::valueOf(cell, c, 2 * h + 1));
  }
}
#endif

// Tokens of a panel's tile: the sums of a cell fill the registers, and the accumulators, which get them once a cell,
// rest in the first-level cache.
#if defined(MILLRACE_ISA_AVX512BF16)
constexpr int kTileTokens = 12;
#else
constexpr int kTileTokens = kPanelTokens;
#endif

struct PairsCell {
  Floats scale;
  BfloatPairs pairs[16];
};

// Weights that are bfloat16 exactly, with one f32 scale per 32 columns.
struct PairsKind {
  static constexpr int64_t kCols = 32;
  using Cell = PairsCell;
  MILLRACE_INLINE void unpack(Source packed, Cell& cell) {
    cell.scale = PackedF8::scaleOf(packed);
    MILLRACE_UNROLL_INT
    for (int c = 0; c < 8; c++) unpackPairs(packed, c, cell.pairs + 2 * c);
  }

  template <int kTokens>
  MILLRACE_INLINE void addPacked(Source packed, const Row* rows, int64_t index, Floats (*acc)[1]) {
    prefetchPart<PackedF8, 1>(packed, 0);
    const Floats scale = PackedF8::scaleOf(packed);
    addColumns<kTokens, 1>([&](int, int c, BfloatPairs* pairs) { unpackPairs(packed, c, pairs); }, &scale, rows, index, acc);
  }

  template <int kTokens, int kGroups>
  MILLRACE_INLINE void add(const Cell* cells, const Row* rows, int64_t index, Floats (*acc)[kGroups]) {
    Floats scales[kGroups];
    MILLRACE_UNROLL_INT
    for (int g = 0; g < kGroups; g++) scales[g] = cells[g].scale;
    const auto pairsOf = [&](int g, int c, BfloatPairs* pairs) {
      pairs[0] = cells[g].pairs[2 * c];
      pairs[1] = cells[g].pairs[2 * c + 1];
    };
    addColumns<kTokens, kGroups>(pairsOf, scales, rows, index, acc);
  }
  MILLRACE_INLINE Floats finish(const Row&, Floats acc) { return acc; }

 private:
  template <int kTokens, int kGroups, class PairsOf>
  MILLRACE_INLINE void addColumns(PairsOf pairsOf, const Floats* scales, const Row* rows, int64_t index, Floats (*acc)[kGroups]) {
    Floats sums[kTokens][kGroups] = {};
    MILLRACE_UNROLL_INT
    for (int c = 0; c < 8; c++) {
      BfloatPairs pairs[kGroups][2];
      MILLRACE_UNROLL_INT
      for (int g = 0; g < kGroups; g++) pairsOf(g, c, pairs[g]);
      MILLRACE_UNROLL_INT
      for (int h = 0; h < 2; h++) {
        MILLRACE_UNROLL_INT
        for (int t = 0; t < kTokens; t++) {
          const BfloatPairs x = splatPair(rows[t].q + 2 * (32 * index + 4 * c + 2 * h));
          MILLRACE_UNROLL_INT
          for (int g = 0; g < kGroups; g++) sums[t][g] = addProducts(pairs[g][h], x, sums[t][g]);
        }
      }
    }
    MILLRACE_UNROLL_INT
    for (int t = 0; t < kTokens; t++) {
      MILLRACE_UNROLL_INT
      for (int g = 0; g < kGroups; g++) acc[t][g] = mulAdd(sums[t][g], scales[g], acc[t][g]);
    }
  }
};

}  // namespace

void linearPackedBfloats(const LinearArgs& args, int64_t begin, int64_t end, std::byte* scratch) {
  if (args.weight.type == TensorType::F8_E4M3_BF16) runPacked<PairsKind, kTileTokens>(args, begin, end, scratch);
}

}  // namespace millrace::MILLRACE_ISA
