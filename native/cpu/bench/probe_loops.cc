// The probes' inner loops, compiled once per instruction set like the kernels. Values are hidden from the compiler
// before each use, so that it can neither hoist nor merge what must be issued every time; hiding costs no instruction.
#include "../kernels/simd_bfloat.h"
#include "../kernels/simd_int.h"
#include "probes.h"
#ifdef MILLRACE_ISA_AMX
#include "../kernels/simd_tiles.h"
#endif

#if defined(MILLRACE_ISA_AVX2)
#define MILLRACE_HIDE(vector) asm volatile("" : "+v"(vector))
#else
#define MILLRACE_HIDE(vector) asm volatile("" : "+m"(vector))
#endif

namespace millrace::MILLRACE_ISA {
namespace {

typedef uint64_t Words __attribute__((vector_size(4 * kLanes)));

// Tokens side by side, each with sums of its own: enough to cover the latency of an addition. A vector does kEights
// cells at once.
constexpr int kTokens = 8 / kEights;
constexpr int kCellsAtOnce = kTokens * kEights;

MILLRACE_INLINE float sumOf(Floats v) {
  float sum = 0;
  for (int lane = 0; lane < kLanes; lane++) sum += v[lane];
  return sum;
}

// Where sums are pairs of 16 bits, kWidenEvery of the eight products of a cell are added up before they are widened;
// kIsScaled: these sums are multiplied by a scale.
template <int kWidenEvery, bool kIsScaled>
float multiplyNarrow(int64_t numCells) {
  const int8_t ones[4] = {1, 1, 1, 1};
  Columns columns = loadColumns(ones);
  const Bytes weights = splatByte(3);
  const Floats scale = splatFloats(0.5f);
  RowScales scales = makeScales(Ints{} + 3);
  Floats acc[kTokens] = {};
  for (int64_t i = 0; i < numCells; i += kCellsAtOnce) {
    MILLRACE_HIDE(scales.value);
    MILLRACE_UNROLL
    for (int t = 0; t < kTokens; t++) {
      Ints sum{};
      MILLRACE_UNROLL
      for (int first = 0; first < 8; first += kWidenEvery) {
        Dot dot{};
        MILLRACE_UNROLL
        for (int c = 0; c < kWidenEvery; c++) {
          MILLRACE_HIDE(columns.value);
          dotAdd(dot, weights, columns);
        }
        sum += kIsScaled ? dotTimes(dot, scales) : dotSum(dot);
      }
      acc[t] = mulAdd(mulAdd(toFloats(sum), scale, scale), scale, acc[t]);
    }
  }
  Floats sum{};
  for (const Floats& one : acc) sum = sum + one;
  return sumOf(sum);
}

float multiplyWide(int64_t numCells) {
  const int16_t ones[2] = {1, 1};
  WideColumns columns = loadWideColumns(ones);
  const WidePair weights = {Shorts{} + 3};
  const Floats scale = splatFloats(0.5f);
  Floats acc[kTokens] = {};
  for (int64_t i = 0; i < numCells; i += kCellsAtOnce) {
    MILLRACE_UNROLL
    for (int t = 0; t < kTokens; t++) {
      Ints sum{};
      MILLRACE_UNROLL
      for (int c = 0; c < 16; c++) {
        MILLRACE_HIDE(columns.value);
        wideAdd(sum, weights, columns);
      }
      acc[t] = mulAdd(toFloats(sum), scale, acc[t]);
    }
  }
  Floats sum{};
  for (const Floats& one : acc) sum = sum + one;
  return sumOf(sum);
}

float multiplyFloat(int64_t numCells) {
  constexpr int kSums = 12;
  const Floats weights = splatFloats(0.5f);
  Floats acc[kSums] = {};
  // 96 vectors of products are three cells (of eight lanes).
  for (int64_t i = 0; i < numCells; i += 3 * kEights) {
    MILLRACE_UNROLL
    for (int round = 0; round < 96 / kSums; round++) {
      MILLRACE_UNROLL
      for (int s = 0; s < kSums; s++) acc[s] = mulAdd(weights, weights, acc[s]);
      MILLRACE_UNROLL
      for (int s = 0; s < kSums; s++) MILLRACE_HIDE(acc[s]);
    }
  }
  Floats sum{};
  for (const Floats& one : acc) sum = sum + one;
  return sumOf(sum);
}

#ifdef MILLRACE_ISA_AMX
float multiplyBfloat(int64_t numCells) {
  alignas(64) uint8_t zeros[kTileBytes] = {};
  Tiles tiles;
  tiles.setTokens(kTileRows);
  loadTile<6>(zeros, kTileRowBytes);
  loadTile<7>(zeros, kTileRowBytes);
  // A product of tiles is 32 cells.
  for (int64_t i = 0; i < numCells; i += 6 * 32) {
    addBfloatTiles<0, 6, 7>();
    addBfloatTiles<1, 6, 7>();
    addBfloatTiles<2, 6, 7>();
    addBfloatTiles<3, 6, 7>();
    addBfloatTiles<4, 6, 7>();
    addBfloatTiles<5, 6, 7>();
  }
  return 0;
}
#else
float multiplyBfloat(int64_t numCells) {
  constexpr int kSums = 12;
  const uint16_t halves[2 * kLanes] = {0x3f00};
  const BfloatPairs weights = loadBfloatPairs(reinterpret_cast<const uint8_t*>(halves));
  Floats acc[kSums] = {};
  // 96 vectors of products are six cells (of eight lanes).
  for (int64_t i = 0; i < numCells; i += 6 * kEights) {
    MILLRACE_UNROLL
    for (int round = 0; round < 96 / kSums; round++) {
      MILLRACE_UNROLL
      for (int s = 0; s < kSums; s++) acc[s] = addProducts(weights, weights, acc[s]);
      MILLRACE_UNROLL
      for (int s = 0; s < kSums; s++) MILLRACE_HIDE(acc[s]);
    }
  }
  Floats sum{};
  for (const Floats& one : acc) sum = sum + one;
  return sumOf(sum);
}
#endif

float multiply(Mix mix, int64_t numCells) {
  switch (mix) {
    case Mix::kFloat: return multiplyFloat(numCells);
    case Mix::kNarrow8: return multiplyNarrow<8, false>(numCells);
    case Mix::kNarrow4: return multiplyNarrow<4, false>(numCells);
    case Mix::kScaled4: return multiplyNarrow<4, true>(numCells);
    case Mix::kWide: return multiplyWide(numCells);
    case Mix::kBfloat: return multiplyBfloat(numCells);
  }
  return 0;
}

uint64_t read(const uint8_t* data, int64_t numBytes) {
  constexpr int kSums = 256 / sizeof(Words);
  Words sums[kSums] = {};
  for (int64_t at = 0; at < numBytes; at += 256) {
    MILLRACE_UNROLL
    for (int s = 0; s < kSums; s++) {
      Words value;
      memcpy(&value, data + at + static_cast<int64_t>(sizeof value) * s, sizeof value);
      sums[s] += value;
    }
  }
  uint64_t total = 0;
  for (const Words& sum : sums) {
    for (int lane = 0; lane < kLanes / 2; lane++) total += sum[lane];
  }
  return total;
}

const Probes kProbes = {read, multiply};

}  // namespace

const Probes& probes() { return kProbes; }

}  // namespace millrace::MILLRACE_ISA

namespace millrace {
#define MILLRACE_PROBES_OF(isa) isa##Probes
#define MILLRACE_PROBES(isa) MILLRACE_PROBES_OF(isa)
const Probes& MILLRACE_PROBES(MILLRACE_ISA)() { return MILLRACE_ISA::probes(); }
}  // namespace millrace
