// CPU feature detection (cpuid on x86, by architecture elsewhere) and the control word.
#include "cpu.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>

#include "failure.h"
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace millrace {

std::string formatNumber(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  char text[40];
  snprintf(text, sizeof text, std::floor(value) == value && std::fabs(value) < 1e15 ? "%.0f" : "%.17g", value);
  return text;
}

#if defined(__x86_64__)

static uint64_t enabledStateBits() {
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return static_cast<uint64_t>(high) << 32 | low;
}

CpuFeatures detectCpu() {
  CpuFeatures features;
  uint32_t a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return features;
  const bool hasXsave = (c & (1u << 27)) != 0;
  const uint64_t state = hasXsave ? enabledStateBits() : 0;
  const bool hasYmm = (state & 0x6) == 0x6;
  const bool hasZmm = (state & 0xe6) == 0xe6;
  features.fma = hasYmm && (c & (1u << 12)) != 0;
  features.f16c = hasYmm && (c & (1u << 29)) != 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return features;
  features.avx2 = hasYmm && (b & (1u << 5)) != 0;
  features.avx512f = hasZmm && (b & (1u << 16)) != 0;
  features.avx512vnni = hasZmm && (c & (1u << 11)) != 0;
  return features;
}

FloatingPointScope::FloatingPointScope() : saved_(_mm_getcsr()) { _mm_setcsr(0x1f80); }
FloatingPointScope::~FloatingPointScope() { _mm_setcsr(static_cast<uint32_t>(saved_)); }

#elif defined(__aarch64__)

CpuFeatures detectCpu() {
  CpuFeatures features;
  features.neon = true;
  return features;
}

FloatingPointScope::FloatingPointScope() {
  __asm__ volatile("mrs %0, fpcr" : "=r"(saved_));
  __asm__ volatile("msr fpcr, %0" : : "r"(static_cast<uint64_t>(0)));
}
FloatingPointScope::~FloatingPointScope() { __asm__ volatile("msr fpcr, %0" : : "r"(saved_)); }

#else

CpuFeatures detectCpu() { return {}; }
FloatingPointScope::FloatingPointScope() : saved_(0) {}
FloatingPointScope::~FloatingPointScope() = default;

#endif

const KernelTable& selectKernels(const char* isa) {
#if defined(__x86_64__)
  const CpuFeatures features = detectCpu();
  const bool hasAvx2 = features.avx2 && features.fma && features.f16c;
  if (isa == nullptr) return hasAvx2 ? avx2Kernels() : portableKernels();
  if (strcmp(isa, "avx2") == 0) {
    if (hasAvx2) return avx2Kernels();
    throw Failure{kIsaCode, "expected a CPU with AVX2, FMA and F16C for the instruction set avx2, got one without"};
  }
#else
  if (isa == nullptr) return portableKernels();
#endif
  if (strcmp(isa, "portable") == 0) return portableKernels();
  throw Failure{kIsaCode, std::string("expected an instruction set of this build (portable") +
#if defined(__x86_64__)
                              ", avx2" +
#endif
                              "), got " + isa};
}

}  // namespace millrace
