// linear over packed weights of few multiples of their scales (isGrid), with i8 activations: as linear_packed.cc.
#if defined(__GNUC__) && !defined(__clang__)
// As in linear_packed.cc: sums stay in registers.
#pragma GCC optimize("no-tree-ter", "no-tree-reassoc")
#endif
#include "packed_tiles.h"

namespace millrace::MILLRACE_ISA {

void linearPackedGrids(const LinearArgs& args, int64_t begin, int64_t end, std::byte* scratch) {
  switch (args.weight.type) {
    case TensorType::IQ2_XXS: return runPacked<SuperKind<PackedIQ2_XXS>>(args, begin, end, scratch);
    case TensorType::IQ2_XS:
    case TensorType::IQ2_S: return runPacked<SuperKind<PackedIQ2_S>>(args, begin, end, scratch);
    case TensorType::IQ3_XXS: return runPacked<SuperKind<PackedIQ3_XXS>>(args, begin, end, scratch);
    case TensorType::IQ3_S: return runPacked<SuperKind<PackedIQ3_S>>(args, begin, end, scratch);
    case TensorType::IQ1_S: return runPacked<SuperKind<PackedIQ1_S>>(args, begin, end, scratch);
    case TensorType::IQ1_M: return runPacked<SuperKind<PackedIQ1_M>>(args, begin, end, scratch);
    case TensorType::TQ1_0:
    case TensorType::TQ2_0: return runPacked<SuperKind<PackedTQ2_0>>(args, begin, end, scratch);
    default: return;
  }
}

}  // namespace millrace::MILLRACE_ISA
