// linear over packed weights with tiles (AMX).
#pragma once
#include "linear.h"

namespace millrace::MILLRACE_ISA {

// Groups [begin, end) of kPacked16BitRows weight rows, in bfloat16 with bfloat16 activations, for all tokens.
void linearBfloatTiles(const LinearArgs& args, int64_t begin, int64_t end, std::byte* scratch);

// Groups [begin, end) of kPackedRows weight rows for all tokens, with the bits of linearPacked. False: it is to do them, since the type has no tiles
// or the tokens are few.
bool linearByteTiles(const LinearArgs& args, int64_t begin, int64_t end, std::byte* scratch);

}  // namespace millrace::MILLRACE_ISA
