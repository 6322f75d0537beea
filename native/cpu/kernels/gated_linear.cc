// gatedLinear: two linear layers of the same shape, then an activation of the first, times the second, while both are
// in the cache. A unit is kLinearRows rows of both weights for all tokens.
#include "activation.h"
#include "linear.h"

namespace millrace {

#ifdef MILLRACE_DECODES

Op decode(const Operands<ops::gatedLinear>& in, DecodeMemo&) {
  using ops::gatedLinear;
  const int64_t numRows = in.integer(gatedLinear::numRows);
  GatedLinearArgs args;
  const double gateNanos =
      readLinear(in, {gatedLinear::out, gatedLinear::gateX, gatedLinear::gateWeight, gatedLinear::gateBias}, numRows, args.gate);
  const double upNanos = readLinear(in, {gatedLinear::scratch, gatedLinear::upX, gatedLinear::upWeight, gatedLinear::upBias}, numRows, args.up);
  args.activation = in.code(gatedLinear::kind);
  if (args.gate.weight.rows != args.up.weight.rows) {
    in.refuse(gatedLinear::upWeight, std::to_string(args.gate.weight.rows) + " rows, as the gate has", static_cast<double>(args.up.weight.rows));
  }
  in.requireApart(gatedLinear::scratch, gatedLinear::out);
  in.requireApart(gatedLinear::scratch, gatedLinear::gateX);
  in.requireApart(gatedLinear::out, gatedLinear::upX);
  return makeLinearOp(OpCode::gatedLinear, args.gate, gateNanos + upNanos, args);
}

#endif

}  // namespace millrace

namespace millrace::MILLRACE_ISA {

void gatedLinearKernel(const Op& op, int64_t begin, int64_t end, std::byte* scratch) {
  const GatedLinearArgs& args = op.args<GatedLinearArgs>();
  Op half{};
  half.args<LinearArgs>() = args.gate;
  linearKernel(half, begin, end, scratch);
  half.args<LinearArgs>() = args.up;
  linearKernel(half, begin, end, scratch);
  const int64_t width = args.gate.weight.rows;
  const int64_t first = begin * kLinearRows;
  const int64_t count = minOf(end * kLinearRows, width) - first;
  for (int64_t m = 0; m < args.gate.numRows; m++) {
    float* gate = args.gate.out + m * width + first;
    const float* up = args.up.out + m * width + first;
    withActivation(args.activation, [&](auto kind) { activateValues<kind, true>(gate, up, count); });
  }
}

}  // namespace millrace::MILLRACE_ISA
