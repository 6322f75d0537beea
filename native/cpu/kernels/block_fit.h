// Scales, minima and levels of a group of values for which Σ w (x − decoded)² is small; encode_rows.cc lays them out.
#pragma once
#include "feedback.h"
#include "half.h"
#include "simd.h"

namespace millrace::MILLRACE_ISA {

// A block is encoded as zeros if all its values are smaller: its scale would underflow a half.
constexpr float kTiny = 1e-12f;
constexpr float kLargestHalf = 65504.0f;

MILLRACE_INLINE float absOf(float x) { return x < 0 ? -x : x; }
MILLRACE_INLINE int boundedInt(int value, int low, int high) { return value < low ? low : value > high ? high : value; }
// Half to even, of |x| < 2^22.
MILLRACE_INLINE float rounded(float x) {
  const volatile float shifted = x + 12582912.0f;
  return shifted - 12582912.0f;
}
MILLRACE_INLINE int roundedWithin(float x, int low, int high) {
  return static_cast<int>(rounded(x < static_cast<float>(low) ? static_cast<float>(low) : x > static_cast<float>(high) ? static_cast<float>(high) : x));
}
MILLRACE_INLINE uint16_t toHalf(float x) { return floatToHalf(x > kLargestHalf ? kLargestHalf : x < -kLargestHalf ? -kLargestHalf : x); }
MILLRACE_INLINE float asHalf(float x) { return halfToFloat(toHalf(x)); }
MILLRACE_INLINE void storeU16(uint8_t* to, uint16_t value) { memcpy(to, &value, 2); }
MILLRACE_INLINE double total(f32x8 v) { return static_cast<double>(sum1(v)); }

// Values of a group with their weights.
template <int kCount>
struct Group {
  static constexpr int kVectors = kCount / 8;
  f32x8 x[kVectors];
  f32x8 w[kVectors];

