// linear over packed weights, and activations in the format of their type (packed.h).
#pragma once
#include "linear.h"

namespace millrace::MILLRACE_BYTES_ISA {

// Groups [begin, end) of kPackedRows weight rows for all tokens.
void linearPacked(const LinearArgs& args, int64_t begin, int64_t end, std::byte* scratch);
void linearPackedGrids(const LinearArgs& args, int64_t begin, int64_t end, std::byte* scratch);

}  // namespace millrace::MILLRACE_BYTES_ISA
