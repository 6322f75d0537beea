// ropeTable: cosines and sines of position · frequency, in double so that large positions keep their phase. A unit is a token.
#include <cmath>

#include "kernel.h"

namespace millrace::MILLRACE_ISA {

void ropeTableKernel(const Op& op, int64_t begin, int64_t end, std::byte*) {
  const RopeTableArgs& args = op.ropeTable;
  for (int64_t m = begin; m < end; m++) {
    float* out = args.out + m * args.half * 2;
    for (int64_t i = 0; i < args.half; i++) {
      const double angle = static_cast<double>(args.positions[m]) * static_cast<double>(args.invFreq[i]);
      out[2 * i] = static_cast<float>(std::cos(angle) * args.magnitude);
      out[2 * i + 1] = static_cast<float>(std::sin(angle) * args.magnitude);
    }
  }
}

}  // namespace millrace::MILLRACE_ISA
