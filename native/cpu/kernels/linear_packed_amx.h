// linear over packed weights with tiles (AMX): simd_tiles.h.
#pragma once
#include "linear.h"

namespace millrace::MILLRACE_ISA {

// Groups [begin, end) of kPacked16BitRows weight rows, in bfloat16 with bfloat16 activations, for all tokens.
void linearBfloatTiles(const LinearArgs& args, int64_t begin, int64_t end, std::byte* scratch);

// Whether weights of a type are multiplied with so many tokens in tiles of bytes.
bool hasByteTiles(TensorType type, int64_t numTokens);

// Groups [begin, end) of kPackedRows weight rows for all tokens, with the bits of linearPacked.
void linearByteTiles(const LinearArgs& args, int64_t begin, int64_t end, std::byte* scratch);

}  // namespace millrace::MILLRACE_ISA
