// linear over packed bfloat16 weights (packed.h) with tiles. A packed group of sixteen rows is a tile after another of weights as they lie, and
// activations are a tile as they lie: sixteen tokens of 32 columns.
//
// Every output is one chain of additions, a tile of columns each, that walks K from the front; the last columns are filled up with zeros. How
// many tokens, groups and columns are computed side by side, and when sums rest in memory, changes no bit.
#ifdef MILLRACE_ISA_AMX
#include "linear_amx.h"

#include "linear_tile.h"
#include "simd_tiles.h"

namespace millrace::MILLRACE_ISA {
namespace {

// Columns of a tile of bfloat16.
constexpr int64_t kTileCols = 32;
// Two tiles of tokens against two groups keep four sums, two tiles of activations and two of weights in the eight registers.
constexpr int64_t kBlockTokens = 2 * kTileRows;
constexpr int64_t kBlockGroups = 2;
// Weights of so many groups and columns stay in the second-level cache while all tokens pass over them.
constexpr int64_t kPanelGroups = 16;
constexpr int64_t kPanelCols = 1024;
static_assert(kPanelGroups * kTileRows * 4 <= linearScratchBytes(1) - linearScratchBytes(0), "sums rest in linear's scratch");
static_assert(kPanelCols % kTileCols == 0 && kPanelGroups % kBlockGroups == 0);
// A lone tile of tokens reads every weight once: it asks for weights so far ahead.
constexpr int64_t kAheadBytes = 8 * kTileBytes;

// Columns [first, first + count) of all K.
struct Columns {
  int64_t first;
  int64_t count;
  bool isLast;
};

// One block: its operands at the block's first column.
struct Block {
  const uint8_t* x;
  int64_t xStride;
  const uint8_t* weights;
  // From one group to the next.
  int64_t pitch;
};

template <int kTiles, int kGroups>
MILLRACE_INLINE void addTiles(const uint8_t* x, int64_t xStride, const uint8_t* weights, int64_t pitch) {
  loadTile<4>(x, xStride);
  loadTile<6>(weights, kTileRowBytes);
  addBfloatTiles<0, 4, 6>();
  if constexpr (kGroups > 1) {
    loadTile<7>(weights + pitch, kTileRowBytes);
    addBfloatTiles<1, 4, 7>();
  }
  if constexpr (kTiles > 1) {
    loadTile<5>(x + kTileRows * xStride, xStride);
    addBfloatTiles<2, 5, 6>();
    if constexpr (kGroups > 1) addBfloatTiles<3, 5, 7>();
  }
}

// The last columns, fewer than a tile's.
template <int kTiles, int kGroups>
void addRest(const Block& block, int64_t numTokens, int64_t numCols, const uint8_t* x, const uint8_t* weights) {
  alignas(64) uint8_t xs[kTiles * kTileBytes] = {};
  alignas(64) uint8_t ws[kGroups * kTileBytes] = {};
  for (int64_t t = 0; t < numTokens; t++) memcpy(xs + t * kTileRowBytes, x + t * block.xStride, static_cast<size_t>(2 * numCols));
  for (int64_t g = 0; g < kGroups; g++) memcpy(ws + g * kTileBytes, weights + g * block.pitch, static_cast<size_t>(numCols / 2 * kTileRowBytes));
  addTiles<kTiles, kGroups>(xs, kTileRowBytes, ws, kTileBytes);
}

template <int kTiles, int kGroups, class Each>
MILLRACE_INLINE void forSums(Each each) {
  each(std::integral_constant<int, 0>{}, 0);
  if constexpr (kGroups > 1) each(std::integral_constant<int, 1>{}, 1);
  if constexpr (kTiles > 1) {
    each(std::integral_constant<int, 2>{}, kGroups);
    if constexpr (kGroups > 1) each(std::integral_constant<int, 3>{}, kGroups + 1);
  }
}

// Advances the sums of numTokens tokens and kGroups groups by a block of columns; they rest as tiles, [tile of tokens][group], at `sums`.
// `later`: weights of the block that is computed next, or null; laterBytes of each tile's worth of columns are fetched.
template <int kTiles, int kGroups>
void advance(const Block& block, const Columns& columns, int64_t numTokens, const uint8_t* later, int64_t laterBytes, float* sums) {
  forSums<kTiles, kGroups>([&](auto tile, int64_t at) {
    if (columns.first == 0) zeroTile<tile>();
    else loadTile<tile>(sums + at * kTileRows * kTileRows, kTileRowBytes);
  });
  const uint8_t* x = block.x;
  const uint8_t* weights = block.weights;
  for (int64_t step = columns.count / kTileCols; step > 0; step--) {
    for (int64_t i = 0; i < laterBytes; i += 64) __builtin_prefetch(later + i, 0, 2);
    later += laterBytes;
    addTiles<kTiles, kGroups>(x, block.xStride, weights, block.pitch);
    x += 2 * kTileCols;
    weights += kTileBytes;
  }
  if (columns.count % kTileCols != 0) addRest<kTiles, kGroups>(block, numTokens, columns.count % kTileCols, x, weights);
  forSums<kTiles, kGroups>([&](auto tile, int64_t at) { storeTile<tile>(sums + at * kTileRows * kTileRows, kTileRowBytes); });
}

template <int kTiles, int kGroups>
void computeBlock(const LinearArgs& args, const Columns& columns, int64_t token, int64_t numTokens, int64_t group, const uint8_t* later, int64_t laterBytes,
                  float* sums) {
  const int64_t xStride = activationRowBytes(ActivationFormat::bf16, args.weight.cols);
  const int64_t pitch = packedGroupBytes(TensorType::BF16_BF16, args.weight.cols);
  const Block block = {reinterpret_cast<const uint8_t*>(args.x) + token * xStride + 2 * columns.first, xStride,
                       args.weight.data + group * pitch + columns.first / 2 * kTileRowBytes, pitch};
  advance<kTiles, kGroups>(block, columns, numTokens, later, laterBytes, sums);
  if (!columns.isLast) return;
  for (int64_t t = 0; t < numTokens; t++) {
    for (int64_t g = 0; g < kGroups; g++) {
      Floats values;
      memcpy(&values, sums + ((t / kTileRows * kGroups + g) * kTileRows + t % kTileRows) * kTileRows, sizeof values);
      storeRows(args, token + t, (group + g) * kPacked16BitRows, values);
    }
  }
}

}  // namespace

void linearAmx(const LinearArgs& args, int64_t begin, int64_t end, std::byte* scratch) {
  Tiles tiles;
  const int64_t numCols = args.weight.cols;
  const int64_t groupBytes = packedGroupBytes(TensorType::BF16_BF16, numCols);
  float* const resting = reinterpret_cast<float*>(scratch);
  for (int64_t m0 = 0; m0 < args.numRows; m0 += kLinearPassTokens) {
    const int64_t m1 = minOf(m0 + kLinearPassTokens, args.numRows);
    const int64_t numBlocks = (m1 - m0 + kBlockTokens - 1) / kBlockTokens;
    // One block of tokens reads weights once, and needs no panels.
    const int64_t panelGroups = numBlocks == 1 ? kBlockGroups : kPanelGroups;
    const int64_t panelCols = numBlocks == 1 ? numCols : kPanelCols;
    for (int64_t g0 = begin; g0 < end; g0 += panelGroups) {
      const int64_t g1 = minOf(g0 + panelGroups, end);
      for (int64_t k0 = 0; k0 < numCols; k0 += panelCols) {
        const Columns columns = {k0, minOf(panelCols, numCols - k0), k0 + panelCols >= numCols};
        for (int64_t token = m0; token < m1; token += kBlockTokens) {
          const int64_t numTokens = minOf(kBlockTokens, m1 - token);
          tiles.setTokens(numTokens);
          for (int64_t group = g0; group < g1; group += kBlockGroups) {
            float* sums = resting + (token - m0) * kPanelGroups * kTileRows + (group - g0) * kBlockTokens * kTileRows;
            const uint8_t* weights = args.weight.data + group * groupBytes + k0 / 2 * kTileRowBytes;
            const bool isPair = group + 1 < g1;
            const int64_t laterBytes = numBlocks == 1 ? kTileBytes : 0;
            const uint8_t* later = weights + kAheadBytes;
            if (numTokens > kTileRows) {
              if (isPair) computeBlock<2, 2>(args, columns, token, numTokens, group, later, laterBytes, sums);
              else computeBlock<2, 1>(args, columns, token, numTokens, group, later, laterBytes, sums);
            } else {
              if (isPair) computeBlock<1, 2>(args, columns, token, numTokens, group, later, laterBytes, sums);
              else computeBlock<1, 1>(args, columns, token, numTokens, group, later, laterBytes, sums);
            }
          }
        }
      }
    }
  }
}

}  // namespace millrace::MILLRACE_ISA
#endif
