// embed: dequantised rows of the embedding matrix, scaled. A unit is a token.
#include "dequantize.h"
#include "kernel.h"
#include "simd.h"

namespace millrace::MILLRACE_ISA {

void embedKernel(const Op& op, int64_t begin, int64_t end, std::byte*) {
  const EmbedArgs& args = op.embed;
  const int64_t width = args.weight.cols;
  for (int64_t m = begin; m < end; m++) {
    float* out = args.out + m * width;
    dequantize(args.weight.type, args.weight.data + args.ids[m] * args.weight.rowBytes, width, out);
    if (args.scale == 1.0f) continue;
    for (int64_t i = 0; i < width; i++) out[i] *= args.scale;
  }
}

}  // namespace millrace::MILLRACE_ISA
