// linear over packed weights with super-blocks of 256 values: as linear_packed.cc.
#if defined(__GNUC__) && !defined(__clang__)
// As in linear_packed.cc: sums stay in registers.
#pragma GCC optimize("no-tree-ter", "no-tree-reassoc")
#endif
#include "packed_tiles.h"

namespace millrace::MILLRACE_ISA {

void linearPackedSuperBlocks(const LinearArgs& args, int64_t begin, int64_t end, std::byte* scratch) {
  switch (args.weight.type) {
    case TensorType::Q2_K: return runPacked<SuperKind<PackedQ2_K>>(args, begin, end, scratch);
    case TensorType::Q3_K: return runPacked<SuperKind<PackedQ3_K>>(args, begin, end, scratch);
    case TensorType::Q4_K: return runPacked<SuperKind<PackedQ4_K>>(args, begin, end, scratch);
    case TensorType::Q5_K: return runPacked<SuperKind<PackedQ5_K>>(args, begin, end, scratch);
    case TensorType::Q6_K: return runPacked<SuperKind<PackedQ6_K>>(args, begin, end, scratch);
    default: return linearPackedGrids(args, begin, end, scratch);
  }
}

}  // namespace millrace::MILLRACE_ISA
