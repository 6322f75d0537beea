// linear over packed weights and bfloat16 activations.
#pragma once
#include "linear.h"

namespace millrace::MILLRACE_FLOATS_ISA {

// Groups [begin, end) of kPackedRows weight rows for all tokens.
void linearPackedBfloats(const LinearArgs& args, int64_t begin, int64_t end, std::byte* scratch);

}  // namespace millrace::MILLRACE_FLOATS_ISA
