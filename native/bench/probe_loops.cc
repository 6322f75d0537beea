// The probes' inner loops, compiled once per instruction set like the kernels. Values are hidden from the compiler before each use, so that
// it can neither hoist nor merge what must be issued every time; hiding costs no instruction.
#include "../kernels/simd.h"
#include "probes.h"

#if defined(MILLRACE_ISA_AVX2)
#define MILLRACE_HIDE(vector) asm volatile("" : "+x"(vector))
#else
#define MILLRACE_HIDE(vector) asm volatile("" : "+m"(vector))
#endif

namespace millrace::MILLRACE_ISA {
namespace {

typedef uint64_t u64x4 __attribute__((vector_size(32)));
typedef uint8_t u8x32 __attribute__((vector_size(32)));
typedef int16_t i16x16 __attribute__((vector_size(32)));

// Tokens side by side, each with an accumulator of its own: enough to cover the latency of an addition.
constexpr int kTokens = 4;

MILLRACE_INLINE i16x16 narrowProducts(u8x32 weights, u8x32 columns) {
#if defined(MILLRACE_ISA_AVX2)
  return reinterpret_cast<i16x16>(_mm256_maddubs_epi16(reinterpret_cast<__m256i>(weights), reinterpret_cast<__m256i>(columns)));
#else
  return reinterpret_cast<i16x16>(weights) * reinterpret_cast<i16x16>(columns);
#endif
}
MILLRACE_INLINE i32x8 wideProducts(i16x16 weights, i16x16 columns) {
#if defined(MILLRACE_ISA_AVX2)
  return reinterpret_cast<i32x8>(_mm256_madd_epi16(reinterpret_cast<__m256i>(weights), reinterpret_cast<__m256i>(columns)));
#else
  return reinterpret_cast<i32x8>(weights * columns);
#endif
}

// kWidenEvery of the eight products of a cell are added up in 16 bits before they are widened.
template <int kWidenEvery>
float multiplyNarrow(int64_t numCells) {
  u8x32 columns = u8x32{} + 1;
  const u8x32 weights = u8x32{} + 3;
  const i16x16 ones = i16x16{} + 1;
  const f32x8 scale = splat8(0.5f);
  f32x8 acc[kTokens] = {};
  for (int64_t i = 0; i < numCells; i += kTokens) {
    MILLRACE_UNROLL
    for (int t = 0; t < kTokens; t++) {
      i32x8 sum;
      MILLRACE_UNROLL
      for (int first = 0; first < 8; first += kWidenEvery) {
        MILLRACE_HIDE(columns);
        i16x16 pairs = narrowProducts(weights, columns);
        MILLRACE_UNROLL
        for (int c = 1; c < kWidenEvery; c++) {
          MILLRACE_HIDE(columns);
          pairs += narrowProducts(weights, columns);
        }
        const i32x8 wide = wideProducts(pairs, ones);
        sum = first == 0 ? wide : sum + wide;
      }
      acc[t] = fma8(fma8(toFloat8(sum), scale, scale), scale, acc[t]);
    }
  }
  return sum1((acc[0] + acc[1]) + (acc[2] + acc[3]));
}

float multiplyWide(int64_t numCells) {
  i16x16 columns = i16x16{} + 1;
  const i16x16 weights = i16x16{} + 3;
  const f32x8 scale = splat8(0.5f);
  f32x8 acc[kTokens] = {};
  for (int64_t i = 0; i < numCells; i += kTokens) {
    MILLRACE_UNROLL
    for (int t = 0; t < kTokens; t++) {
      MILLRACE_HIDE(columns);
      i32x8 sum = wideProducts(weights, columns);
      MILLRACE_UNROLL
      for (int c = 1; c < 16; c++) {
        MILLRACE_HIDE(columns);
        sum += wideProducts(weights, columns);
      }
      acc[t] = fma8(toFloat8(sum), scale, acc[t]);
    }
  }
  return sum1((acc[0] + acc[1]) + (acc[2] + acc[3]));
}

float multiplyFloat(int64_t numCells) {
  constexpr int kSums = 12;
  const f32x8 weights = splat8(0.5f);
  f32x8 acc[kSums] = {};
  // 96 products of eight are three cells.
  for (int64_t i = 0; i < numCells; i += 3) {
    MILLRACE_UNROLL
    for (int round = 0; round < 96 / kSums; round++) {
      MILLRACE_UNROLL
      for (int s = 0; s < kSums; s++) acc[s] = fma8(weights, weights, acc[s]);
      MILLRACE_UNROLL
      for (int s = 0; s < kSums; s++) MILLRACE_HIDE(acc[s]);
    }
  }
  f32x8 sum = zero8();
  for (int s = 0; s < kSums; s++) sum = sum + acc[s];
  return sum1(sum);
}

float multiply(Mix mix, int64_t numCells) {
  switch (mix) {
    case Mix::kFloat: return multiplyFloat(numCells);
    case Mix::kNarrow8: return multiplyNarrow<8>(numCells);
    case Mix::kNarrow4: return multiplyNarrow<4>(numCells);
    case Mix::kWide: return multiplyWide(numCells);
  }
  return 0;
}

uint64_t read(const uint8_t* data, int64_t numBytes) {
  u64x4 sums[8] = {};
  for (int64_t at = 0; at < numBytes; at += 256) {
    MILLRACE_UNROLL
    for (int s = 0; s < 8; s++) {
      u64x4 value;
      memcpy(&value, data + at + 32 * s, 32);
      sums[s] += value;
    }
  }
  u64x4 sum = u64x4{};
  for (int s = 0; s < 8; s++) sum += sums[s];
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

const Probes kProbes = {read, multiply};

}  // namespace

const Probes& probes() { return kProbes; }

}  // namespace millrace::MILLRACE_ISA

namespace millrace {
#if defined(MILLRACE_ISA_AVX2)
const Probes& avx2Probes() { return avx2::probes(); }
#else
const Probes& portableProbes() { return portable::probes(); }
#endif
}  // namespace millrace
