// rmsNorm: the mean square is summed in double, eight lanes wide. A unit is a row.
#include "rms_row.h"

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

void rmsNormKernel(const Op& op, int64_t begin, int64_t end, std::byte*) {
  const RmsNormArgs& args = op.args<RmsNormArgs>();
  for (int64_t row = begin; row < end; row++) {
    rmsNormRow(args.out + row * args.width, args.x + row * args.width, args.gain, args.width, args.eps);
  }
}

}  // namespace millrace::MILLRACE_ISA
