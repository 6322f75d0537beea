// add: out += x. A unit is kUnitValues values.
#include "kernel.h"

namespace millrace {

namespace {
// A unit is this many values.
constexpr int64_t kUnitValues = 1024;

struct AddArgs {
  float* out;
  const float* x;
  int64_t numValues;
};
}  // namespace

#ifdef MILLRACE_DECODES

Op decode(const Operands<ops::add>& in, DecodeMemo&) {
  AddArgs args{};
  args.numValues = saturatedProduct(in.integer(ops::add::numRows), in.integer(ops::add::width));
  args.out = in.buffer(ops::add::out, args.numValues);
  args.x = in.buffer(ops::add::x, args.numValues);
  return makeOp(OpCode::add, args, (args.numValues + kUnitValues - 1) / kUnitValues, 150);
}

#endif

}  // namespace millrace

namespace millrace::MILLRACE_ISA {

void addKernel(const Op& op, int64_t begin, int64_t end, std::byte*) {
  const AddArgs& args = op.args<AddArgs>();
  const int64_t last = minOf(end * kUnitValues, args.numValues);
  for (int64_t i = begin * kUnitValues; i < last; i++) args.out[i] += args.x[i];
}

}  // namespace millrace::MILLRACE_ISA
