// linear over bfloat16 weights and activations: out = Σ w·x in f32, a pair of columns per lane and step.
//
// Every output has one accumulator, a register, that walks K from the front; a remainder of K is one more step with zeros in the missing
// columns; then the lanes are summed (sum4). Tiles and blocks of columns only decide which outputs are computed side by side and when an
// accumulator rests in memory, so they never change a bit. Where the instruction set has a product of bfloat16 pairs (dpbf16), it adds the
// odd column, then the even one, and takes subnormals for zeros; elsewhere two fused multiply-adds do the same, and keep subnormals.
#include "linear_bfloats.h"

#include "linear_tile.h"
#include "simd_bfloat.h"

namespace millrace::MILLRACE_ISA {
namespace {

// Tiles have as many accumulators as there are registers for: four weight rows against so many tokens.
#if defined(MILLRACE_ISA_AVX512)
constexpr int kTileTokens = 6;
#else
constexpr int kTileTokens = 2;
#endif
// Columns of a register.
constexpr int64_t kStepCols = 2 * kLanes;
// Most tokens that all pass over a tile while the next rows are read: memory is the limit, and few rows at once are read fastest.
constexpr int64_t kMaxTileByTile = 64;
// With more tokens, the activations of a tile, this many columns at a time, stay in the first-level cache for a block of rows.
constexpr int64_t kBlockCols = 2048;
constexpr int64_t kBlockRows = 32;

// Columns [first, first + count) of all K.
struct Columns {
  int64_t first;
  int64_t count;
  bool isLast;
};

// Advances the sums of kTokens tokens and four rows from row n on by a block of columns; after the last block it writes the outputs.
// ahead[r]: row r's weights are prefetched so many bytes before their use; 0: not at all.
template <int kTokens>
void tile(const LinearArgs& args, const Columns& columns, int64_t token, int64_t n, int64_t numRows, const int64_t* ahead, Floats* resting) {
  const int64_t xStride = activationRowBytes(ActivationFormat::bf16, args.weight.cols);
  const uint8_t* x = reinterpret_cast<const uint8_t*>(args.x) + token * xStride + 2 * columns.first;
  const uint8_t* w[kRowTile];
  const uint8_t* later[kRowTile];
  Floats acc[kTokens][kRowTile];
  MILLRACE_UNROLL
  for (int r = 0; r < kRowTile; r++) {
    w[r] = args.weight.data + (n + minOf(r, numRows - 1)) * args.weight.rowBytes + 2 * columns.first;
    later[r] = w[r] + ahead[r];
  }
  MILLRACE_UNROLL
  for (int t = 0; t < kTokens; t++) {
    MILLRACE_UNROLL
    for (int r = 0; r < kRowTile; r++) acc[t][r] = columns.first == 0 ? Floats{} : resting[t * kRowTile + r];
  }
  int64_t k = 0;
  for (; k + kStepCols <= columns.count; k += kStepCols) {
    BfloatPairs xs[kTokens];
    MILLRACE_UNROLL
    for (int t = 0; t < kTokens; t++) xs[t] = loadBfloatPairs(x + t * xStride + 2 * k);
    MILLRACE_UNROLL
    for (int r = 0; r < kRowTile; r++) {
      // Into the second-level cache: the first holds the tile, and would lose it to rows that come long before their use.
      __builtin_prefetch(later[r] + 2 * k, 0, 2);
      const BfloatPairs weights = loadBfloatPairs(w[r] + 2 * k);
      MILLRACE_UNROLL
      for (int t = 0; t < kTokens; t++) acc[t][r] = addProducts(weights, xs[t], acc[t][r]);
    }
  }
  if (k < columns.count) {
    MILLRACE_UNROLL
    for (int r = 0; r < kRowTile; r++) {
      const BfloatPairs weights = loadFirstBfloatPairs(w[r] + 2 * k, columns.count - k);
      MILLRACE_UNROLL
      for (int t = 0; t < kTokens; t++) {
        const BfloatPairs xs = loadFirstBfloatPairs(x + t * xStride + 2 * k, columns.count - k);
        acc[t][r] = addProducts(weights, xs, acc[t][r]);
      }
    }
  }
  if (columns.isLast) return finishTile<kTokens>(args, token, n, acc, numRows);
  MILLRACE_UNROLL
  for (int t = 0; t < kTokens; t++) {
    MILLRACE_UNROLL
    for (int r = 0; r < kRowTile; r++) resting[t * kRowTile + r] = acc[t][r];
  }
}

// Weight rows [n0, n1), blockRows of them at a time, in numBlocks blocks of columns.
void rowsInTiles(const LinearArgs& args, int64_t n0, int64_t n1, int64_t blockRows, int64_t numBlocks, Floats* resting) {
  const int64_t numCols = args.weight.cols;
  const int64_t blockCols = (numCols / numBlocks + kStepCols - 1) / kStepCols * kStepCols;
  // Tiles of nearly equal sizes.
  const int64_t numTokenTiles = (args.numRows + kTileTokens - 1) / kTileTokens;
  for (int64_t block = n0; block < n1; block += blockRows) {
    const int64_t blockEnd = minOf(block + blockRows, n1);
    for (int64_t i = 0, token = 0; i < numTokenTiles; i++) {
      const int64_t numTokens = (args.numRows - token + numTokenTiles - i - 1) / (numTokenTiles - i);
      for (int64_t k0 = 0; k0 < numCols; k0 += blockCols) {
        const Columns columns = {k0, minOf(blockCols, numCols - k0), k0 + blockCols >= numCols};
        for (int64_t n = block; n < blockEnd; n += kRowTile) {
          // The reading of the next block is spread over the tiles of this one.
          int64_t ahead[kRowTile];
          for (int64_t r = 0; r < kRowTile; r++) ahead[r] = (n - block + r) * numTokenTiles / blockRows == i ? blockRows * args.weight.rowBytes : 0;
          withTokens<kTileTokens>(numTokens, [&](auto size) {
            tile<size>(args, columns, token, n, minOf(kRowTile, n1 - n), ahead, resting + (n - block) * kTileTokens);
          });
        }
      }
      token += numTokens;
    }
  }
}

}  // namespace

void linearBfloats(const LinearArgs& args, int64_t n0, int64_t n1, std::byte* scratch) {
  Floats* resting = reinterpret_cast<Floats*>(scratch);
  if (args.numRows <= kMaxTileByTile) return rowsInTiles(args, n0, n1, kRowTile, 1, resting);
  rowsInTiles(args, n0, n1, kBlockRows, (args.weight.cols + kBlockCols - 1) / kBlockCols, resting);
}

}  // namespace millrace::MILLRACE_ISA
