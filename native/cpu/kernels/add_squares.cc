// addSquares: the squares of each column, added up over the rows. A unit is a range of columns.
#include "kernel.h"

namespace millrace {

namespace {
constexpr int64_t kUnitColumns = 64;

struct AddSquaresArgs {
  double* sums;    // [width]
  const float* x;  // [M, width]
  int64_t numRows;
  int64_t width;
};
}  // namespace

#ifdef MILLRACE_DECODES

Op decode(const Operands<ops::addSquares>& in, DecodeMemo&) {
  using ops::addSquares;
  AddSquaresArgs args{};
  args.numRows = in.integer(addSquares::numRows);
  args.width = in.integer(addSquares::width);
  args.x = in.buffer(addSquares::x, saturatedProduct(args.numRows, args.width));
  args.sums = in.buffer(addSquares::sums, args.width);
  in.requireApart(addSquares::sums, addSquares::x);
  return makeOp(OpCode::addSquares, args, (args.width + kUnitColumns - 1) / kUnitColumns, static_cast<double>(args.numRows) * 20 + 20);
}

#endif

}  // namespace millrace

namespace millrace::MILLRACE_ISA {

void addSquaresKernel(const Op& op, int64_t begin, int64_t end, std::byte*) {
  const AddSquaresArgs& args = op.args<AddSquaresArgs>();
  const int64_t last = minOf(end * kUnitColumns, args.width);
  for (int64_t m = 0; m < args.numRows; m++) {
    const float* x = args.x + m * args.width;
    for (int64_t c = begin * kUnitColumns; c < last; c++) args.sums[c] += static_cast<double>(x[c]) * static_cast<double>(x[c]);
  }
}

}  // namespace millrace::MILLRACE_ISA