  Group(const float* values, const float* weights) {
    for (int v = 0; v < kVectors; v++) {
      x[v] = load8(values + 8 * v);
      w[v] = load8(weights + 8 * v);
    }
  }
};

// Whole numbers in [kLow, kHigh].
template <int kLow, int kHigh>
struct Integers {
  static constexpr float low = kLow;
  static constexpr float high = kHigh;
  static f32x8 nearest(f32x8 x) {
    const f32x8 shifter = splat8(12582912.0f);
    return (min8(max8(x, splat8(low)), splat8(high)) + shifter) - shifter;
  }
  static int code(float level) { return static_cast<int>(level) - kLow; }
};

// Entries of a table in rising order, whose codes the type gives.
template <class Table>
struct Entries {
  static constexpr float low = Table::values[0];
  static constexpr float high = Table::values[Table::count - 1];
  static f32x8 nearest(f32x8 x) {
    f32x8 level = splat8(low);
    for (int i = 1; i < Table::count; i++) {
      const i32x8 isAbove = x > splat8(0.5f * (Table::values[i - 1] + Table::values[i]));
      const i32x8 chosen = (isAbove & reinterpret_cast<i32x8>(splat8(Table::values[i]))) | (~isAbove & reinterpret_cast<i32x8>(level));
      level = reinterpret_cast<f32x8>(chosen);
    }
    return level;
  }
  static int code(float level) {
    int i = 0;
    while (i + 1 < Table::count && Table::values[i] < level) i++;
    return Table::codes[i];
  }
};

// As dequantize.cc and src/formats/dequantize.ts have them.
struct Iq4Table {
  static constexpr int count = 16;
  static constexpr float values[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  static constexpr int codes[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
};
struct E2M1Table {
  static constexpr int count = 15;
  static constexpr float values[] = {-12, -8, -6, -4, -3, -2, -1, 0, 1, 2, 3, 4, 6, 8, 12};
  static constexpr int codes[] = {15, 14, 13, 12, 11, 10, 9, 0, 1, 2, 3, 4, 5, 6, 7};
};

template <int kCount>
float extremeOf(const float* x) {
  float extreme = 0;
  for (int i = 0; i < kCount; i++) {
    if (absOf(x[i]) > absOf(extreme)) extreme = x[i];
  }
  return extreme;
}

// Signed d for which x ≈ d · level.
template <class Levels, int kCount>
float fitScale(const float* values, const float* weights, int steps) {
  const float extreme = extremeOf<kCount>(values);
  if (!(absOf(extreme) >= kTiny)) return 0;
  const Group<kCount> group(values, weights);
  double bestGain = 0;
  float best = extreme / Levels::high;
  const auto improves = [&](float inverse) {
    f32x8 dot{};
    f32x8 norm{};
    for (int v = 0; v < group.kVectors; v++) {
      const f32x8 level = Levels::nearest(group.x[v] * splat8(inverse));
      const f32x8 weighted = group.w[v] * level;
      dot += weighted * group.x[v];
      norm += weighted * level;
    }
    const double d = total(dot);
    const double n = total(norm);
    if (!(n > 0) || !(d * d > bestGain * n)) return false;
    bestGain = d * d / n;
    best = static_cast<float>(d / n);
    return true;
  };
  for (int k = -steps; k <= steps; k++) {
    const float shift = 0.1f * static_cast<float>(k) * (Levels::high / 8.0f > 1 ? Levels::high / 8.0f : 1);
    improves((Levels::high + shift) / extreme);
    improves((Levels::low - shift) / extreme);
  }
  for (int again = 0; again < 6 && improves(1.0f / best); again++) {
  }
  return best;
}

// x ≈ d · level + base, with levels from 0 to kHigh.
struct Range {
  float d;
  float base;
};

// @param kIsNegative base is at most 0
template <int kHigh, int kCount, bool kIsNegative>
Range fitRange(const float* values, const float* weights) {
  using Levels = Integers<0, kHigh>;
  float low = values[0];
  float high = values[0];
  for (int i = 1; i < kCount; i++) {
    if (values[i] < low) low = values[i];
    if (values[i] > high) high = values[i];
  }
  if (kIsNegative && low > 0) low = 0;
  if (kIsNegative && high < 0) high = 0;
  if (!(high - low >= kTiny)) return {0, low};
  const Group<kCount> group(values, weights);
  f32x8 sums[3] = {};
  for (int v = 0; v < group.kVectors; v++) {
    sums[0] += group.w[v];
    sums[1] += group.w[v] * group.x[v];
    sums[2] += group.w[v] * group.x[v] * group.x[v];
  }
  const double w = total(sums[0]);
  const double wx = total(sums[1]);
  const double wxx = total(sums[2]);
  double bestError = -1;
  Range best{(high - low) / kHigh, low};
  const auto improves = [&](Range range) {
    const f32x8 inverse = splat8(1.0f / range.d);
    f32x8 q1{};
    f32x8 q2{};
    f32x8 qx{};
    for (int v = 0; v < group.kVectors; v++) {
      const f32x8 level = Levels::nearest((group.x[v] - splat8(range.base)) * inverse);
      const f32x8 weighted = group.w[v] * level;
      q1 += weighted;
      q2 += weighted * level;
      qx += weighted * group.x[v];
    }
    const double wq = total(q1);
    const double wqq = total(q2);
    const double wqx = total(qx);
    const double determinant = w * wqq - wq * wq;
    if (!(wqq > 0) || !(determinant > 1e-9 * w * wqq)) return false;
    double d = (w * wqx - wq * wx) / determinant;
    double base = (wqq * wx - wq * wqx) / determinant;
    if (kIsNegative && base > 0) {
      base = 0;
      d = wqx / wqq;
    }
    const double error = wxx - 2 * d * wqx - 2 * base * wx + d * d * wqq + 2 * d * base * wq + base * base * w;
    if (!(d > 0) || (bestError >= 0 && !(error < bestError))) return false;
    bestError = error;
    best = {static_cast<float>(d), static_cast<float>(base)};
    return true;
  };
  for (int k = -10; k <= 10; k++) {
    const float shrink = 1.0f + 0.05f * static_cast<float>(k) / (kHigh > 7 ? 2.0f : 1.0f);
    const Range around{(high - low) / kHigh * shrink, low};
    // Above and below the middle alike.
    improves({around.d, low});
    improves({around.d, high - around.d * kHigh > 0 && kIsNegative ? 0 : high - around.d * kHigh});
  }
  for (int again = 0; again < 6 && improves(best); again++) {
  }
  return best;
}

// Σ w (x − (d · level + base))², of the nearest levels; codes, where asked for, get them.
template <class Levels, int kCount>
double errorOf(const float* values, const float* weights, float d, float base, uint8_t* codes = nullptr) {
  const f32x8 inverse = splat8(d == 0 ? 0 : 1.0f / d);
  f32x8 error{};
  for (int i = 0; i < kCount; i += 8) {
    const f32x8 x = load8(values + i);
    const f32x8 level = Levels::nearest((x - splat8(base)) * inverse);
    const f32x8 gap = x - (splat8(d) * level + splat8(base));
    error += load8(weights + i) * gap * gap;
    if (codes == nullptr) continue;
    for (int lane = 0; lane < 8; lane++) codes[i + lane] = static_cast<uint8_t>(Levels::code(level[lane]));
  }
  return total(error);
}

// Writes each value's nearest level. With feedback, x is its targets, and values are settled from the last to the
// first, because each one changes the targets before it.
// @param offset of the group in its block
template <class Levels, int kCount>
void assign(const float* x, float d, float base, uint8_t* codes, BlockFeedback* feedback, int offset = 0) {
  const f32x8 inverse = splat8(d == 0 ? 0 : 1.0f / d);
  if (feedback == nullptr) {
    for (int i = 0; i < kCount; i += 8) {
      const f32x8 level = Levels::nearest((load8(x + i) - splat8(base)) * inverse);
      for (int lane = 0; lane < 8; lane++) codes[i + lane] = static_cast<uint8_t>(Levels::code(level[lane]));
    }
    return;
  }
  for (int i = kCount - 1; i >= 0; i--) {
    const float level = Levels::nearest((splat8(x[i]) - splat8(base)) * inverse)[0];
    codes[i] = static_cast<uint8_t>(Levels::code(level));
    feedback->settle(offset + i, d * level + base);
  }
}

}  // namespace millrace::MILLRACE_ISA
