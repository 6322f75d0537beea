// multiply: out ·= columns of x. A unit is a row.
#include "kernel.h"
#include "simd.h"

namespace millrace {

namespace {
struct MultiplyArgs {
  float* out;      // [M, width]
  const float* x;  // [M, xWidth], from the first column on that is read
  int64_t width;
  int64_t xWidth;
};
}  // namespace

#ifdef MILLRACE_DECODES

Op decode(const Operands<ops::multiply>& in, DecodeMemo&) {
  using ops::multiply;
  MultiplyArgs args{};
  const int64_t numRows = in.integer(multiply::numRows);
  args.width = in.integer(multiply::width);
  args.xWidth = in.integer(multiply::xWidth, args.width);
  const int64_t first = in.integer(multiply::first, 0, args.xWidth - args.width);
  args.out = in.buffer(multiply::out, saturatedProduct(numRows, args.width));
  args.x = in.buffer(multiply::x, saturatedProduct(numRows, args.xWidth)) + first;
  return makeOp(OpCode::multiply, args, numRows, static_cast<double>(args.width) * 0.2 + 10);
}

#endif

}  // namespace millrace

namespace millrace::MILLRACE_ISA {

void multiplyKernel(const Op& op, int64_t begin, int64_t end, std::byte*) {
  const MultiplyArgs& args = op.args<MultiplyArgs>();
  for (int64_t m = begin; m < end; m++) {
    float* out = args.out + m * args.width;
    const float* x = args.x + m * args.xWidth;
    for (int64_t i = 0; i < args.width; i += 8) {
      const int64_t rest = minOf(args.width - i, 8);
      storePartial8(out + i, loadPartial8(out + i, rest) * loadPartial8(x + i, rest), rest);
    }
  }
}

}  // namespace millrace::MILLRACE_ISA
