// gatedLinear: two linear layers of the same shape, then an activation of the first, times the second, while both are in the cache. A unit
// is kLinearRows rows of both weights for all tokens.
//
// All activations are x · sigmoid(y): y = x for SiLU and, because (1 + tanh u) / 2 = sigmoid(2u), y = 2 · √(2/π) · (x + 0.044715 x³) for GELU.
// The clamped SwiGLU of gpt-oss has a bounded x, y = 1.702 x, and multiplies by one more than a bounded up.
#include "linear.h"
#include "math.h"

namespace millrace {

#ifdef MILLRACE_DECODES

Op decode(const Operands<ops::gatedLinear>& in, DecodeMemo&) {
  using ops::gatedLinear;
  const int64_t numRows = in.integer(gatedLinear::numRows);
  GatedLinearArgs args;
  const double gateNanos =
      readLinear(in, {gatedLinear::out, gatedLinear::gateX, gatedLinear::gateWeight, gatedLinear::gateBias}, numRows, args.gate);
  const double upNanos = readLinear(in, {gatedLinear::scratch, gatedLinear::upX, gatedLinear::upWeight, gatedLinear::upBias}, numRows, args.up);
  args.activation = in.code(gatedLinear::kind);
  if (args.gate.weight.rows != args.up.weight.rows) {
    in.refuse(gatedLinear::upWeight, std::to_string(args.gate.weight.rows) + " rows, as the gate has", static_cast<double>(args.up.weight.rows));
  }
  in.requireApart(gatedLinear::scratch, gatedLinear::out);
  in.requireApart(gatedLinear::scratch, gatedLinear::gateX);
  in.requireApart(gatedLinear::out, gatedLinear::upX);
  return makeLinearOp(OpCode::gatedLinear, args.gate, gateNanos + upNanos, args);
}

#endif

}  // namespace millrace

namespace millrace::MILLRACE_ISA {

constexpr float kSwigluAlpha = 1.702f;
constexpr float kSwigluLimit = 7.0f;

// gate = activation(gate) · up
template <Activation kKind>
static void activateValues(float* gate, const float* up, int64_t count) {
  constexpr int kVectors = 4;
  constexpr bool kIsClamped = kKind == Activation::clampedSwiglu;
  // The operand that a NaN must come through stands second: min8 and max8 give their second one then.
  const auto boundedAbove = [](f32x8 value) { return min8(splat8(kSwigluLimit), value); };
  const auto factor = [&](f32x8 value) {
    return kIsClamped ? max8(splat8(-kSwigluLimit), boundedAbove(value)) + splat8(1.0f) : value;
  };
  const auto activate = [&](f32x8(&x)[kVectors]) {
    f32x8 y[kVectors];
    MILLRACE_UNROLL
    for (int j = 0; j < kVectors; j++) {
      if (kIsClamped) x[j] = boundedAbove(x[j]);
      y[j] = kIsClamped ? x[j] * splat8(kSwigluAlpha) : x[j];
      if (kKind == Activation::geluTanh) y[j] = x[j] * fma8(x[j] * x[j], splat8(0.044715f), splat8(1.0f)) * splat8(1.5957691216057308f);
    }
    divideByOnePlusExpOfMinus(x, y);
  };
  f32x8 x[kVectors];
  int64_t i = 0;
  for (; i + 8 * kVectors <= count; i += 8 * kVectors) {
    MILLRACE_UNROLL
    for (int j = 0; j < kVectors; j++) x[j] = load8(gate + i + 8 * j);
    activate(x);
    MILLRACE_UNROLL
    for (int j = 0; j < kVectors; j++) store8(gate + i + 8 * j, x[j] * factor(load8(up + i + 8 * j)));
  }
  if (i == count) return;
  int64_t counts[kVectors];
  for (int j = 0; j < kVectors; j++) {
    counts[j] = minOf(maxOf(count - i - 8 * j, 0), 8);
    x[j] = loadPartial8(gate + i + 8 * j, counts[j]);
  }
  activate(x);
  for (int j = 0; j < kVectors; j++) {
    const int64_t at = i + 8 * j;
    storePartial8(gate + at, x[j] * factor(loadPartial8(up + at, counts[j])), counts[j]);
  }
}

void gatedLinearKernel(const Op& op, int64_t begin, int64_t end, std::byte* scratch) {
  const GatedLinearArgs& args = op.args<GatedLinearArgs>();
  Op half{};
  half.args<LinearArgs>() = args.gate;
  linearKernel(half, begin, end, scratch);
  half.args<LinearArgs>() = args.up;
  linearKernel(half, begin, end, scratch);
  const int64_t width = args.gate.weight.rows;
  const int64_t first = begin * kLinearRows;
  const int64_t count = minOf(end * kLinearRows, width) - first;
  for (int64_t m = 0; m < args.gate.numRows; m++) {
    float* gate = args.gate.out + m * width + first;
    const float* up = args.up.out + m * width + first;
    switch (args.activation) {
      case Activation::silu: activateValues<Activation::silu>(gate, up, count); break;
      case Activation::geluTanh: activateValues<Activation::geluTanh>(gate, up, count); break;
      case Activation::clampedSwiglu: activateValues<Activation::clampedSwiglu>(gate, up, count); break;
    }
  }
}

}  // namespace millrace::MILLRACE_ISA
