// Turns stored weights into f32, exactly as GGML defines each type.
#pragma once
#include <cstdint>

#include "isa.h"
#include "tensor_type.h"

namespace millrace::MILLRACE_COMMON_ISA {

// `numValues` values of a row from `source` into `out`; numValues is a multiple of the type's block.
void dequantize(TensorType type, const uint8_t* source, int64_t numValues, float* out);

}  // namespace millrace::MILLRACE_COMMON_ISA
