// linear over packed bfloat16 weights (packed.h) with tiles. A packed group of sixteen rows lies in memory as one tile
// after another, and so do the activations of sixteen tokens: a tile has 32 columns of either.
//
// Every output is one chain of additions that walks K from the front, 32 columns at a time; zeros fill up the last
// columns. The number of tokens, groups and columns that are computed side by side, and the moments at which sums rest
// in memory, change no bit.
#ifdef MILLRACE_ISA_AMX
#include "linear_packed_amx.h"

#include "linear_tile.h"
#include "simd_tiles.h"

namespace millrace::MILLRACE_ISA {
namespace {

// Columns of a tile of bfloat16.
constexpr int64_t kTileCols = 32;
// Two tiles of tokens against two groups keep four sums, two tiles of activations and two of weights in the eight
// registers.
constexpr int64_t kBlockTokens = 2 * kTileRows;
constexpr int64_t kBlockGroups = 2;
// Activations of this many bytes stay in the second-level cache while the weights stream by, once. With more of them,
// weights of so many groups and columns stay there while all tokens pass over them.
constexpr int64_t kCachedBytes = 5 << 18;
constexpr int64_t kPanelGroups = 16;
constexpr int64_t kPanelCols = 1024;
constexpr int64_t kRestingBytes = kPanelGroups * kTileRows * static_cast<int64_t>(sizeof(float));
static_assert(kRestingBytes <= linearScratchBytes(1) - linearScratchBytes(0), "a token's sums rest in linear's scratch");
static_assert(kRestingBytes * kBlockTokens <= linearScratchBytes(0), "a last block of one token takes the room of a whole one");
static_assert(kPanelCols % kTileCols == 0 && kPanelGroups % kBlockGroups == 0);
// The first block of tokens reads weights from memory, and asks for them so far ahead.
constexpr int64_t kAheadBytes = 8 * kTileBytes;

// 32 columns of one or two tiles of tokens and groups: `xStride` is from one token to the next, `pitch` from one group
// to the next.
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

// The last columns, fewer than a tile's, filled up with zeros.
template <int kTiles, int kGroups>
void addRest(int64_t numTokens, int64_t numCols, const uint8_t* x, int64_t xStride, const uint8_t* weights, int64_t pitch) {
  alignas(64) uint8_t xs[kTiles * kTileBytes] = {};
  alignas(64) uint8_t ws[kGroups * kTileBytes] = {};
  for (int64_t t = 0; t < numTokens; t++) memcpy(xs + t * kTileRowBytes, x + t * xStride, static_cast<size_t>(2 * numCols));
  for (int64_t g = 0; g < kGroups; g++) memcpy(ws + g * kTileBytes, weights + g * pitch, static_cast<size_t>(numCols / 2 * kTileRowBytes));
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

// Outputs and columns that are computed in one go.
struct Place {
  int64_t token;
  // kBlockTokens at most.
  int64_t numTokens;
  int64_t group;
  KBlock columns;
  // Whether no block of tokens before this one has read the weights.
  bool isFirst;
};

// Advances the sums of a place, which rest as tiles, [tile of tokens][group], at `sums`; after the last columns it
// writes the outputs.
template <int kTiles, int kGroups>
void computePlace(const LinearArgs& args, const Place& place, float* sums) {
  const KBlock& columns = place.columns;
  const int64_t xStride = activationRowBytes(ActivationFormat::bf16, args.weight.cols);
  const int64_t pitch = packedGroupBytes(TensorType::BF16_BF16, args.weight.cols);
  const uint8_t* x = reinterpret_cast<const uint8_t*>(args.x) + place.token * xStride + 2 * columns.first;
  const uint8_t* weights = args.weight.data + place.group * pitch + columns.first / 2 * kTileRowBytes;
  forSums<kTiles, kGroups>([&](auto tile, int64_t at) {
    if (columns.first == 0) zeroTile<tile>();
    else loadTile<tile>(sums + at * kTileRows * kTileRows, kTileRowBytes);
  });
  for (int64_t step = columns.count / kTileCols; step > 0; step--) {
    for (int g = 0; place.isFirst && g < kGroups; g++) {
      for (int64_t i = 0; i < kTileBytes; i += 64) __builtin_prefetch(weights + g * pitch + kAheadBytes + i, 0, 2);
    }
    addTiles<kTiles, kGroups>(x, xStride, weights, pitch);
    x += kTileRowBytes;
    weights += kTileBytes;
  }
  if (columns.count % kTileCols != 0) addRest<kTiles, kGroups>(place.numTokens, columns.count % kTileCols, x, xStride, weights, pitch);
  forSums<kTiles, kGroups>([&](auto tile, int64_t at) { storeTile<tile>(sums + at * kTileRows * kTileRows, kTileRowBytes); });
  if (!columns.isLast) return;
  for (int64_t t = 0; t < place.numTokens; t++) {
    for (int64_t g = 0; g < kGroups; g++) {
      Floats values;
      memcpy(&values, sums + ((t / kTileRows * kGroups + g) * kTileRows + t % kTileRows) * kTileRows, sizeof values);
      storeRows(args, place.token + t, (place.group + g) * kPacked16BitRows, values);
    }
  }
}

void computePlaceOf(int64_t numGroups, const LinearArgs& args, const Place& place, float* sums) {
  const bool hasTwo = place.numTokens > kTileRows;
  if (hasTwo && numGroups > 1) return computePlace<2, 2>(args, place, sums);
  if (hasTwo) return computePlace<2, 1>(args, place, sums);
  if (numGroups > 1) return computePlace<1, 2>(args, place, sums);
  computePlace<1, 1>(args, place, sums);
}

// Groups [g0, g1) and a block of columns, for tokens [m0, m1).
void runPanel(const LinearArgs& args, const KBlock& columns, int64_t g0, int64_t g1, int64_t m0, int64_t m1, Tiles& tiles, float* resting) {
  for (int64_t token = m0; token < m1; token += kBlockTokens) {
    const int64_t numTokens = minOf(kBlockTokens, m1 - token);
    tiles.setTokens(numTokens);
    for (int64_t group = g0; group < g1; group += kBlockGroups) {
      float* sums = resting + ((token - m0) * kPanelGroups + (group - g0) * kBlockTokens) * kTileRows;
      computePlaceOf(minOf(kBlockGroups, g1 - group), args, {token, numTokens, group, columns, token == m0}, sums);
    }
  }
}

}  // namespace

void linearBfloatTiles(const LinearArgs& args, int64_t begin, int64_t end, std::byte* scratch) {
  Tiles tiles;
  for (int64_t m0 = 0; m0 < args.numRows; m0 += kLinearPassTokens) {
    const int64_t m1 = minOf(m0 + kLinearPassTokens, args.numRows);
    const bool isCached = (m1 - m0) * activationRowBytes(ActivationFormat::bf16, args.weight.cols) <= kCachedBytes;
    const int64_t panelGroups = isCached ? kBlockGroups : kPanelGroups;
    const int64_t panelCols = isCached ? args.weight.cols : kPanelCols;
    for (int64_t g0 = begin; g0 < end; g0 += panelGroups) {
      for (int64_t k0 = 0; k0 < args.weight.cols; k0 += panelCols) {
        const KBlock columns = {k0, minOf(panelCols, args.weight.cols - k0), k0 + panelCols >= args.weight.cols};
        runPanel(args, columns, g0, minOf(g0 + panelGroups, end), m0, m1, tiles, reinterpret_cast<float*>(scratch));
      }
    }
  }
}

}  // namespace millrace::MILLRACE_ISA
#endif
