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

// Tokens side by side: as many accumulators as there are registers for.
#if defined(MILLRACE_ISA_AVX512)
constexpr int kTokenTile = 6;
#else
constexpr int kTokenTile = 2;
#endif
// Columns of a register.
constexpr int64_t kStepCols = 2 * kLanes;
// With at most this many tokens, the next weights are read while all tokens pass over four rows: reading decides.
constexpr int64_t kFewTokens = 48;
// With more, the activations of a tile of tokens, this many columns at a time, stay in the first-level cache for a block of rows.
constexpr int64_t kBlockCols = 2048;
constexpr int64_t kBlockRows = 32;

// Columns [first, first + count) of all K.
struct Columns {
  int64_t first;
  int64_t count;
  bool isLast;
};

// Advances the sums of kTokens tokens and four rows from row n on by a block of columns; after the last the outputs are written.
// prefetch[r]: how many bytes ahead row r's weights are asked for; 0: not at all.
template <int kTokens>
void tile(const LinearArgs& args, const Columns& columns, int64_t token, int64_t n, int64_t numRows, const int64_t* prefetch, Floats* resting) {
  const int64_t xStride = activationRowBytes(ActivationFormat::bf16, args.weight.cols);
  const uint8_t* x = reinterpret_cast<const uint8_t*>(args.x) + token * xStride + 2 * columns.first;
  const uint8_t* w[kRowTile];
  const uint8_t* later[kRowTile];
  Floats acc[kTokens][kRowTile];
  MILLRACE_UNROLL
  for (int r = 0; r < kRowTile; r++) {
    w[r] = args.weight.data + (n + minOf(r, numRows - 1)) * args.weight.rowBytes + 2 * columns.first;
    later[r] = w[r] + prefetch[r];
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
    for (int t = 0; t < kTokens; t++) xs[t] = loadPairs(x + t * xStride + 2 * k);
    MILLRACE_UNROLL
    for (int r = 0; r < kRowTile; r++) {
      __builtin_prefetch(later[r] + 2 * k);
      const BfloatPairs weights = loadPairs(w[r] + 2 * k);
      MILLRACE_UNROLL
      for (int t = 0; t < kTokens; t++) acc[t][r] = addProducts(weights, xs[t], acc[t][r]);
    }
  }
  if (k < columns.count) {
    MILLRACE_UNROLL
    for (int r = 0; r < kRowTile; r++) {
      const BfloatPairs weights = loadFirstPairs(w[r] + 2 * k, columns.count - k);
      MILLRACE_UNROLL
      for (int t = 0; t < kTokens; t++) acc[t][r] = addProducts(weights, loadFirstPairs(x + t * xStride + 2 * k, columns.count - k), acc[t][r]);
    }
  }
  if (columns.isLast) return finishTile<kTokens>(args, token, n, acc, numRows);
  MILLRACE_UNROLL
  for (int t = 0; t < kTokens; t++) {
    MILLRACE_UNROLL
    for (int r = 0; r < kRowTile; r++) resting[t * kRowTile + r] = acc[t][r];
  }
}

}  // namespace

void linearBfloats(const LinearArgs& args, int64_t n0, int64_t n1, std::byte* scratch) {
  Floats* resting = reinterpret_cast<Floats*>(scratch);
  const int64_t numCols = args.weight.cols;
  const bool areFew = args.numRows <= kFewTokens;
  const int64_t blockRows = areFew ? kRowTile : kBlockRows;
  const int64_t numBlocks = areFew ? 1 : (numCols + kBlockCols - 1) / kBlockCols;
  const int64_t blockCols = (numCols / numBlocks + kStepCols - 1) / kStepCols * kStepCols;
  // Tiles of nearly equal sizes.
  const int64_t numTiles = (args.numRows + kTokenTile - 1) / kTokenTile;
  for (int64_t block = n0; block < n1; block += blockRows) {
    const int64_t blockEnd = minOf(block + blockRows, n1);
    const int64_t numRowTiles = (blockEnd - block + kRowTile - 1) / kRowTile;
    for (int64_t i = 0, token = 0; i < numTiles; i++) {
      const int64_t numTokens = (args.numRows - token + numTiles - i - 1) / (numTiles - i);
      for (int64_t k0 = 0; k0 < numCols; k0 += blockCols) {
        const Columns columns = {k0, minOf(blockCols, numCols - k0), k0 + blockCols >= numCols};
        for (int64_t n = block; n < blockEnd; n += kRowTile) {
          // The reading of the next block is spread over the tiles of this one.
          int64_t prefetch[kRowTile];
          for (int64_t r = 0; r < kRowTile; r++) {
            const int64_t row = n - block + r;
            prefetch[r] = row * numTiles / (numRowTiles * kRowTile) == i ? blockRows * args.weight.rowBytes : 0;
          }
          const auto run = [&](auto size) {
            tile<size>(args, columns, token, n, minOf(kRowTile, n1 - n), prefetch, resting + (n - block) * kTokenTile);
          };
          withTokens<kTokenTile>(numTokens, run);
        }
      }
      token += numTokens;
    }
  }
}

}  // namespace millrace::MILLRACE_ISA
