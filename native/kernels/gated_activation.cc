// gatedActivation: SiLU or tanh-GELU of the gate, times up. Both are x · sigmoid(y): y = x for SiLU and, because
// (1 + tanh u) / 2 = sigmoid(2u), y = 2 · √(2/π) · (x + 0.044715 x³) for GELU. A unit is kElementwiseUnit values.
#include "kernel.h"
#include "math.h"

namespace millrace::MILLRACE_ISA {

template <bool kIsGelu>
MILLRACE_INLINE f32x8 activate(f32x8 x) {
  f32x8 y = x;
  if (kIsGelu) {
    const f32x8 inner = fma8(x * x, splat8(0.044715f), splat8(1.0f));
    y = x * inner * splat8(1.5957691216057308f);
  }
  return x / (splat8(1.0f) + exp8(-y));
}

template <bool kIsGelu>
static void run(const GatedActivationArgs& args, int64_t first, int64_t last) {
  int64_t i = first;
  for (; i + 8 <= last; i += 8) store8(args.out + i, activate<kIsGelu>(load8(args.gate + i)) * load8(args.up + i));
  const int64_t tail = last - i;
  if (tail > 0) {
    storePartial8(args.out + i, activate<kIsGelu>(loadPartial8(args.gate + i, tail)) * loadPartial8(args.up + i, tail), tail);
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
