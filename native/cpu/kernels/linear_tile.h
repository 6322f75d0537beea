// Tiles of a linear layer: sums of a few rows and tokens on their way to the output; and kRowTile rows as files store
// them, with one register of sums for each row and token.
#pragma once
#include <type_traits>

#include "linear.h"
#include "simd.h"

namespace millrace::MILLRACE_ISA {

constexpr int kRowTile = 4;

// Adds the bias and the old output; `sums` are the four rows of one token from row n on.
MILLRACE_INLINE void finish(const LinearArgs& args, int64_t token, int64_t n, f32x4 sums, int64_t numRows) {
  float* out = args.out + token * args.weight.rows + n;
  if (numRows == kRowTile) {
    if (args.bias != nullptr) sums += load4(args.bias + n);
    if (args.accumulate) sums += load4(out);
    return store4(out, sums);
  }
  for (int r = 0; r < numRows; r++) {
    float value = sums[r];
    if (args.bias != nullptr) value += args.bias[n + r];
    if (args.accumulate) value += out[r];
    out[r] = value;
  }
}

// Adds the bias and the old output; a lane of `sums` is a row of one token, from row n on. Rows past the last are left
// out.
MILLRACE_INLINE void storeRows(const LinearArgs& args, int64_t token, int64_t n, f32x8 sums) {
  const int64_t numRows = minOf(8, args.weight.rows - n);
  if (numRows <= 0) return;
  float* out = args.out + token * args.weight.rows + n;
  if (args.bias != nullptr) sums = sums + loadPartial8(args.bias + n, numRows);
  if (args.accumulate) sums = sums + loadPartial8(out, numRows);
  if (numRows == 8) store8(out, sums);
  else storePartial8(out, sums, numRows);
}
#if defined(MILLRACE_ISA_AVX512)
MILLRACE_INLINE void storeRows(const LinearArgs& args, int64_t token, int64_t n, Floats sums) {
  storeRows(args, token, n, lowEight(sums));
  storeRows(args, token, n + 8, highEight(sums));
}
#endif

// The outputs of kTokens tokens from `token` on.
template <int kTokens>
MILLRACE_INLINE void finishTile(const LinearArgs& args, int64_t token, int64_t n, const Floats (&acc)[kTokens][kRowTile], int64_t numRows) {
  MILLRACE_UNROLL
  for (int t = 0; t + 2 <= kTokens; t += 2) {
    f32x4 sums[2];
    sum4Twice(acc[t], acc[t + 1], &sums[0], &sums[1]);
    finish(args, token + t, n, sums[0], numRows);
    finish(args, token + t + 1, n, sums[1], numRows);
  }
  if constexpr (kTokens % 2 == 1) {
    const Floats* last = acc[kTokens - 1];
    finish(args, token + kTokens - 1, n, sum4(last[0], last[1], last[2], last[3]), numRows);
  }
}

// A block [first, first + count) of columns, or of parts of them, of all K.
struct KBlock {
  int64_t first;
  int64_t count;
  bool isLast;
};

// Calls body with `size`, 1 to kSize, as a constant.
template <int kSize, class Body>
MILLRACE_INLINE void withTokens(int64_t size, Body body) {
  if (size == kSize) return body(std::integral_constant<int, kSize>{});
  if constexpr (kSize > 1) withTokens<kSize - 1>(size, body);
}

}  // namespace millrace::MILLRACE_ISA
