// applyGate: products with a function of a gate. A unit is a row.
#include "gates.h"

namespace millrace {

namespace {
struct ApplyGateArgs {
  float* x;           // [M, width]
  const float* gate;  // [M, gateWidth]
  int64_t width;
  int64_t gateWidth;
  Gate kind;
};
}  // namespace

#ifdef MILLRACE_DECODES

Op decode(const Operands<ops::applyGate>& in, DecodeMemo&) {
  using ops::applyGate;
  ApplyGateArgs args{};
  const int64_t numRows = in.integer(applyGate::numRows);
  args.width = in.integer(applyGate::width);
  args.gateWidth = in.integer(applyGate::gateWidth);
  if (args.gateWidth != args.width && args.gateWidth != 1) {
    in.refuse(applyGate::gateWidth, std::to_string(args.width) + " or 1", static_cast<double>(args.gateWidth));
  }
  args.kind = in.code(applyGate::kind);
  args.x = in.buffer(applyGate::x, saturatedProduct(numRows, args.width));
  args.gate = in.buffer(applyGate::gate, saturatedProduct(numRows, args.gateWidth));
  in.requireApart(applyGate::x, applyGate::gate);
  return makeOp(OpCode::applyGate, args, numRows, static_cast<double>(args.width) + 20);
}

#endif

}  // namespace millrace

namespace millrace::MILLRACE_ISA {

void applyGateKernel(const Op& op, int64_t begin, int64_t end, std::byte*) {
  const ApplyGateArgs& args = op.args<ApplyGateArgs>();
  for (int64_t m = begin; m < end; m++) gateRow(args.x + m * args.width, args.gate + m * args.gateWidth, args.width, args.gateWidth, args.kind);
}

}  // namespace millrace::MILLRACE_ISA
