// embed: dequantised rows of the embedding matrix, scaled. A unit is a token.
#include "dequantize.h"
#include "kernel.h"
#include "simd.h"

namespace millrace {

namespace {
struct EmbedArgs {
  float* out;          // [numRows, cols]
  const int32_t* ids;  // [numRows], in [0, weight.rows)
  WeightRef weight;
  float scale;
};
}  // namespace

#ifdef MILLRACE_DECODES

Op decode(const Operands<ops::embed>& in, DecodeMemo&) {
  EmbedArgs args{};
  args.weight = in.rowWeight(ops::embed::weight);
  const int64_t numRows = in.integer(ops::embed::numRows);
  args.scale = static_cast<float>(in.number(ops::embed::scale));
  args.ids = in.indices(ops::embed::ids, numRows, 0, args.weight.rows - 1);
  args.out = in.buffer(ops::embed::out, saturatedProduct(numRows, args.weight.cols));
  in.requireApart(ops::embed::out, ops::embed::ids);
  return makeOp(OpCode::embed, args, numRows, static_cast<double>(args.weight.cols) * 0.3 + 50);
}

#endif

}  // namespace millrace

namespace millrace::MILLRACE_ISA {

void embedKernel(const Op& op, int64_t begin, int64_t end, std::byte*) {
  const EmbedArgs& args = op.args<EmbedArgs>();
  const int64_t width = args.weight.cols;
  for (int64_t m = begin; m < end; m++) {
    float* out = args.out + m * width;
    dequantize(args.weight.type, args.weight.data + args.ids[m] * args.weight.rowBytes, width, out);
    if (args.scale == 1.0f) continue;
    for (int64_t i = 0; i < width; i++) out[i] *= args.scale;
  }
}

}  // namespace millrace::MILLRACE_ISA
