// The tensor types kernels read: block geometry only; the bit layouts are in dequantize.cc. Ids are private to the
// addon. Four name another product of a packed type: Q8_0_INT8 and I8_INT8 are Q8_0 and I8 multiplied with int8
// activations, BF16_BF16 and F8_E4M3_BF16 are BF16 and F8_E4M3 multiplied with bfloat16 ones. NVFP4_SCALED is NVFP4
// with an f32 in front of each block: the scale of its matrix, the same in all blocks of a row.
#pragma once
#include <cstdint>

namespace millrace {

enum class TensorType : uint8_t { F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS, MXFP4, F8_E4M3, I8, Q8_0_INT8, BF16_BF16, I8_INT8, F8_E4M3_BF16, NVFP4, NVFP4_SCALED,
                                 IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS, IQ3_S, IQ1_S, IQ1_M, TQ1_0, TQ2_0 };

struct TensorTypeInfo {
  const char* name;
  int32_t blockValues;
  int32_t blockBytes;
};

// In the order of TensorType.
constexpr TensorTypeInfo kTensorTypes[] = {
    {"F32", 1, 4},     {"F16", 1, 2},     {"BF16", 1, 2},     {"Q8_0", 32, 34},    {"Q4_0", 32, 18},    {"Q4_1", 32, 20},
    {"Q5_0", 32, 22},  {"Q5_1", 32, 24},  {"Q2_K", 256, 84},  {"Q3_K", 256, 110},  {"Q4_K", 256, 144},  {"Q5_K", 256, 176},
    {"Q6_K", 256, 210}, {"IQ4_NL", 32, 18}, {"IQ4_XS", 256, 136}, {"MXFP4", 32, 17}, {"F8_E4M3", 32, 36}, {"I8", 32, 36}, {"Q8_0_INT8", 32, 34},
    {"BF16_BF16", 1, 2}, {"I8_INT8", 32, 36}, {"F8_E4M3_BF16", 32, 36}, {"NVFP4", 64, 36}, {"NVFP4_SCALED", 64, 40},
    {"IQ2_XXS", 256, 66}, {"IQ2_XS", 256, 74}, {"IQ2_S", 256, 82}, {"IQ3_XXS", 256, 98}, {"IQ3_S", 256, 110},
    {"IQ1_S", 256, 50}, {"IQ1_M", 256, 56}, {"TQ1_0", 256, 54},  {"TQ2_0", 256, 66},
};
constexpr int kNumTensorTypes = sizeof(kTensorTypes) / sizeof(kTensorTypes[0]);

constexpr const TensorTypeInfo& infoOf(TensorType type) { return kTensorTypes[static_cast<int>(type)]; }

}  // namespace millrace
