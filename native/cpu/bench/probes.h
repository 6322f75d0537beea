// The machine's two ceilings that kernels are compared with. Measuring only; no server loads this.
#pragma once
#include <cstdint>

namespace millrace {

// Instruction mixes of the linear kernels, from registers alone. Order is the number that src/bench/kernels/probes.ts
// passes.
enum class Mix {
  // f32 products: one fused multiply-add per eight.
  kFloat,
  // u8·i8 over 32 columns: into 32 bits, or into 16-bit pairs that are widened once.
  kNarrow8,
  // The same, but pairs are widened every 16 columns.
  kNarrow4,
  // The same, and the sums of 16 columns are multiplied by an integer scale.
  kScaled4,
  // i16·i16 into 32 bits.
  kWide,
  // bfloat16 pairs into f32.
  kBfloat,
};
constexpr int kNumMixes = 6;

// A cell is 32 columns of eight weight rows: this many multiply-adds.
constexpr int64_t kCellMacs = 256;

struct Probes {
  // Every byte once, in order; numBytes is a multiple of 256. The result depends on all of them.
  uint64_t (*read)(const uint8_t* data, int64_t numBytes);
  // numCells cells, a multiple of 192.
  float (*multiply)(Mix mix, int64_t numCells);
};

const Probes& portableProbes();
#if defined(__x86_64__)
const Probes& avx2Probes();
const Probes& avx512Probes();
const Probes& avx512vnniProbes();
const Probes& avx512bf16Probes();
const Probes& amxProbes();
#endif

}  // namespace millrace
