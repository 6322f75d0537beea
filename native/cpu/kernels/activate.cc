// activate: an activation of every value, in place. A unit is kUnitValues values.
#include "activation.h"

namespace millrace {

namespace {
constexpr int64_t kUnitValues = 1024;

struct ActivateArgs {
  float* x;
  int64_t numValues;
  Activation activation;
};
}  // namespace

#ifdef MILLRACE_DECODES

Op decode(const Operands<ops::activate>& in, DecodeMemo&) {
  ActivateArgs args{};
  args.numValues = saturatedProduct(in.integer(ops::activate::numRows), in.integer(ops::activate::width));
  args.x = in.buffer(ops::activate::x, args.numValues);
  args.activation = in.code(ops::activate::kind);
  return makeOp(OpCode::activate, args, (args.numValues + kUnitValues - 1) / kUnitValues, 1000);
}

#endif

}  // namespace millrace

namespace millrace::MILLRACE_ISA {

void activateKernel(const Op& op, int64_t begin, int64_t end, std::byte*) {
  const ActivateArgs& args = op.args<ActivateArgs>();
  const int64_t first = begin * kUnitValues;
  const int64_t count = minOf(end * kUnitValues, args.numValues) - first;
  withActivation(args.activation, [&](auto kind) {
    if constexpr (kind != Activation::clampedSwiglu) activateValues<kind, false>(args.x + first, nullptr, count);
  });
}

}  // namespace millrace::MILLRACE_ISA
