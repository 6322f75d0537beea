// gatherRows: copies the rows whose logits are wanted. A unit is a row.
#include <cstring>

#include "kernel.h"

namespace millrace::MILLRACE_ISA {

void gatherRowsKernel(const Op& op, int64_t begin, int64_t end, std::byte*) {
  const GatherRowsArgs& args = op.gatherRows;
  for (int64_t r = begin; r < end; r++) {
    memcpy(args.out + r * args.width, args.x + args.rows[r] * args.width, static_cast<size_t>(args.width) * 4);
  }
}

}  // namespace millrace::MILLRACE_ISA
