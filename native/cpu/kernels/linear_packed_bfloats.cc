// linear over packed FP8 weights and bfloat16 activations. A code of E4M3 is a bfloat16 exactly; a lane is a row, and a step adds two columns (addProducts).
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
// Lanes of 16 bits: a code of E4M3 in the lowest eight, its sign also in the highest bit of `signs`.
MILLRACE_INLINE BfloatPairs bfloatsOf(__m512i codes, __m512i signs) {
  // 0 to 7 · 2^−9, which have no exponent of their own.
  const __m512i subnormals = _mm512_broadcast_i32x4(_mm_setr_epi16(0, 0x3b00, 0x3b80, 0x3bc0, 0x3c00, 0x3c20, 0x3c40, 0x3c60));
  const __m512i size = _mm512_and_si512(codes, _mm512_set1_epi16(0x7f));
  const __m512i normal = _mm512_add_epi16(_mm512_slli_epi16(size, 4), _mm512_set1_epi16(120 << 7));
  const __m512i value = _mm512_mask_permutexvar_epi16(normal, _mm512_cmplt_epu16_mask(size, _mm512_set1_epi16(8)), size, subnormals);
  constexpr int kOrAnd = 0xf8;
  return reinterpret_cast<BfloatPairs>(_mm512_ternarylogic_epi32(value, signs, _mm512_set1_epi16(static_cast<int16_t>(0x8000)), kOrAnd));
}

// Columns 4c and 4c + 1 of each row, then the next two.
MILLRACE_INLINE void unpackPairs(Source cell, int c, BfloatPairs* pairs) {
  const __m512i order = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15));
  const __m512i codes = _mm512_shuffle_epi8(reinterpret_cast<__m512i>(loadBytes(cell + 32 + 32 * c)), order);
  pairs[0] = bfloatsOf(codes, _mm512_slli_epi16(codes, 8));
  pairs[1] = bfloatsOf(_mm512_srli_epi16(codes, 8), codes);
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
  if (args.weight.type == TensorType::F8_E4M3_BF16) runPacked<PairsKind>(args, begin, end, scratch);
}

}  // namespace millrace::MILLRACE_ISA
