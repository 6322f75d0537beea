// CPU feature detection (cpuid on x86, by architecture elsewhere) and the control word.
#include "cpu.h"

#include <sched.h>

#include <cmath>
#include <cstdio>
#include <string>
#include <thread>

#include "failure.h"
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#elif defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>
#endif

namespace millrace {

// A first start compiles the kernels for its own CPU alone (scripts/setup/host-variants.js), so each of these may be
// missing.
#define MILLRACE_MAY_BE_MISSING __attribute__((weak))
MILLRACE_MAY_BE_MISSING const KernelTable& portableKernels();
#if defined(__x86_64__)
MILLRACE_MAY_BE_MISSING const KernelTable& avx2Kernels();
MILLRACE_MAY_BE_MISSING const KernelTable& avx512Kernels();
MILLRACE_MAY_BE_MISSING const KernelTable& avx512vnniKernels();
MILLRACE_MAY_BE_MISSING const KernelTable& avx512bf16Kernels();
MILLRACE_MAY_BE_MISSING const KernelTable& amxKernels();
#elif defined(__aarch64__)
MILLRACE_MAY_BE_MISSING const KernelTable& neonKernels();
MILLRACE_MAY_BE_MISSING const KernelTable& neondotKernels();
#endif

std::string formatNumber(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  char text[40];
  snprintf(text, sizeof text, std::floor(value) == value && std::fabs(value) < 1e15 ? "%.0f" : "%.17g", value);
  return text;
}

int numUsableCpus() {
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
#endif
  const unsigned numCpus = std::thread::hardware_concurrency();
  return numCpus == 0 ? 1 : static_cast<int>(numCpus);
}

bool pinThread(pthread_t thread, const std::vector<int>& cpus) {
#if defined(__linux__)
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(static_cast<size_t>(cpu), &set);
  return pthread_setaffinity_np(thread, sizeof(set), &set) == 0;
#else
  (void)thread;
  (void)cpus;
  return false;
#endif
}

#if defined(__x86_64__)

static uint64_t enabledStateBits() {
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return static_cast<uint64_t>(high) << 32 | low;
}

// Linux lets a process use the registers of tiles once it has asked. The answer holds for all its threads, those that
// run already too.
static bool requestTiles(uint64_t state) {
  constexpr uint64_t kTileState = 3u << 17;
  if ((state & kTileState) != kTileState) return false;
#if defined(__linux__) && defined(SYS_arch_prctl)
  constexpr int kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr int kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
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
  constexpr uint32_t kAvx512 = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;  // F, DQ, BW, VL
  features.avx512 = hasZmm && (b & kAvx512) == kAvx512;
  features.avx512vnni = features.avx512 && (c & (1u << 11)) != 0;
  constexpr uint32_t kAmx = 1u << 22 | 1u << 24 | 1u << 25;  // BF16, TILE, INT8
  const bool hasTiles = (d & kAmx) == kAmx;
  const bool hasByteTables = (c & (1u << 1)) != 0;  // VBMI
  const uint32_t lastLeaf = a;
  if (lastLeaf >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) {
    features.avx512bf16 = features.avx512vnni && hasByteTables && (a & (1u << 5)) != 0;
  }
  features.amx = features.avx512bf16 && hasTiles && requestTiles(state);
  return features;
}

FloatingPointScope::FloatingPointScope() : saved_(_mm_getcsr()) { _mm_setcsr(0x1f80); }
FloatingPointScope::~FloatingPointScope() { _mm_setcsr(static_cast<uint32_t>(saved_)); }

#elif defined(__aarch64__)

CpuFeatures detectCpu() {
  CpuFeatures features;
  features.neon = true;
#if defined(__linux__)
  constexpr unsigned long kDotProduct = 1ul << 20;  // HWCAP_ASIMDDP
  features.dotprod = (getauxval(AT_HWCAP) & kDotProduct) != 0;
#elif defined(__APPLE__)
  int hasDotProduct = 0;
  size_t numBytes = sizeof hasDotProduct;
  features.dotprod = sysctlbyname("hw.optional.arm.FEAT_DotProd", &hasDotProduct, &numBytes, nullptr, 0) == 0 && hasDotProduct != 0;
#endif
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

namespace {

struct Variant {
  const KernelTable& kernels;
  const char* needs;
  bool isSupported;
};

// Every variant of this build, the best one last.
std::vector<Variant> listVariants() {
  const CpuFeatures features = detectCpu();
  std::vector<Variant> variants;
  const auto add = [&](const KernelTable& (*kernels)(), const char* needs, bool isSupported) {
    if (kernels != nullptr) variants.push_back({kernels(), needs, isSupported});
  };
  add(portableKernels, "", true);
#if defined(__x86_64__)
  const bool hasAvx2 = features.avx2 && features.fma && features.f16c;
  add(avx2Kernels, "AVX2, FMA and F16C", hasAvx2);
  add(avx512Kernels, "AVX-512 F, BW, DQ and VL", hasAvx2 && features.avx512);
  add(avx512vnniKernels, "AVX-512 F, BW, DQ, VL and VNNI", hasAvx2 && features.avx512vnni);
  add(avx512bf16Kernels, "AVX-512 F, BW, DQ, VL, VBMI, VNNI and BF16", hasAvx2 && features.avx512bf16);
  add(amxKernels, "AVX-512 F, BW, DQ, VL, VBMI, VNNI and BF16, and AMX TILE, BF16 and INT8", hasAvx2 && features.amx);
#elif defined(__aarch64__)
  add(neonKernels, "NEON", features.neon);
  add(neondotKernels, "NEON and dot products", features.dotprod);
#else
  (void)features;
#endif
  return variants;
}

}  // namespace

std::vector<const KernelTable*> supportedKernels() {
  std::vector<const KernelTable*> tables;
  for (const Variant& variant : listVariants()) {
    if (variant.isSupported) tables.push_back(&variant.kernels);
  }
  return tables;
}

const KernelTable& selectKernels(const char* isa) {
  if (isa == nullptr) {
    const std::vector<const KernelTable*> supported = supportedKernels();
    if (supported.empty()) throw Failure{kIsaCode, "expected kernels that were compiled for this CPU, got those of another one"};
    return *supported.back();
  }
  std::string names;
  for (const Variant& variant : listVariants()) {
    const std::string name = variant.kernels.isa;
    if (name == isa) {
      if (variant.isSupported) return variant.kernels;
      throw Failure{kIsaCode, std::string("expected a CPU with ") + variant.needs + " for the instruction set " + name + ", got one without"};
    }
    names += (names.empty() ? "" : ", ") + name;
  }
  throw Failure{kIsaCode, "expected an instruction set of this build (" + names + "), got " + isa};
}

}  // namespace millrace
