// An operation as the thread pool runs it: its decoded operands, and how it may be cut. src/backend/ops.ts says what
// each computes; its file here, which decodes and computes it, has a struct of its operands as raw pointers. Decoding
// has checked them; kernels trust them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "op_table.h"
#include "packed.h"
#include "tensor_type.h"

namespace millrace {

struct WeightRef {
  const uint8_t* data;  // rows · rowBytes bytes, any alignment
  int64_t rows;
  int64_t cols;
  int64_t rowBytes;
  TensorType type;
  bool isPacked;  // packed.h's layout: rowBytes means nothing
};

// Space for the decoded operands of any operation.
constexpr size_t kMaxArgsBytes = 168;

struct Op {
  OpCode code{};
  bool isConcurrent = false;  // no barrier after this operation
  int64_t numUnits = 0;       // independent pieces of output, in the operation's own unit
  double nanosPerUnit = 0;    // rough cost, for cutting only: never changes a result
  int64_t maxUnitsPerChunk = 0;  // 0: as many as fill the threads; fewer where units differ in their work
  int64_t scratchBytes = 0;   // per thread
  // Memory that all units of the operation share, 64-byte aligned; its first clearedBytes are zero when the program
  // starts.
  int64_t workspaceBytes = 0;
  int64_t clearedBytes = 0;
  std::byte* workspace = nullptr;  // filled in by the scheduler
  // Filled in by the scheduler: units per chunk and the op's first chunk within its stage.
  int64_t unitsPerChunk = 0;
  int64_t firstChunk = 0;
  // Uninitialised, and filled in by makeOp().
  alignas(8) std::byte argsBytes[kMaxArgsBytes];

  // The decoded operands, in the struct that the operation's file has for them.
  template <typename Args>
  Args& args() {
    static_assert(std::is_trivially_copyable_v<Args> && sizeof(Args) <= kMaxArgsBytes && alignof(Args) <= 8);
    return *reinterpret_cast<Args*>(argsBytes);
  }
  template <typename Args>
  const Args& args() const {
    return const_cast<Op*>(this)->args<Args>();
  }
};

// Computes units [begin, end) of an operation. `scratch` is the thread's own, 64-byte aligned, at least
// op.scratchBytes.
using KernelFn = void (*)(const Op& op, int64_t begin, int64_t end, std::byte* scratch);

struct KernelTable {
  const char* isa;
  KernelFn run[kNumOps];
};

const KernelTable& portableKernels();
#if defined(__x86_64__)
const KernelTable& avx2Kernels();
const KernelTable& avx512Kernels();
const KernelTable& avx512vnniKernels();
const KernelTable& avx512bf16Kernels();
const KernelTable& amxKernels();
#elif defined(__aarch64__)
const KernelTable& neonKernels();
const KernelTable& neondotKernels();
#endif

}  // namespace millrace
