// The dispatch table of one instruction set.
#include "kernel.h"

namespace millrace {

namespace {
const KernelTable kTable = {
#if defined(MILLRACE_ISA_AVX2)
    "avx2",
#else
    "portable",
#endif
    {
#define MILLRACE_OP(name) MILLRACE_ISA::name##Kernel,
        MILLRACE_OPS(MILLRACE_OP)
#undef MILLRACE_OP
    },
};
}  // namespace

#if defined(MILLRACE_ISA_AVX2)
const KernelTable& avx2Kernels() { return kTable; }
#else
const KernelTable& portableKernels() { return kTable; }
#endif

}  // namespace millrace
