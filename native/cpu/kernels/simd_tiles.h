// Registers of tiles (AMX): eight, each of at most sixteen rows of 64 bytes. The instructions are written out, since GCC's intrinsics do not tell
// the compiler that a load reads memory. The lanes of a product of bfloat16 are summed as Intel's manual states (TDPBF16PS): the products of even
// columns in one chain of fused multiply-adds, those of odd columns in another, and the sum of both is added to the old value; subnormals count as
// zeros.
#pragma once
#include "simd.h"

namespace millrace::MILLRACE_ISA {

constexpr int kTileRows = 16;
constexpr int64_t kTileRowBytes = 64;
constexpr int64_t kTileBytes = kTileRows * kTileRowBytes;

// What LDTILECFG reads.
struct alignas(64) TileConfig {
  uint8_t palette;
  uint8_t startRow;
  uint8_t reserved[14];
  uint16_t rowBytes[16];
  uint8_t numRows[16];
};
static_assert(sizeof(TileConfig) == 64);

// The registers for as long as this object lives: tiles 0 to 3 are sums, 4 and 5 activations, 6 and 7 weights. Of two tiles of tokens, 0, 1 and 4
// belong to the first, 2, 3 and 5 to the second.
class Tiles {
 public:
  Tiles() = default;
  ~Tiles() { asm volatile("tilerelease"); }
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;

  // Tiles for numTokens tokens, two tiles' at most. What the registers held is lost when their number changes.
  void setTokens(int64_t numTokens) {
    if (numTokens == numTokens_) return;
    numTokens_ = numTokens;
    const uint8_t first = static_cast<uint8_t>(numTokens > kTileRows ? kTileRows : numTokens);
    const uint8_t second = static_cast<uint8_t>(numTokens > kTileRows ? numTokens - kTileRows : numTokens);
    const uint16_t whole = kTileRowBytes;
    const TileConfig config = {1, 0, {}, {whole, whole, whole, whole, whole, whole, whole, whole},
                               {first, first, second, second, first, second, kTileRows, kTileRows}};
    asm volatile("ldtilecfg %0" : : "m"(config));
  }

 private:
  int64_t numTokens_ = 0;
};

template <int kTile>
MILLRACE_INLINE void zeroTile() {
  asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
}
template <int kTile>
MILLRACE_INLINE void loadTile(const void* first, int64_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(first), "r"(stride), "i"(kTile) : "memory");
}
template <int kTile>
MILLRACE_INLINE void storeTile(void* first, int64_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(first), "r"(stride), "i"(kTile) : "memory");
}
// sum[m][n] += Σ over columns k of a[m][k] · b[k / 2][n][k % 2], in bfloat16 and f32.
template <int kSum, int kA, int kB>
MILLRACE_INLINE void addBfloatTiles() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kA), "i"(kB));
}

// sum[m][n] += Σ over bytes k of a[m][k] · b[k / 4][n][k % 4], in integers.
// Bytes of `a` have a sign or none, those of `b` have one.
template <int kSum, int kA, int kB, bool kHasSign>
MILLRACE_INLINE void addByteTiles() {
  if constexpr (kHasSign) asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kA), "i"(kB));
  else asm volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kA), "i"(kB));
}

}  // namespace millrace::MILLRACE_ISA
