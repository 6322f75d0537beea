// ropeTable: cosines and sines of position · frequency, in double so that large positions keep their phase. A unit is a token.
#include <cmath>

#include "kernel.h"
#include "math.h"

namespace millrace::MILLRACE_ISA {

void ropeTableKernel(const Op& op, int64_t begin, int64_t end, std::byte*) {
  const RopeTableArgs& args = op.ropeTable;
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
