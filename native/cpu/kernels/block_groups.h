// Blocks of K-quants: 256 values in groups, whose scales are small integers of factors that the block has once.
#pragma once
#include "block_fit.h"

namespace millrace::MILLRACE_ISA {

constexpr int kRounds = 3;

// Searches the groups' integers, and solves for their factors and searches again, as long as the error falls.
template <class Groups>
void refine(Groups& groups, const float* x, const float* w) {
  double error = groups.search(x, w);
  for (int round = 0; round < kRounds; round++) {
    Groups next = groups;
    if (!next.solve(x, w)) break;
    const double nextError = next.search(x, w);
    if (!(nextError < error)) break;
    error = nextError;
    groups = next;
  }
}

// Groups of kGroup values, each with scale · d and, below it, minimum · dmin; both integers are in [0, kMost].
template <int kHigh, int kGroup, int kMost>
struct RangedGroups {
  static constexpr int kGroups = 256 / kGroup;
  using Levels = Integers<0, kHigh>;
  uint16_t d = 0;
  uint16_t dmin = 0;
  uint8_t scales[kGroups] = {};
  uint8_t minima[kGroups] = {};
  uint8_t codes[256];

  RangedGroups(const float* x, const float* w, BlockFeedback* feedback) {
    Range ranges[kGroups];
    float largest = 0;
    float largestMin = 0;
    for (int g = 0; g < kGroups; g++) {
      ranges[g] = fitRange<kHigh, kGroup, true>(x + g * kGroup, w + g * kGroup);
      if (ranges[g].d > largest) largest = ranges[g].d;
      if (-ranges[g].base > largestMin) largestMin = -ranges[g].base;
    }
    d = toHalf(largest / kMost);
    dmin = toHalf(largestMin / kMost);
    const float inverse = halfToFloat(d) > 0 ? 1.0f / halfToFloat(d) : 0;
    const float inverseMin = halfToFloat(dmin) > 0 ? 1.0f / halfToFloat(dmin) : 0;
    for (int g = 0; g < kGroups; g++) {
      scales[g] = static_cast<uint8_t>(roundedWithin(ranges[g].d * inverse, 0, kMost));
      minima[g] = static_cast<uint8_t>(roundedWithin(-ranges[g].base * inverseMin, 0, kMost));
    }
    refine(*this, x, w);
    for (int g = kGroups - 1; g >= 0; g--) {
      assign<Levels, kGroup>(x + g * kGroup, stepOf(scales[g]), baseOf(minima[g]), codes + g * kGroup, feedback, g * kGroup);
    }
  }

  double errorFor(const float* x, const float* w, int g, int scale, int minimum, uint8_t* to = nullptr) const {
    return errorOf<Levels, kGroup>(x + g * kGroup, w + g * kGroup, stepOf(scale), baseOf(minimum), to);
  }
  float stepOf(int scale) const { return halfToFloat(d) * static_cast<float>(scale); }
  float baseOf(int minimum) const { return -(halfToFloat(dmin) * static_cast<float>(minimum)); }

  // Each group's integers beside their neighbours. @returns the error of all
  double search(const float* x, const float* w) {
    double sum = 0;
    for (int g = 0; g < kGroups; g++) {
      const int scale = scales[g];
      const int minimum = minima[g];
      double best = errorFor(x, w, g, scale, minimum);
      for (int s = boundedInt(scale - 1, 0, kMost); s <= boundedInt(scale + 1, 0, kMost); s++) {
        for (int m = boundedInt(minimum - 1, 0, kMost); m <= boundedInt(minimum + 1, 0, kMost); m++) {
          const double error = errorFor(x, w, g, s, m);
          if (!(error < best)) continue;
          best = error;
          scales[g] = static_cast<uint8_t>(s);
          minima[g] = static_cast<uint8_t>(m);
        }
      }
      sum += best;
    }
    return sum;
  }

