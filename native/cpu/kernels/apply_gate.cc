// applyGate: products with a function of a gate. A unit is a row.
#include "activation.h"

namespace millrace {

namespace {
struct ApplyGateArgs {
  float* x;           // [M, width]
  const float* gate;  // [M, gateWidth]
  int64_t width;
  int64_t gateWidth;
  Gate kind;
};
}  // namespace

#ifdef MILLRACE_DECODES

Op decode(const Operands<ops::applyGate>& in, DecodeMemo&) {
  using ops::applyGate;
  ApplyGateArgs args{};
  const int64_t numRows = in.integer(applyGate::numRows);
  args.width = in.integer(applyGate::width);
  args.gateWidth = in.integer(applyGate::gateWidth);
  if (args.gateWidth != args.width && args.gateWidth != 1) {
    in.refuse(applyGate::gateWidth, std::to_string(args.width) + " or 1", static_cast<double>(args.gateWidth));
  }
  args.kind = in.code(applyGate::kind);
  args.x = in.buffer(applyGate::x, saturatedProduct(numRows, args.width));
  args.gate = in.buffer(applyGate::gate, saturatedProduct(numRows, args.gateWidth));
  in.requireApart(applyGate::x, applyGate::gate);
  return makeOp(OpCode::applyGate, args, numRows, static_cast<double>(args.width) + 20);
}

#endif

}  // namespace millrace

namespace millrace::MILLRACE_ISA {

namespace {

constexpr int kVectors = 4;
constexpr int64_t kValues = 8 * kVectors;

// values[i] ·= kind(gates[i]), for kValues of them.
void gateValues(float* values, const float* gates, Gate kind) {
  f32x8 x[kVectors], y[kVectors];
  MILLRACE_UNROLL
  for (int j = 0; j < kVectors; j++) {
    y[j] = load8(gates + 8 * j);
    x[j] = kind == Gate::silu ? y[j] : splat8(1.0f);
  }
  divideByOnePlusExpOfMinus(x, y);
  MILLRACE_UNROLL
  for (int j = 0; j < kVectors; j++) store8(values + 8 * j, load8(values + 8 * j) * x[j]);
}

void gateRow(const ApplyGateArgs& args, int64_t m) {
  float* x = args.x + m * args.width;
  const float* gates = args.gate + m * args.gateWidth;
  float same[kValues];
  if (args.gateWidth != args.width) {
    for (float& gate : same) gate = gates[0];
  }
  const auto from = [&](int64_t i) { return args.gateWidth == args.width ? gates + i : same; };
  int64_t i = 0;
  for (; i + kValues <= args.width; i += kValues) gateValues(x + i, from(i), args.kind);
  if (i == args.width) return;
  const size_t rest = static_cast<size_t>(args.width - i) * sizeof(float);
  float values[kValues] = {};
  float ownGates[kValues] = {};
  memcpy(values, x + i, rest);
  memcpy(ownGates, from(i), rest);
  gateValues(values, ownGates, args.kind);
  memcpy(x + i, values, rest);
}

}  // namespace

void applyGateKernel(const Op& op, int64_t begin, int64_t end, std::byte*) {
  const ApplyGateArgs& args = op.args<ApplyGateArgs>();
  for (int64_t m = begin; m < end; m++) gateRow(args, m);
}

}  // namespace millrace::MILLRACE_ISA
