// Every kernel file includes this header. It declares one kernel function per operation and minOf and maxOf, and
// includes operands.h, through which decode functions read operands, where the file is compiled for decoding (isa.h).
#pragma once
#include "isa.h"
#include "ops.h"
#ifdef MILLRACE_DECODES
#include "../runtime/operands.h"
#endif

// Where only decode functions are wanted, nothing calls the kernels, and the compiler leaves out inline functions that
// nothing calls.
#ifdef MILLRACE_ONLY_DECODES
#define MILLRACE_LINKAGE inline
#else
#define MILLRACE_LINKAGE
#endif
#define MILLRACE_OP(name) MILLRACE_LINKAGE void name##Kernel(const Op& op, int64_t begin, int64_t end, std::byte* scratch);

namespace millrace::MILLRACE_COMMON_ISA {
MILLRACE_OPS(MILLRACE_OP)
}

namespace millrace::MILLRACE_ISA {

#if defined(MILLRACE_ISA_AVX512VNNI)
// This instruction set has its own linear layers, and avx512's other kernels. The compiler resolves the names:
// a table that is filled at run time would be filled by AVX-512 instructions, also on a machine without them.
using namespace MILLRACE_COMMON_ISA;
MILLRACE_OP(linear)
MILLRACE_OP(gatedLinear)
MILLRACE_OP(expertLinear)
MILLRACE_OP(expertGatedLinear)
#endif
#undef MILLRACE_OP

static constexpr int64_t minOf(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t maxOf(int64_t a, int64_t b) { return a > b ? a : b; }

}  // namespace millrace::MILLRACE_ISA
