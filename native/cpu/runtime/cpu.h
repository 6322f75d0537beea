// The processor's instruction sets, and the floating-point control word that every kernel runs under.
#pragma once
#include <pthread.h>

#include <cstdint>
#include <vector>

#include "../kernels/ops.h"

namespace millrace {

struct CpuFeatures {
  bool avx2 = false;
  bool fma = false;
  bool f16c = false;
  bool avx512 = false;  // F, BW, DQ and VL
  bool avx512vnni = false;
  bool avx512bf16 = false;  // and VBMI and VNNI
  bool amx = false;         // tiles of int8 and bfloat16, which the OS lets this process use; and avx512bf16
  bool neon = false;
  bool dotprod = false;
};

CpuFeatures detectCpu();

// Instruction sets of this build that this CPU has, the best one last.
std::vector<const KernelTable*> supportedKernels();

// The kernels of `isa` ("portable"; "avx2", "avx512", "avx512vnni", "avx512bf16", "amx" on x86-64; "neon", "neondot" on
// Arm), or the best ones when null. Throws kernels_isa when unknown or not supported here.
const KernelTable& selectKernels(const char* isa);

// CPUs the calling thread may run on.
int numUsableCpus();

// Keeps a thread on these CPUs. False when the OS allows none of them, or knows no such thing.
bool pinThread(pthread_t thread, const std::vector<int>& cpus);

// Round to nearest even, subnormals kept, no traps: for as long as this object lives on the thread.
class FloatingPointScope {
 public:
  FloatingPointScope();
  ~FloatingPointScope();
  FloatingPointScope(const FloatingPointScope&) = delete;
  FloatingPointScope& operator=(const FloatingPointScope&) = delete;

 private:
  uint64_t saved_;
};

}  // namespace millrace
