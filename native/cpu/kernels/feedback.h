// Rounding with feedback: GPTQ (Frantar et al., 2022) in the form of LDLQ (Chee et al., "QuIP", 2023). Let H = L · D ·
// Lᵀ be the Gram matrix of the inputs of a product. Columns are rounded from the last to the first; a value is rounded
// after the errors of the columns behind it, times their entries of L, have been added. The squared error of the
// outputs is then Σ D[c] · (rounding error of c)², and no other linear feedback makes it smaller. Rows are independent,
// and so is the work on tiles of them.
#pragma once
#include <cstddef>

#include "simd.h"

namespace millrace::MILLRACE_ISA {

// Rows of a tile.
constexpr int64_t kFeedbackRows = 16;
// Largest number of columns that are rounded before the errors of all of them are fed back at once.
constexpr int64_t kFeedbackColumns = 256;

// A row's values in a block of columns, which are settled from the last to the first.
class BlockFeedback {
 public:
  BlockFeedback(const float* values, float* targets, const float* factor, int64_t stride, float* errors)
      : values_(values), targets_(targets), factor_(factor), stride_(stride), errors_(errors) {}

  // [n]: the values with the errors that have been fed back so far.
  const float* targets() const { return targets_; }

  // Column i is stored as `decoded`.
  void settle(int64_t i, float decoded) {
    const float error = values_[i] - decoded;
    errors_[i * kFeedbackRows] = error;
    const float* row = factor_ + i * stride_;
    int64_t c = 0;
    for (; c + 8 <= i; c += 8) store8(targets_ + c, fma8(splat8(error), load8(row + c), load8(targets_ + c)));
    for (; c < i; c++) targets_[c] += error * row[c];
  }

 private:
  const float* values_;  // [n]
  float* targets_;       // [n]
  const float* factor_;  // L from the block's first column on, in rows and columns
  int64_t stride_;
  float* errors_;  // [n, kFeedbackRows], of this row
};

// Bytes of scratch for a tile of rows of `width`.
constexpr int64_t feedbackScratchBytes(int64_t width) {
  return (width + 2 * kFeedbackColumns) * kFeedbackRows * static_cast<int64_t>(sizeof(float));
}

// targets[r, c] += Σ errors[k, r] · factor[k, c], for k from 0 to numErrors; numColumns is a multiple of 8.
MILLRACE_INLINE void feedBack(const float* errors, const float* factor, int64_t stride, int64_t numErrors, float* targets, int64_t numColumns) {
  constexpr int64_t kAtOnce = 128;
  constexpr int kRows = 4;
  for (int64_t begin = 0; begin < numErrors; begin += kAtOnce) {
    const int64_t end = begin + kAtOnce < numErrors ? begin + kAtOnce : numErrors;
    for (int64_t c = 0; c < numColumns; c += 16) {
      const bool isPair = c + 16 <= numColumns;
      for (int64_t r = 0; r < kFeedbackRows; r += kRows) {
        f32x8 sums[kRows][2];
        MILLRACE_UNROLL
        for (int i = 0; i < kRows; i++) {
          const float* target = targets + (r + i) * kFeedbackColumns + c;
          sums[i][0] = load8(target);
          sums[i][1] = load8(isPair ? target + 8 : target);
        }
        for (int64_t k = begin; k < end; k++) {
          const float* row = factor + k * stride + c;
          const f32x8 low = load8(row);
          const f32x8 high = load8(isPair ? row + 8 : row);
          MILLRACE_UNROLL
          for (int i = 0; i < kRows; i++) {
            const f32x8 error = splat8(errors[k * kFeedbackRows + r + i]);
            sums[i][0] = fma8(error, low, sums[i][0]);
            sums[i][1] = fma8(error, high, sums[i][1]);
          }
        }
        MILLRACE_UNROLL
        for (int i = 0; i < kRows; i++) {
          float* target = targets + (r + i) * kFeedbackColumns + c;
          store8(target, sums[i][0]);
          if (isPair) store8(target + 8, sums[i][1]);
        }
      }
    }
  }
}

// Rows with their Gram matrix's factor.
struct FeedbackRows {
  const float* x;        // [numRows, width]
  int64_t numRows;       // kFeedbackRows at most
  int64_t width;
  const float* factor;   // [width, width]
  const int32_t* order;  // [width], or null for the columns as they are: place p of a row has its column order[p]
};

// Rounds a tile. round(row, place, n, feedback) has to settle the n places from `place` on, the last one first.
// @param columns of a block, from 8 to kFeedbackColumns; the first block of a row has what is left
template <class Round>
void roundTile(const FeedbackRows& rows, int64_t columns, std::byte* scratch, const Round& round) {
  const auto [x, numRows, width, factor, order] = rows;
  float* errors = reinterpret_cast<float*>(scratch);
  float* targets = errors + width * kFeedbackRows;
  float* values = targets + kFeedbackColumns * kFeedbackRows;
  memset(scratch, 0, static_cast<size_t>(feedbackScratchBytes(width)));
  for (int64_t end = width, begin; end > 0; end = begin) {
    begin = end > columns ? end - columns : 0;
    const int64_t n = end - begin;
    for (int64_t r = 0; r < numRows; r++) {
      float* to = values + r * kFeedbackColumns;
      for (int64_t i = 0; i < n; i++) to[i] = x[r * width + (order == nullptr ? begin + i : order[begin + i])];
      memcpy(targets + r * kFeedbackColumns, to, static_cast<size_t>(n) * sizeof(float));
    }
    feedBack(errors + end * kFeedbackRows, factor + end * width + begin, width, width - end, targets, (n + 7) / 8 * 8);
    for (int64_t r = 0; r < numRows; r++) {
      const int64_t row = r * kFeedbackColumns;
      BlockFeedback feedback(values + row, targets + row, factor + begin * width + begin, width, errors + begin * kFeedbackRows + r);
      round(r, begin, n, feedback);
    }
  }
}

}  // namespace millrace::MILLRACE_ISA
