// gatedActivation: SiLU or tanh-GELU of the gate, times up. Both are x · sigmoid(y): y = x for SiLU and, because
// (1 + tanh u) / 2 = sigmoid(2u), y = 2 · √(2/π) · (x + 0.044715 x³) for GELU. A unit is kElementwiseUnit values.
#include "kernel.h"
#include "math.h"

namespace millrace::MILLRACE_ISA {

template <bool kIsGelu>
static void run(const GatedActivationArgs& args, int64_t first, int64_t last) {
  constexpr int kVectors = 4;
  const auto activate = [](f32x8(&x)[kVectors]) {
    f32x8 y[kVectors];
    MILLRACE_UNROLL
    for (int j = 0; j < kVectors; j++) {
      y[j] = x[j];
      if (kIsGelu) y[j] = x[j] * fma8(x[j] * x[j], splat8(0.044715f), splat8(1.0f)) * splat8(1.5957691216057308f);
    }
    divideByOnePlusExpOfMinus(x, y);
  };
  f32x8 x[kVectors];
  int64_t i = first;
  for (; i + 8 * kVectors <= last; i += 8 * kVectors) {
    MILLRACE_UNROLL
    for (int j = 0; j < kVectors; j++) x[j] = load8(args.gate + i + 8 * j);
    activate(x);
    MILLRACE_UNROLL
    for (int j = 0; j < kVectors; j++) store8(args.out + i + 8 * j, x[j] * load8(args.up + i + 8 * j));
  }
  if (i == last) return;
  int64_t counts[kVectors];
  for (int j = 0; j < kVectors; j++) {
    counts[j] = minOf(maxOf(last - i - 8 * j, 0), 8);
    x[j] = loadPartial8(args.gate + i + 8 * j, counts[j]);
  }
  activate(x);
  for (int j = 0; j < kVectors; j++) {
    const int64_t at = i + 8 * j;
    storePartial8(args.out + at, x[j] * loadPartial8(args.up + at, counts[j]), counts[j]);
  }
}

void gatedActivationKernel(const Op& op, int64_t begin, int64_t end, std::byte*) {
  const GatedActivationArgs& args = op.gatedActivation;
  const int64_t first = begin * kElementwiseUnit;
  const int64_t last = minOf(end * kElementwiseUnit, args.numValues);
  if (args.isGelu) run<true>(args, first, last);
  else run<false>(args, first, last);
}

}  // namespace millrace::MILLRACE_ISA
