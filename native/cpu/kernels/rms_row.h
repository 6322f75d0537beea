// The RMS norm of a row.
#pragma once
#include <cmath>

#include "kernel.h"
#include "simd.h"

namespace millrace::MILLRACE_ISA {

static inline double sumOfSquares(const float* x, int64_t width) {
  // Squares of f32 are exact in double, so it does not matter whether they are fused into the sums.
  f64x4 low = {}, high = {};
  f64x4 a, b;
  int64_t i = 0;
  for (; i + 8 <= width; i += 8) {
    toDouble4(load8(x + i), &a, &b);
    low += a * a;
    high += b * b;
  }
  toDouble4(loadPartial8(x + i, width - i), &a, &b);
  low += a * a;
  high += b * b;
  return ((low[0] + low[1]) + (low[2] + low[3])) + ((high[0] + high[1]) + (high[2] + high[3]));
}

// out may be x.
static inline void rmsNormRow(float* out, const float* x, const float* gain, int64_t width, double eps) {
  const double meanSquare = sumOfSquares(x, width) / static_cast<double>(width);
  const f32x8 scale = splat8(static_cast<float>(1.0 / std::sqrt(meanSquare + eps)));
  int64_t i = 0;
  for (; i + 8 <= width; i += 8) store8(out + i, load8(x + i) * scale * load8(gain + i));
  const int64_t rest = width - i;
  storePartial8(out + i, loadPartial8(x + i, rest) * scale * loadPartial8(gain + i, rest), rest);
}

}  // namespace millrace::MILLRACE_ISA
