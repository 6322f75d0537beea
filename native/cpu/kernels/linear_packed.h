// linear over packed weights, and activations in the format of their type (packed.h).
#pragma once
#include "linear.h"

namespace millrace::MILLRACE_BYTES_ISA {

// Groups [begin, end) of kPackedRows weight rows for all tokens. linearPacked leaves types of super-blocks to the
// second, and that those of isGrid to the third.
void linearPacked(const LinearArgs& args, int64_t begin, int64_t end, std::byte* scratch);
void linearPackedSuperBlocks(const LinearArgs& args, int64_t begin, int64_t end, std::byte* scratch);
void linearPackedGrids(const LinearArgs& args, int64_t begin, int64_t end, std::byte* scratch);

}  // namespace millrace::MILLRACE_BYTES_ISA
