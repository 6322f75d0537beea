// gatherRows: out[r] = x[rows[r]]. A unit is a row.
#include <cstring>

#include "kernel.h"

namespace millrace {

namespace {
struct GatherRowsArgs {
  float* out;           // [R, width]
  const float* x;       // [*, width]
  const int32_t* rows;  // [R]
  int64_t width;
};
}  // namespace

#ifdef MILLRACE_DECODES

Op decode(const Operands<ops::gatherRows>& in, DecodeMemo&) {
  GatherRowsArgs args{};
  const int64_t numRows = in.integer(ops::gatherRows::numRows);
  args.width = in.integer(ops::gatherRows::width, 1);
  int64_t numValues;
  args.x = in.whole(ops::gatherRows::x, &numValues);
  if (args.x == nullptr) in.refuse(ops::gatherRows::x, "the handle of a buffer", "0");
  args.rows = in.indices(ops::gatherRows::rows, numRows, 0, numValues / args.width - 1);
  args.out = in.buffer(ops::gatherRows::out, saturatedProduct(numRows, args.width));
  in.requireApart(ops::gatherRows::out, ops::gatherRows::rows);
  return makeOp(OpCode::gatherRows, args, numRows, static_cast<double>(args.width) * 0.3 + 10);
}

#endif

}  // namespace millrace

namespace millrace::MILLRACE_ISA {

void gatherRowsKernel(const Op& op, int64_t begin, int64_t end, std::byte*) {
  const GatherRowsArgs& args = op.args<GatherRowsArgs>();
  for (int64_t r = begin; r < end; r++) {
    memcpy(args.out + r * args.width, args.x + args.rows[r] * args.width, static_cast<size_t>(args.width) * 4);
  }
}

}  // namespace millrace::MILLRACE_ISA
