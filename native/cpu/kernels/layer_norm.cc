// layerNorm: mean and variance are sums in double of eight lanes, the variance of the distances from the mean. A unit
// is a row.
#include <cmath>

#include "kernel.h"
#include "simd.h"

namespace millrace {

namespace {
struct LayerNormArgs {
  float* out;         // [numRows, width]; may be x
  const float* x;     // [numRows, width]
  const float* gain;  // [width]
  const float* bias;  // [width] or null
  int64_t width;
  double eps;
};
}  // namespace

#ifdef MILLRACE_DECODES

Op decode(const Operands<ops::layerNorm>& in, DecodeMemo&) {
  LayerNormArgs args{};
  const int64_t numRows = in.integer(ops::layerNorm::numRows);
  args.width = in.integer(ops::layerNorm::width, 1);
  args.eps = in.number(ops::layerNorm::eps);
  if (!(args.eps >= 0)) in.refuse(ops::layerNorm::eps, "at least 0", args.eps);
  args.out = in.buffer(ops::layerNorm::out, saturatedProduct(numRows, args.width));
  args.x = in.buffer(ops::layerNorm::x, saturatedProduct(numRows, args.width));
  args.gain = in.buffer(ops::layerNorm::gain, args.width);
  args.bias = in.optionalBuffer(ops::layerNorm::bias, args.width);
  return makeOp(OpCode::layerNorm, args, numRows, static_cast<double>(args.width) * 0.7 + 30);
}

#endif

}  // namespace millrace

namespace millrace::MILLRACE_ISA {

// Sum of term(x[i]) over a row: eight lanes side by side, then the values behind the last whole eight, one by one. A
// row's bits are its own.
template <class Term>
static double sumOf(const float* x, int64_t width, Term term) {
  f64x4 low = {}, high = {};
  f64x4 a, b;
  int64_t i = 0;
  for (; i + 8 <= width; i += 8) {
    toDouble4(load8(x + i), &a, &b);
    low += term(a);
    high += term(b);
  }
  double sum = ((low[0] + low[1]) + (low[2] + low[3])) + ((high[0] + high[1]) + (high[2] + high[3]));
  for (; i < width; i++) {
    const double value = x[i];
    sum += term(f64x4{value, value, value, value})[0];
  }
  return sum;
}

void layerNormKernel(const Op& op, int64_t begin, int64_t end, std::byte*) {
  const LayerNormArgs& args = op.args<LayerNormArgs>();
  for (int64_t row = begin; row < end; row++) {
    const float* x = args.x + row * args.width;
    float* out = args.out + row * args.width;
    const double mean = sumOf(x, args.width, [](f64x4 v) { return v; }) / static_cast<double>(args.width);
    const double squares = sumOf(x, args.width, [mean](f64x4 v) { return (v - mean) * (v - mean); });
    const double inverse = 1.0 / std::sqrt(squares / static_cast<double>(args.width) + args.eps);
    // In double, so that a mean far from zero costs no digits.
    for (int64_t i = 0; i < args.width; i++) {
      const float normed = static_cast<float>((x[i] - mean) * inverse);
      out[i] = normed * args.gain[i] + (args.bias == nullptr ? 0.0f : args.bias[i]);
    }
  }
}

}  // namespace millrace::MILLRACE_ISA
