// Every kernel file includes this: the declarations of one function per operation, splitting of a flat range, and, where the file is compiled
// for decoding (isa.h), what its decode function reads its operands with.
#pragma once
#include "isa.h"
#include "ops.h"
#ifdef MILLRACE_DECODES
#include "../runtime/operands.h"
#endif

namespace millrace::MILLRACE_ISA {

#define MILLRACE_OP(name) void name##Kernel(const Op& op, int64_t begin, int64_t end, std::byte* scratch);
MILLRACE_OPS(MILLRACE_OP)
#undef MILLRACE_OP

static inline int64_t minOf(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t maxOf(int64_t a, int64_t b) { return a > b ? a : b; }

}  // namespace millrace::MILLRACE_ISA
