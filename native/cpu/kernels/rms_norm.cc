// rmsNorm: the mean square is summed in double, eight lanes wide. A unit is a row.
#include <cmath>

#include "kernel.h"
#include "simd.h"

namespace millrace {

namespace {
struct RmsNormArgs {
  float* out;         // [numRows, width]; may be x
  const float* x;     // [numRows, width]
  const float* gain;  // [width]
  int64_t width;
  double eps;
};
}  // namespace

#ifdef MILLRACE_DECODES

Op decode(const Operands<ops::rmsNorm>& in, DecodeMemo&) {
  RmsNormArgs args{};
  const int64_t numRows = in.integer(ops::rmsNorm::numRows);
  args.width = in.integer(ops::rmsNorm::width, 1);
  args.eps = in.number(ops::rmsNorm::eps);
  if (args.eps < 0) in.refuse(ops::rmsNorm::eps, "at least 0", args.eps);
  args.out = in.buffer(ops::rmsNorm::out, saturatedProduct(numRows, args.width));
  args.x = in.buffer(ops::rmsNorm::x, saturatedProduct(numRows, args.width));
  args.gain = in.buffer(ops::rmsNorm::gain, args.width);
  return makeOp(OpCode::rmsNorm, args, numRows, static_cast<double>(args.width) * 0.4 + 20);
}

#endif

}  // namespace millrace

namespace millrace::MILLRACE_ISA {

static double sumOfSquares(const float* x, int64_t width) {
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

void rmsNormKernel(const Op& op, int64_t begin, int64_t end, std::byte*) {
  const RmsNormArgs& args = op.args<RmsNormArgs>();
  for (int64_t row = begin; row < end; row++) {
    const float* x = args.x + row * args.width;
    float* out = args.out + row * args.width;
    const double meanSquare = sumOfSquares(x, args.width) / static_cast<double>(args.width);
    const f32x8 scale = splat8(static_cast<float>(1.0 / std::sqrt(meanSquare + args.eps)));
    int64_t i = 0;
    for (; i + 8 <= args.width; i += 8) store8(out + i, load8(x + i) * scale * load8(args.gain + i));
    const int64_t rest = args.width - i;
    storePartial8(out + i, loadPartial8(x + i, rest) * scale * loadPartial8(args.gain + i, rest), rest);
  }
}

}  // namespace millrace::MILLRACE_ISA
