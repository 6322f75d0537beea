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

// Tiles have as many accumulators as there are registers for: four weight rows against up to six tokens, or eight rows against up to three,
// which read each activation half as often.
#if defined(MILLRACE_ISA_AVX512)
constexpr int kTokensOfFour = 6;
constexpr int kTokensOfEight = 3;
#else
constexpr int kTokensOfFour = 2;
constexpr int kTokensOfEight = 1;
#endif
// Columns of a register.
constexpr int64_t kStepCols = 2 * kLanes;
// Most tokens for which tiles have four rows and all tokens pass over a tile while the next rows are read: memory is the limit, and few rows at
// once are read fastest.
constexpr int64_t kMaxOfFour = 12;
// Most tokens for which tiles have eight rows: activations come from the second-level cache, and eight rows are 1.3 times as fast as four.
constexpr int64_t kMaxOfEight = 64;
// With more tokens, the activations of a tile, this many columns at a time, stay in the first-level cache for a block of rows.
constexpr int64_t kBlockCols = 2048;
constexpr int64_t kBlockRows = 32;

// Columns [first, first + count) of all K.
struct Columns {
  int64_t first;
  int64_t count;
  bool isLast;
};

// Advances the sums of kTokens tokens and kTiles times four rows from row n on by a block of columns; after the last block it writes the outputs.
// ahead[r]: row r's weights are prefetched so many bytes before their use; 0: not at all.
template <int kTiles, int kTokens>
void tile(const LinearArgs& args, const Columns& columns, int64_t token, int64_t n, int64_t numRows, const int64_t* ahead, Floats* resting) {
  constexpr int kRows = kTiles * kRowTile;
  const int64_t xStride = activationRowBytes(ActivationFormat::bf16, args.weight.cols);
  const uint8_t* x = reinterpret_cast<const uint8_t*>(args.x) + token * xStride + 2 * columns.first;
  const uint8_t* w[kRows];
  const uint8_t* later[kRows];
  Floats acc[kTiles][kTokens][kRowTile];
  MILLRACE_UNROLL
  for (int r = 0; r < kRows; r++) {
    w[r] = args.weight.data + (n + minOf(r, numRows - 1)) * args.weight.rowBytes + 2 * columns.first;
    later[r] = w[r] + ahead[r];
  }
  MILLRACE_UNROLL
  for (int h = 0; h < kTiles; h++) {
    MILLRACE_UNROLL
    for (int t = 0; t < kTokens; t++) {
      MILLRACE_UNROLL
      for (int r = 0; r < kRowTile; r++) acc[h][t][r] = columns.first == 0 ? Floats{} : resting[(h * kTokens + t) * kRowTile + r];
    }
  }
  int64_t k = 0;
  for (; k + kStepCols <= columns.count; k += kStepCols) {
    BfloatPairs xs[kTokens];
    MILLRACE_UNROLL
    for (int t = 0; t < kTokens; t++) xs[t] = loadBfloatPairs(x + t * xStride + 2 * k);
    MILLRACE_UNROLL
    for (int r = 0; r < kRows; r++) {
      __builtin_prefetch(later[r] + 2 * k);
      const BfloatPairs weights = loadBfloatPairs(w[r] + 2 * k);
      MILLRACE_UNROLL
      for (int t = 0; t < kTokens; t++) acc[r / kRowTile][t][r % kRowTile] = addProducts(weights, xs[t], acc[r / kRowTile][t][r % kRowTile]);
    }
  }
  if (k < columns.count) {
    MILLRACE_UNROLL
    for (int r = 0; r < kRows; r++) {
      const BfloatPairs weights = loadFirstBfloatPairs(w[r] + 2 * k, columns.count - k);
      MILLRACE_UNROLL
      for (int t = 0; t < kTokens; t++) {
        const BfloatPairs xs = loadFirstBfloatPairs(x + t * xStride + 2 * k, columns.count - k);
        acc[r / kRowTile][t][r % kRowTile] = addProducts(weights, xs, acc[r / kRowTile][t][r % kRowTile]);
      }
    }
  }
  MILLRACE_UNROLL
  for (int h = 0; h < kTiles; h++) {
    if (columns.isLast) {
      if (h * kRowTile < numRows) finishTile<kTokens>(args, token, n + h * kRowTile, acc[h], minOf(kRowTile, numRows - h * kRowTile));
      continue;
    }
    MILLRACE_UNROLL
    for (int t = 0; t < kTokens; t++) {
      MILLRACE_UNROLL
      for (int r = 0; r < kRowTile; r++) resting[(h * kTokens + t) * kRowTile + r] = acc[h][t][r];
    }
  }
}

// Weight rows [n0, n1), blockRows of them at a time, in numBlocks blocks of columns; a tile has 4 · kTiles rows and kMaxTokens tokens at most.
template <int kTiles, int kMaxTokens>
void rowsInTiles(const LinearArgs& args, int64_t n0, int64_t n1, int64_t blockRows, int64_t numBlocks, Floats* resting) {
  constexpr int kRows = kTiles * kRowTile;
  const int64_t numCols = args.weight.cols;
  const int64_t blockCols = (numCols / numBlocks + kStepCols - 1) / kStepCols * kStepCols;
  // Tiles of nearly equal sizes.
  const int64_t numTokenTiles = (args.numRows + kMaxTokens - 1) / kMaxTokens;
  for (int64_t block = n0; block < n1; block += blockRows) {
    const int64_t blockEnd = minOf(block + blockRows, n1);
    for (int64_t i = 0, token = 0; i < numTokenTiles; i++) {
      const int64_t numTokens = (args.numRows - token + numTokenTiles - i - 1) / (numTokenTiles - i);
      for (int64_t k0 = 0; k0 < numCols; k0 += blockCols) {
        const Columns columns = {k0, minOf(blockCols, numCols - k0), k0 + blockCols >= numCols};
        for (int64_t n = block; n < blockEnd; n += kRows) {
          // The reading of the next block is spread over the tiles of this one.
          int64_t ahead[kRows];
          for (int64_t r = 0; r < kRows; r++) ahead[r] = (n - block + r) * numTokenTiles / blockRows == i ? blockRows * args.weight.rowBytes : 0;
          withTokens<kMaxTokens>(numTokens, [&](auto size) {
            tile<kTiles, size>(args, columns, token, n, minOf(kRows, n1 - n), ahead, resting + (n - block) * kMaxTokens);
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
  if (args.numRows <= kMaxOfFour) return rowsInTiles<1, kTokensOfFour>(args, n0, n1, kRowTile, 1, resting);
  if (args.numRows <= kMaxOfEight) return rowsInTiles<2, kTokensOfEight>(args, n0, n1, 2 * kRowTile, 1, resting);
  rowsInTiles<1, kTokensOfFour>(args, n0, n1, kBlockRows, (args.weight.cols + kBlockCols - 1) / kBlockCols, resting);
}

}  // namespace millrace::MILLRACE_ISA
