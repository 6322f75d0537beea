// gatedNorm: products with SiLU of a gate, then the RMS norm of each part of a row. A unit is a row.
#include "gates.h"
#include "rms_row.h"

namespace millrace {

namespace {
struct GatedNormArgs {
  float* x;           // [M, width]
  const float* gate;  // [M, width]
  const float* gain;  // [width]
  int64_t width;
  int64_t numGroups;
  double eps;
};
}  // namespace

#ifdef MILLRACE_DECODES

Op decode(const Operands<ops::gatedNorm>& in, DecodeMemo&) {
  using ops::gatedNorm;
  GatedNormArgs args{};
  const int64_t numRows = in.integer(gatedNorm::numRows);
  args.width = in.integer(gatedNorm::width, 1);
  args.numGroups = in.integer(gatedNorm::numGroups, 1);
  if (args.width % args.numGroups != 0) {
    in.refuse(gatedNorm::width, "a multiple of " + std::to_string(args.numGroups), static_cast<double>(args.width));
  }
  args.eps = in.number(gatedNorm::eps);
  if (!(args.eps >= 0)) in.refuse(gatedNorm::eps, "at least 0", args.eps);
  args.x = in.buffer(gatedNorm::x, saturatedProduct(numRows, args.width));
  args.gate = in.buffer(gatedNorm::gate, saturatedProduct(numRows, args.width));
  args.gain = in.buffer(gatedNorm::gain, args.width);
  in.requireApart(gatedNorm::x, gatedNorm::gate);
  in.requireApart(gatedNorm::x, gatedNorm::gain);
  return makeOp(OpCode::gatedNorm, args, numRows, static_cast<double>(args.width) * 1.4 + 40);
}

#endif

}  // namespace millrace

namespace millrace::MILLRACE_ISA {

void gatedNormKernel(const Op& op, int64_t begin, int64_t end, std::byte*) {
  const GatedNormArgs& args = op.args<GatedNormArgs>();
  const int64_t width = args.width / args.numGroups;
  for (int64_t m = begin; m < end; m++) {
    float* x = args.x + m * args.width;
    gateRow(x, args.gate + m * args.width, args.width, args.width, Gate::silu);
    for (int64_t first = 0; first < args.width; first += width) rmsNormRow(x + first, x + first, args.gain + first, width, args.eps);
  }
}

}  // namespace millrace::MILLRACE_ISA