  // The factors that are best for these integers and their levels. @returns false: there are none
  bool solve(const float* x, const float* w) {
    double aa = 0, ab = 0, bb = 0, ax = 0, bx = 0;
    for (int g = 0; g < kGroups; g++) {
      uint8_t levels[kGroup];
      errorFor(x, w, g, scales[g], minima[g], levels);
      for (int i = 0; i < kGroup; i++) {
        const double weight = w[g * kGroup + i];
        const double a = scales[g] * levels[i];
        const double b = minima[g];
        const double value = x[g * kGroup + i];
        aa += weight * a * a;
        ab += weight * a * b;
        bb += weight * b * b;
        ax += weight * a * value;
        bx += weight * b * value;
      }
    }
    if (!(aa > 0)) return false;
    const double determinant = aa * bb - ab * ab;
    double step = ax / aa;
    double below = 0;
    if (determinant > 1e-9 * aa * bb) {
      step = (ax * bb - ab * bx) / determinant;
      below = (ab * ax - aa * bx) / determinant;
    }
    if (below < 0) {
      step = ax / aa;
      below = 0;
    }
    if (!(step > 0)) return false;
    d = toHalf(static_cast<float>(step));
    dmin = toHalf(static_cast<float>(below));
    return true;
  }
};

// Groups of kGroup values, each with scale · d; the scale is in [kLow, kHigh].
template <class Levels, int kGroup, int kLow, int kHigh>
struct CentredGroups {
  static constexpr int kGroups = 256 / kGroup;
  uint16_t d = 0;
  int8_t scales[kGroups] = {};
  uint8_t codes[256];

  CentredGroups(const float* x, const float* w, BlockFeedback* feedback) {
    float steps[kGroups];
    for (int g = 0; g < kGroups; g++) steps[g] = fitScale<Levels, kGroup>(x + g * kGroup, w + g * kGroup, 9);
    const float extreme = extremeOf<kGroups>(steps);
    d = toHalf(extreme / kLow);
    const float inverse = halfToFloat(d) != 0 ? 1.0f / halfToFloat(d) : 0;
    for (int g = 0; g < kGroups; g++) scales[g] = static_cast<int8_t>(roundedWithin(steps[g] * inverse, kLow, kHigh));
    refine(*this, x, w);
    for (int g = kGroups - 1; g >= 0; g--) assign<Levels, kGroup>(x + g * kGroup, stepOf(scales[g]), 0, codes + g * kGroup, feedback, g * kGroup);
  }

  double errorFor(const float* x, const float* w, int g, int scale) const {
    return errorOf<Levels, kGroup>(x + g * kGroup, w + g * kGroup, stepOf(scale), 0);
  }
  float stepOf(int scale) const { return halfToFloat(d) * static_cast<float>(scale); }

  double search(const float* x, const float* w) {
    double sum = 0;
    for (int g = 0; g < kGroups; g++) {
      const int scale = scales[g];
      double best = errorFor(x, w, g, scale);
      for (int s = boundedInt(scale - 1, kLow, kHigh); s <= boundedInt(scale + 1, kLow, kHigh); s++) {
        const double error = errorFor(x, w, g, s);
        if (!(error < best)) continue;
        best = error;
        scales[g] = static_cast<int8_t>(s);
      }
      sum += best;
    }
    return sum;
  }

  bool solve(const float* x, const float* w) {
    double norm = 0, dot = 0;
    for (int g = 0; g < kGroups; g++) {
      const float step = halfToFloat(d) * static_cast<float>(scales[g]);
      const f32x8 inverse = splat8(step == 0 ? 0 : 1.0f / step);
      for (int i = 0; i < kGroup; i += 8) {
        const int at = g * kGroup + i;
        const f32x8 level = Levels::nearest(load8(x + at) * inverse) * splat8(static_cast<float>(scales[g]));
        const f32x8 weighted = load8(w + at) * level;
        norm += total(weighted * level);
        dot += total(weighted * load8(x + at));
      }
    }
    if (!(norm > 0)) return false;
    d = toHalf(static_cast<float>(dot / norm));
    return true;
  }
};

}  // namespace millrace::MILLRACE_ISA
