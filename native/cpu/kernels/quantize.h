// Operands of `quantize`, whose rows `dispatchRows` rounds too.
#pragma once
#include "kernel.h"
#include "packed.h"

namespace millrace {

struct QuantizeArgs {
  uint8_t* out;    // [M] rows of activationRowBytes(format, width)
  const float* x;  // [M, width]
  int64_t width;
  ActivationFormat format;
};

#ifdef MILLRACE_DECODES

template <typename Name>
void requireWholeBlocks(const Operands<Name>& in, const operand::Integer<Name>& at, int64_t width, ActivationFormat format) {
  const int64_t block = activationBlock(format);
  if (width % block != 0) in.refuse(at, "a multiple of " + std::to_string(block), static_cast<double>(width));
}

#endif

}  // namespace millrace
