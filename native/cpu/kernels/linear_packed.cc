// linear over packed weights whose products are those of integers or of f32. Types of super-blocks and those of isGrid
// have files of their own (linear_packed_super_blocks.cc, linear_packed_grids.cc), which compile at the same time.
#if defined(__GNUC__) && !defined(__clang__)
// The tiles are written in the order that keeps sums in registers; these two passes undo it and cost half the speed.
#pragma GCC optimize("no-tree-ter", "no-tree-reassoc")
#endif
#include "packed_tiles.h"

namespace millrace::MILLRACE_ISA {

void linearPacked(const LinearArgs& args, int64_t begin, int64_t end, std::byte* scratch) {
  switch (args.weight.type) {
    case TensorType::Q4_0: return runPacked<BlockKind<PackedQ4_0>>(args, begin, end, scratch);
    case TensorType::Q4_1: return runPacked<BlockKind<PackedQ4_1>>(args, begin, end, scratch);
    case TensorType::Q5_0: return runPacked<BlockKind<PackedQ5_0>>(args, begin, end, scratch);
    case TensorType::Q5_1: return runPacked<BlockKind<PackedQ5_1>>(args, begin, end, scratch);
    case TensorType::Q8_0: return runPacked<WideKind<PackedBytes<TensorType::Q8_0>>>(args, begin, end, scratch);
    case TensorType::Q8_0_INT8: return runPacked<BlockKind<PackedCentredBytes<TensorType::Q8_0_INT8>>>(args, begin, end, scratch);
    case TensorType::I8: return runPacked<WideKind<PackedBytes<TensorType::I8>>>(args, begin, end, scratch);
    case TensorType::I8_INT8: return runPacked<BlockKind<PackedCentredBytes<TensorType::I8_INT8>>>(args, begin, end, scratch);
    case TensorType::F8_E4M3: return runPacked<FloatKind<PackedF8>>(args, begin, end, scratch);
    case TensorType::MXFP4: return runPacked<BlockKind<PackedMXFP4>>(args, begin, end, scratch);
    case TensorType::NVFP4:
    case TensorType::NVFP4_SCALED: return runPacked<BlockKind<PackedNVFP4>>(args, begin, end, scratch);
    case TensorType::IQ4_XS: return runPacked<WideKind<PackedIQ4_XS>>(args, begin, end, scratch);
    case TensorType::IQ4_NL: return runPacked<WideKind<PackedIQ4_NL>>(args, begin, end, scratch);
    default: return linearPackedSuperBlocks(args, begin, end, scratch);
  }
}

}  // namespace millrace::MILLRACE_ISA
