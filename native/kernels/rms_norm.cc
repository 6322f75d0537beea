// rmsNorm: the mean square is summed in double, eight lanes wide. A unit is a row.
#include <cmath>

#include "kernel.h"
#include "simd.h"

namespace millrace::MILLRACE_ISA {

static double sumOfSquares(const float* x, int64_t width) {
  double lanes[8] = {};
  int64_t i = 0;
  for (; i + 8 <= width; i += 8) {
    for (int lane = 0; lane < 8; lane++) {
      const double value = x[i + lane];
      lanes[lane] += value * value;
    }
  }
  for (; i < width; i++) lanes[i % 8] += static_cast<double>(x[i]) * x[i];
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

void rmsNormKernel(const Op& op, int64_t begin, int64_t end, std::byte*) {
  const RmsNormArgs& args = op.rmsNorm;
  for (int64_t row = begin; row < end; row++) {
    const float* x = args.x + row * args.width;
    float* out = args.out + row * args.width;
    const double meanSquare = sumOfSquares(x, args.width) / static_cast<double>(args.width);
    const float scale = static_cast<float>(1.0 / std::sqrt(meanSquare + args.eps));
    for (int64_t i = 0; i < args.width; i++) out[i] = x[i] * scale * args.gain[i];
  }
}

}  // namespace millrace::MILLRACE_ISA
