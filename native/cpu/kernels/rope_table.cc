// ropeTable: cosines and sines of position · frequency, in double so that large positions keep their phase. A unit is a
// token.
#include <cmath>

#include "kernel.h"
#include "math.h"

namespace millrace {

namespace {
struct RopeTableArgs {
  float* out;  // [M, half, 2]: cos, sin
  const int32_t* positions;
  const float* invFreq;
  int64_t half;
  double magnitude;
};
}  // namespace

#ifdef MILLRACE_DECODES

Op decode(const Operands<ops::ropeTable>& in, DecodeMemo&) {
  RopeTableArgs args{};
  const int64_t numRows = in.integer(ops::ropeTable::numRows);
  args.half = in.integer(ops::ropeTable::half);
  args.magnitude = in.number(ops::ropeTable::magnitude);
  args.out = in.buffer(ops::ropeTable::out, saturatedProduct(numRows, args.half, 2));
  args.positions = in.buffer(ops::ropeTable::positions, numRows);
  args.invFreq = in.buffer(ops::ropeTable::invFreq, args.half);
  return makeOp(OpCode::ropeTable, args, numRows, static_cast<double>(args.half) * 30 + 10);
}

#endif

}  // namespace millrace

namespace millrace::MILLRACE_ISA {

void ropeTableKernel(const Op& op, int64_t begin, int64_t end, std::byte*) {
  const RopeTableArgs& args = op.args<RopeTableArgs>();
  for (int64_t m = begin; m < end; m++) {
    const double position = args.positions[m];
    float* out = args.out + m * args.half * 2;
    for (int64_t first = 0; first < args.half; first += 4) {
      const int64_t count = minOf(4, args.half - first);
      f64x4 angle = {}, cosine, sine;
      for (int64_t i = 0; i < count; i++) angle[i] = position * static_cast<double>(args.invFreq[first + i]);
      cosAndSin4(angle, &cosine, &sine);
      for (int64_t i = 0; i < count; i++) {
        // No model's frequencies lead beyond; the library reduces any angle.
        const bool isBeyond = !(std::fabs(angle[i]) < kMaxAngle);
        out[2 * (first + i)] = static_cast<float>((isBeyond ? std::cos(angle[i]) : cosine[i]) * args.magnitude);
        out[2 * (first + i) + 1] = static_cast<float>((isBeyond ? std::sin(angle[i]) : sine[i]) * args.magnitude);
      }
    }
  }
}

}  // namespace millrace::MILLRACE_ISA
