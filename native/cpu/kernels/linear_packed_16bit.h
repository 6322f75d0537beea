// linear over packed weights of 16 bits.
#pragma once
#include "linear.h"

namespace millrace::MILLRACE_FLOATS_ISA {

// Groups [begin, end) of kPacked16BitRows weight rows for all tokens.
void linearPacked16Bit(const LinearArgs& args, int64_t begin, int64_t end, std::byte* scratch);

}  // namespace millrace::MILLRACE_FLOATS_ISA
