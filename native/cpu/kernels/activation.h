// The activations of feed-forward layers, of runs of values.
//
// All but the erf-GELU, the ReLU and its square are x · sigmoid(y): y = x for SiLU and, because (1 + tanh u) / 2 =
// sigmoid(2u), y = 2 · √(2/π) · (x + 0.044715 x³) for tanh-GELU. The clamped SwiGLU of gpt-oss has a bounded x, y =
// 1.702 x, and multiplies by one more than a bounded up.
#pragma once
#include <type_traits>

#include "kernel.h"
#include "math.h"

namespace millrace::MILLRACE_ISA {

constexpr float kSwigluAlpha = 1.702f;
constexpr float kSwigluLimit = 7.0f;

// Calls body with the activation as a constant.
template <class Body>
MILLRACE_INLINE void withActivation(Activation kind, Body body) {
  if (kind == Activation::geluTanh) return body(std::integral_constant<Activation, Activation::geluTanh>{});
  if (kind == Activation::gelu) return body(std::integral_constant<Activation, Activation::gelu>{});
  if (kind == Activation::relu) return body(std::integral_constant<Activation, Activation::relu>{});
  if (kind == Activation::reluSquared) return body(std::integral_constant<Activation, Activation::reluSquared>{});
  if (kind == Activation::clampedSwiglu) return body(std::integral_constant<Activation, Activation::clampedSwiglu>{});
  body(std::integral_constant<Activation, Activation::silu>{});
}

// min8 and max8 give their second operand where one is NaN: the value stands second, so that a NaN stays one.
MILLRACE_INLINE f32x8 boundedAbove(f32x8 value) { return min8(splat8(kSwigluLimit), value); }

// The factor of an activated gate.
template <Activation kKind>
MILLRACE_INLINE f32x8 factorOf(f32x8 up) {
  return kKind == Activation::clampedSwiglu ? max8(splat8(-kSwigluLimit), boundedAbove(up)) + splat8(1.0f) : up;
}

template <Activation kKind, int kVectors>
MILLRACE_INLINE void activateVectors(f32x8 (&x)[kVectors]) {
  if constexpr (kKind == Activation::relu || kKind == Activation::reluSquared) {
    MILLRACE_UNROLL
    for (int j = 0; j < kVectors; j++) {
      const f32x8 positive = max8(splat8(0.0f), x[j]);
      x[j] = kKind == Activation::relu ? positive : positive * positive;
    }
    return;
  }
  f32x8 y[kVectors];
  MILLRACE_UNROLL
  for (int j = 0; j < kVectors; j++) {
    if (kKind == Activation::clampedSwiglu) x[j] = boundedAbove(x[j]);
    y[j] = kKind == Activation::clampedSwiglu ? x[j] * splat8(kSwigluAlpha) : x[j];
    if (kKind == Activation::geluTanh) y[j] = x[j] * fma8(x[j] * x[j], splat8(0.044715f), splat8(1.0f)) * splat8(1.5957691216057308f);
  }
  divideByOnePlusExpOfMinus(x, y);
}

template <bool kHasUp>
void geluValues(float* values, const float* up, int64_t count) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const Floats x = gelu(loadFloats(values + i));
    storeFloats(values + i, kHasUp ? x * loadFloats(up + i) : x);
  }
  if (i == count) return;
  Floats x = gelu(loadPartial(values + i, count - i));
  if (kHasUp) x = x * loadPartial(up + i, count - i);
  memcpy(values + i, &x, static_cast<size_t>(count - i) * 4);
}

// values = activation(values), times the factor of up if kHasUp; otherwise kKind is an activation of one value. A
// value's bits do not depend on its place.
template <Activation kKind, bool kHasUp>
void activateValues(float* values, const float* up, int64_t count) {
  if constexpr (kKind == Activation::gelu) return geluValues<kHasUp>(values, up, count);
  constexpr int kVectors = 4;
  f32x8 x[kVectors];
  int64_t i = 0;
  for (; i + 8 * kVectors <= count; i += 8 * kVectors) {
    MILLRACE_UNROLL
    for (int j = 0; j < kVectors; j++) x[j] = load8(values + i + 8 * j);
    activateVectors<kKind>(x);
    MILLRACE_UNROLL
    for (int j = 0; j < kVectors; j++) store8(values + i + 8 * j, kHasUp ? x[j] * factorOf<kKind>(load8(up + i + 8 * j)) : x[j]);
  }
  if (i == count) return;
  int64_t counts[kVectors];
  for (int j = 0; j < kVectors; j++) {
    counts[j] = minOf(maxOf(count - i - 8 * j, 0), 8);
    x[j] = loadPartial8(values + i + 8 * j, counts[j]);
  }
  activateVectors<kKind>(x);
  for (int j = 0; j < kVectors; j++) {
    const int64_t at = i + 8 * j;
    storePartial8(values + at, kHasUp ? x[j] * factorOf<kKind>(loadPartial8(up + at, counts[j])) : x[j], counts[j]);
  }
}

}  // namespace millrace::MILLRACE_ISA
