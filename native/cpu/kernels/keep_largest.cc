// keepLargest: the largest magnitude of each column over the rows. A unit is a range of columns.
#include "kernel.h"

namespace millrace {

namespace {
constexpr int64_t kUnitColumns = 64;

struct KeepLargestArgs {
  float* largest;  // [width]
  const float* x;  // [M, width]
  int64_t numRows;
  int64_t width;
};
}  // namespace

#ifdef MILLRACE_DECODES

Op decode(const Operands<ops::keepLargest>& in, DecodeMemo&) {
  using ops::keepLargest;
  KeepLargestArgs args{};
  args.numRows = in.integer(keepLargest::numRows);
  args.width = in.integer(keepLargest::width);
  args.x = in.buffer(keepLargest::x, saturatedProduct(args.numRows, args.width));
  args.largest = in.buffer(keepLargest::largest, args.width);
  in.requireApart(keepLargest::largest, keepLargest::x);
  return makeOp(OpCode::keepLargest, args, (args.width + kUnitColumns - 1) / kUnitColumns, static_cast<double>(args.numRows) * 20 + 20);
}

#endif

}  // namespace millrace

namespace millrace::MILLRACE_ISA {

void keepLargestKernel(const Op& op, int64_t begin, int64_t end, std::byte*) {
  const KeepLargestArgs& args = op.args<KeepLargestArgs>();
  const int64_t last = minOf(end * kUnitColumns, args.width);
  for (int64_t m = 0; m < args.numRows; m++) {
    const float* x = args.x + m * args.width;
    for (int64_t c = begin * kUnitColumns; c < last; c++) {
      const float magnitude = x[c] < 0.0f ? -x[c] : x[c];
      if (magnitude > args.largest[c]) args.largest[c] = magnitude;
    }
  }
}

}  // namespace millrace::MILLRACE_ISA
