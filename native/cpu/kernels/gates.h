// Products of a row with a function of its gates.
#pragma once
#include "activation.h"

namespace millrace::MILLRACE_ISA {

constexpr int kGateVectors = 4;
constexpr int64_t kGateValues = 8 * kGateVectors;

// values[i] ·= kind(gates[i]), for kGateValues of them.
static inline void gateValues(float* values, const float* gates, Gate kind) {
  f32x8 x[kGateVectors], y[kGateVectors];
  MILLRACE_UNROLL
  for (int j = 0; j < kGateVectors; j++) {
    y[j] = load8(gates + 8 * j);
    x[j] = kind == Gate::silu ? y[j] : splat8(1.0f);
  }
  divideByOnePlusExpOfMinus(x, y);
  MILLRACE_UNROLL
  for (int j = 0; j < kGateVectors; j++) store8(values + 8 * j, load8(values + 8 * j) * x[j]);
}

// x[i] ·= kind(gates[i]) of a row; one gate for the whole row where gateWidth is 1.
static inline void gateRow(float* x, const float* gates, int64_t width, int64_t gateWidth, Gate kind) {
  float same[kGateValues];
  if (gateWidth != width) {
    for (float& gate : same) gate = gates[0];
  }
  const auto from = [&](int64_t i) { return gateWidth == width ? gates + i : same; };
  int64_t i = 0;
  for (; i + kGateValues <= width; i += kGateValues) gateValues(x + i, from(i), kind);
  if (i == width) return;
  const size_t rest = static_cast<size_t>(width - i) * sizeof(float);
  float values[kGateValues] = {};
  float ownGates[kGateValues] = {};
  memcpy(values, x + i, rest);
  memcpy(ownGates, from(i), rest);
  gateValues(values, ownGates, kind);
  memcpy(x + i, values, rest);
}

}  // namespace millrace::MILLRACE_ISA
