// The dispatch table of one instruction set.
#include "kernel.h"

namespace millrace {

// Two steps, so that MILLRACE_ISA is replaced by its name first.
#define MILLRACE_QUOTED(name) #name
#define MILLRACE_NAME_OF(isa) MILLRACE_QUOTED(isa)
#define MILLRACE_JOINED(name) name##Kernels
#define MILLRACE_TABLE_OF(isa) MILLRACE_JOINED(isa)

namespace {
const KernelTable kTable = {
    MILLRACE_NAME_OF(MILLRACE_ISA),
    {
#define MILLRACE_OP(name) MILLRACE_ISA::name##Kernel,
        MILLRACE_OPS(MILLRACE_OP)
#undef MILLRACE_OP
    },
};
}  // namespace

const KernelTable& MILLRACE_TABLE_OF(MILLRACE_ISA)() { return kTable; }

}  // namespace millrace
