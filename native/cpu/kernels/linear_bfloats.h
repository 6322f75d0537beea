// linear over bfloat16 weights and bfloat16 activations.
#pragma once
#include "linear.h"

namespace millrace::MILLRACE_BFLOATS_ISA {

// Weight rows [n0, n1), rows as the file has them, for all tokens.
void linearBfloats(const LinearArgs& args, int64_t n0, int64_t n1, std::byte* scratch);

}  // namespace millrace::MILLRACE_BFLOATS_ISA
