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

#if defined(MILLRACE_ISA_AVX512BF16)
// Tokens of a panel's tile: their sums fill the registers. The accumulators, which get the sums of a run of cells at
// once, rest in the first-level cache.
constexpr int kTileTokens = 6;
#else
constexpr int kTileTokens = kPanelTokens;
#endif

// Weights that are bfloat16 exactly, with one f32 scale per 32 columns.
struct PairsKind {
  static constexpr int64_t kCols = 32;
  struct Cell {
    Floats scale;
    BfloatPairs pairs[16];
  };
  MILLRACE_INLINE void unpack(Source packed, Cell& cell) {
    cell.scale = PackedF8::scaleOf(packed);
    MILLRACE_UNROLL_INT
    for (int c = 0; c < 8; c++) unpackPairs(packed, c, cell.pairs + 2 * c);
  }
  MILLRACE_INLINE Floats finish(const Row&, Floats acc) { return acc; }
};

// Cells of a run at most: a panel's.
constexpr int64_t kRunCells = kPanelCols / PairsKind::kCols;
static_assert(kRunCells * sizeof(PairsKind::Cell) <= kPanelBytes / 2, "a panel has as many cells as a run");

// A run's sums of one row and token: of columns 4c and 4c + 1, and of 4c + 2 and 4c + 3. One chain of additions would
// keep few tokens waiting.
struct Sums {
  Floats halves[2] = {};
};

// Adds a cell's products to the sums. pairsOf(g, c, pairs): columns 4c to 4c + 3 of vector g.
template <int kTokens, int kGroups, class PairsOf>
MILLRACE_INLINE void addColumns(PairsOf pairsOf, const Row* rows, int64_t index, Sums (*sums)[kGroups]) {
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
        for (int g = 0; g < kGroups; g++) sums[t][g].halves[h] = addProducts(pairs[g][h], x, sums[t][g].halves[h]);
      }
    }
  }
}

MILLRACE_INLINE Floats scaled(const Sums& sums, Floats scale, Floats acc) { return mulAdd(sums.halves[0] + sums.halves[1], scale, acc); }

// Whether a row has another scale than in the cell before.
MILLRACE_INLINE bool isAnyChanged(Floats before, Floats scale) {
#if defined(MILLRACE_ISA_AVX512)
  return _mm512_cmpneq_epi32_mask(reinterpret_cast<__m512i>(before), reinterpret_cast<__m512i>(scale)) != 0;
#else
  return memcmp(&before, &scale, sizeof scale) != 0;
#endif
}

// Ends the runs of the rows whose scale changes: their sums, times the scale so far, go to the accumulators.
template <int kTokens, int kGroups>
MILLRACE_INLINE void endChanged(int g, Floats before, Floats scale, Sums (*sums)[kGroups], Floats (*acc)[kGroups]) {
  const auto isChanged = reinterpret_cast<Ints>(before) != reinterpret_cast<Ints>(scale);
  MILLRACE_UNROLL_INT
  for (int t = 0; t < kTokens; t++) {
    acc[t][g] = isChanged ? scaled(sums[t][g], before, acc[t][g]) : acc[t][g];
    MILLRACE_UNROLL_INT
    for (int h = 0; h < 2; h++) sums[t][g].halves[h] = isChanged ? Floats{} : sums[t][g].halves[h];
  }
}

// A row's cells are summed in runs, each of which is scaled once: a run ends after kRunCells cells and where the row's
// scale changes. So it depends on the row alone.
template <>
struct PanelSum<PairsKind> {
  template <int kTokens>
  MILLRACE_INLINE void add(const Panel<PairsKind>& panel, const Row* rows, Floats (*acc)[2]) {
    const PairsKind::Cell* cells = panel.cells;
    Sums sums[kTokens][2];
    for (int64_t i = 0; i < panel.numCells; i++, cells += 2) {
      MILLRACE_UNROLL_INT
      for (int g = 0; g < 2; g++) {
        const Floats before = i == 0 ? cells[g].scale : cells[g - 2].scale;
        if (__builtin_expect(isAnyChanged(before, cells[g].scale), false)) endChanged<kTokens, 2>(g, before, cells[g].scale, sums, acc);
      }
      const auto pairsOf = [&](int g, int c, BfloatPairs* pairs) {
        pairs[0] = cells[g].pairs[2 * c];
        pairs[1] = cells[g].pairs[2 * c + 1];
      };
      addColumns<kTokens, 2>(pairsOf, rows, panel.first + i, sums);
    }
    MILLRACE_UNROLL_INT
    for (int t = 0; t < kTokens; t++) {
      MILLRACE_UNROLL_INT
      for (int g = 0; g < 2; g++) acc[t][g] = scaled(sums[t][g], cells[g - 2].scale, acc[t][g]);
    }
  }
};

// All columns of the vector of group g for kTokens tokens from `token` on, in the same runs.
template <int kTokens>
void directTile(const Groups& groups, const Rows& rows, int64_t g, int64_t token) {
  Source packed = groups.packed(g, 0);
  Row row[kTokens];
  Floats acc[kTokens][1] = {};
  MILLRACE_UNROLL_INT
  for (int t = 0; t < kTokens; t++) row[t] = rows.at(token + t);
  for (int64_t first = 0; first < groups.numCells; first += kRunCells) {
    Sums sums[kTokens][1];
    Floats scale = PackedF8::scaleOf(packed);
    for (int64_t i = first; i < minOf(first + kRunCells, groups.numCells); i++, packed = packed + groups.info.cellBytes) {
      prefetchPart<PackedF8, 1>(packed, 0);
      const Floats before = scale;
      scale = PackedF8::scaleOf(packed);
      if (__builtin_expect(isAnyChanged(before, scale), false)) endChanged<kTokens, 1>(0, before, scale, sums, acc);
      addColumns<kTokens, 1>([&](int, int c, BfloatPairs* pairs) { unpackPairs(packed, c, pairs); }, row, i, sums);
    }
    MILLRACE_UNROLL_INT
    for (int t = 0; t < kTokens; t++) acc[t][0] = scaled(sums[t][0], scale, acc[t][0]);
  }
  MILLRACE_UNROLL_INT
  for (int t = 0; t < kTokens; t++) groups.store(token + t, g, acc[t][0]);
}

void runDirect(const LinearArgs& args, int64_t begin, int64_t end) {
  const PackedInfo info = packedInfoOf(args.weight.type);
  const Rows rows = rowsOf(args, info);
  const int64_t numVectors = numVectorsOf(begin, end);
  const Groups groups = {args, info, args.weight.cols / PairsKind::kCols, end, numVectors};
  for (int64_t g = begin; g < begin + numVectors; g++) {
    forTiles(args.numRows, kDirectTileTokens, [&](int64_t token, int64_t numTokens) {
      withTokens<kDirectTileTokens>(numTokens, [&](auto size) { directTile<size>(groups, rows, g, token); });
    });
  }
}

}  // namespace

void linearPackedBfloats(const LinearArgs& args, int64_t begin, int64_t end, std::byte* scratch) {
  if (args.weight.type != TensorType::F8_E4M3_BF16) return;
  if (args.numRows > kDirectTokens) return runPanels<PairsKind, kTileTokens>(args, begin, end, scratch);
  runDirect(args, begin, end);
}

}  // namespace millrace::MILLRACE_ISA
