// spreadColumns: logits of some tokens among those of all. A unit is a row.
#include <limits>

#include "kernel.h"

namespace millrace {

namespace {
struct SpreadColumnsArgs {
  float* out;              // [R, outWidth]
  const float* x;          // [R, width]
  const int32_t* columns;  // [width]
  int64_t width;
  int64_t outWidth;
};
}  // namespace

#ifdef MILLRACE_DECODES

Op decode(const Operands<ops::spreadColumns>& in, DecodeMemo&) {
  using ops::spreadColumns;
  SpreadColumnsArgs args{};
  const int64_t numRows = in.integer(spreadColumns::numRows);
  args.width = in.integer(spreadColumns::width);
  args.outWidth = in.integer(spreadColumns::outWidth);
  args.x = in.buffer(spreadColumns::x, saturatedProduct(numRows, args.width));
  args.columns = in.indices(spreadColumns::columns, args.width, 0, args.outWidth - 1);
  args.out = in.buffer(spreadColumns::out, saturatedProduct(numRows, args.outWidth));
  in.requireApart(spreadColumns::out, spreadColumns::x);
  in.requireApart(spreadColumns::out, spreadColumns::columns);
  const double cost = static_cast<double>(args.outWidth) * 0.1 + static_cast<double>(args.width) + 10;
  return makeOp(OpCode::spreadColumns, args, numRows, cost);
}

#endif

}  // namespace millrace

namespace millrace::MILLRACE_ISA {

void spreadColumnsKernel(const Op& op, int64_t begin, int64_t end, std::byte*) {
  const SpreadColumnsArgs& args = op.args<SpreadColumnsArgs>();
  for (int64_t r = begin; r < end; r++) {
    float* out = args.out + r * args.outWidth;
    const float* x = args.x + r * args.width;
    for (int64_t i = 0; i < args.outWidth; i++) out[i] = -std::numeric_limits<float>::infinity();
    for (int64_t i = 0; i < args.width; i++) out[args.columns[i]] = x[i];
  }
}

}  // namespace millrace::MILLRACE_ISA
