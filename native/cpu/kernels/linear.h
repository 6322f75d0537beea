// A linear layer: its decoded operands, which `linear` has once and `gatedLinear` twice, and how they are read.
#pragma once
#include "kernel.h"

namespace millrace {

// A unit of `linear` and `gatedLinear` is this many weight rows.
constexpr int64_t kLinearRows = 16;
static_assert(kLinearRows == kPacked16BitRows && kLinearRows % kPackedRows == 0);
// Tokens that `linear` carries through one pass over the weights; bounds its scratch.
constexpr int64_t kLinearPassTokens = 512;
// Weights are dequantised this many columns at a time; a multiple of every block.
constexpr int64_t kLinearBlockCols = 512;

struct LinearArgs {
  float* out;         // [M, N]
  const float* x;     // [M, K], or rows of the format that activationsOf names
  const float* bias;  // [N] or null
  int64_t numRows;    // M
  WeightRef weight;   // [N, K]
  bool accumulate;
};

// Operands of `gatedLinear`: gate.out = activation(gate) · up; up.out is scratch of the operation.
struct GatedLinearArgs {
  LinearArgs gate;
  LinearArgs up;
  Activation activation;
};

constexpr int64_t linearScratchBytes(int64_t numTokens) {
  const int64_t passTokens = numTokens < kLinearPassTokens ? numTokens : kLinearPassTokens;
  return kLinearRows * kLinearBlockCols * 4 + kLinearRows * passTokens * 16 * 4;
}

#ifdef MILLRACE_DECODES

template <typename Name>
struct LinearOperands {
  operand::Buffer<Name, float> out;
  operand::Activations<Name> x;
  operand::Weight<Name> weight;
  operand::OptionalBuffer<Name, const float> bias;
};

// out = x · weightᵀ (+ bias) of numRows rows. Returns its nanoseconds a unit.
template <typename Name>
double readLinear(const Operands<Name>& in, const LinearOperands<Name>& at, int64_t numRows, LinearArgs& args) {
  args.weight = in.weight(at.weight);
  args.numRows = numRows;
  args.accumulate = false;
  args.out = in.buffer(at.out, saturatedProduct(numRows, args.weight.rows));
  const ActivationFormat format = activationsOf(args.weight.type, args.weight.isPacked);
  args.x = in.activations(at.x, numRows, format, args.weight.cols);
  args.bias = in.optionalBuffer(at.bias, args.weight.rows);
  in.requireApart(at.out, at.x);
  // A share for reading the weights and a share for the arithmetic.
  const double nanosPerMac = format == ActivationFormat::f32 ? 0.03 : 0.01;
  return static_cast<double>(kLinearRows * args.weight.cols) * (0.06 + nanosPerMac * static_cast<double>(numRows));
}

template <typename Args>
Op makeLinearOp(OpCode code, const LinearArgs& layer, double nanosPerUnit, const Args& args) {
  const int64_t numUnits = layer.numRows == 0 ? 0 : (layer.weight.rows + kLinearRows - 1) / kLinearRows;
  return makeOp(code, args, numUnits, nanosPerUnit, linearScratchBytes(layer.numRows));
}

#endif

}  // namespace millrace
