// Plain scalar versions of the arithmetic, in double, written from the definitions and sharing nothing with the
// kernels.
#pragma once
#include <cstdint>
#include <vector>

#include "../kernels/tensor_type.h"

namespace millrace::test {

double referenceFromHalf(uint16_t half);
uint16_t referenceToHalf(float value);
// The nearest bfloat16, as f32; ties to even.
float referenceToBfloat(float value);
// Value `index` of a row of `type`.
double referenceValue(TensorType type, const uint8_t* row, int64_t index);
// [rows, cols]
std::vector<double> referenceMatrix(TensorType type, const std::vector<uint8_t>& bytes, int64_t rows, int64_t cols);

// x: [M, K], w: [N, K] → [M, N]; magnitudes: Σ|x·w| per output, the scale of its rounding error.
std::vector<double> referenceLinear(const std::vector<float>& x, const std::vector<double>& w, int64_t numRows, int64_t numOut, int64_t numCols,
                                    std::vector<double>* magnitudes = nullptr);

// One query [headDim] against keys and values [numEntries, headDim]; sink: one more score, without a value (−HUGE_VAL:
// none).
std::vector<double> referenceAttention(const float* q, const std::vector<const float*>& keys, const std::vector<const float*>& values,
                                       int64_t headDim, double scale, double cap, double sink);

// Standard Gumbel noise of (seed, position, id).
double referenceNoise(uint64_t seed, uint64_t position, uint64_t id);

}  // namespace millrace::test
