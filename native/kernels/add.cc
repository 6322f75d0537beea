// add: out += x. A unit is kElementwiseUnit values.
#include "kernel.h"

namespace millrace::MILLRACE_ISA {

void addKernel(const Op& op, int64_t begin, int64_t end, std::byte*) {
  const AddArgs& args = op.add;
  const int64_t last = minOf(end * kElementwiseUnit, args.numValues);
  for (int64_t i = begin * kElementwiseUnit; i < last; i++) args.out[i] += args.x[i];
}

}  // namespace millrace::MILLRACE_ISA
