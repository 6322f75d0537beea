// copyColumns: takes vectors apart and puts them together. A unit is a row.
//
// Rows may be places that another operation of the same program writes: the kernel skips rows that are out of range.
#include <cstring>

#include "kernel.h"

namespace millrace {

namespace {
struct CopyColumnsArgs {
  float* out;           // [M, outWidth]
  const float* x;       // [M, xWidth]
  const int32_t* rows;  // [M] or null
  int64_t numRows;
  int64_t width;
  int64_t outWidth;
  int64_t to;
  int64_t xWidth;
  int64_t from;
};
}  // namespace

#ifdef MILLRACE_DECODES

Op decode(const Operands<ops::copyColumns>& in, DecodeMemo&) {
  using ops::copyColumns;
  CopyColumnsArgs args{};
  args.numRows = in.integer(copyColumns::numRows);
  args.width = in.integer(copyColumns::width, 1);
  args.to = in.integer(copyColumns::to);
  args.from = in.integer(copyColumns::from);
  args.outWidth = in.integer(copyColumns::outWidth, args.to + args.width);
  args.xWidth = in.integer(copyColumns::xWidth, args.from + args.width);
  args.out = in.buffer(copyColumns::out, saturatedProduct(args.numRows, args.outWidth));
  args.x = in.buffer(copyColumns::x, saturatedProduct(args.numRows, args.xWidth));
  args.rows = in.optionalBuffer(copyColumns::rows, args.numRows);
  in.requireApart(copyColumns::out, copyColumns::x);
  if (args.rows != nullptr) in.requireApart(copyColumns::out, copyColumns::rows);
  return makeOp(OpCode::copyColumns, args, args.numRows, static_cast<double>(args.width) * 0.3 + 10);
}

#endif

}  // namespace millrace

namespace millrace::MILLRACE_ISA {

void copyColumnsKernel(const Op& op, int64_t begin, int64_t end, std::byte*) {
  const CopyColumnsArgs& args = op.args<CopyColumnsArgs>();
  for (int64_t m = begin; m < end; m++) {
    const int64_t row = args.rows == nullptr ? m : args.rows[m];
    if (row < 0 || row >= args.numRows) continue;
    memcpy(args.out + m * args.outWidth + args.to, args.x + row * args.xWidth + args.from, static_cast<size_t>(args.width) * 4);
  }
}

}  // namespace millrace::MILLRACE_ISA
