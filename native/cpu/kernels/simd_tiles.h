// Registers of tiles (AMX): eight, each of at most sixteen rows of 64 bytes. The lanes of a product of bfloat16 are
// summed as Intel's manual states (TDPBF16PS): the products of even columns in one chain of fused multiply-adds, those
// of odd columns in another, and the sum of both is added to the old value; subnormals count as zeros.
//
// The instructions are written as bytes, by the manual's encodings: assemblers before binutils 2.36, which RHEL 9 has,
// know none of them. An address is rax, a stride rdx.
#pragma once
#include "simd.h"

namespace millrace::MILLRACE_ISA {

constexpr int kTileRows = 16;
constexpr int64_t kTileRowBytes = 64;
constexpr int64_t kTileBytes = kTileRows * kTileRowBytes;

// The operand of LDTILECFG: the shape of each tile register.
struct alignas(64) TileConfig {
  uint8_t palette;
  uint8_t startRow;
  uint8_t reserved[14];
  uint16_t rowBytes[16];
  uint8_t numRows[16];
};
static_assert(sizeof(TileConfig) == 64);

// The registers for as long as this object lives: tiles 0 to 3 are sums, 4 and 5 activations, 6 and 7 weights. Of two
// tiles of tokens, 0, 1 and 4 belong to the first, 2, 3 and 5 to the second. Nothing but the functions below touches
// the registers, so these need no clobbers.
class Tiles {
 public:
  Tiles() = default;
  // TILERELEASE
  ~Tiles() { asm volatile(".byte 0xc4, 0xe2, 0x78, 0x49, 0xc0"); }
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;

  // Tiles for numTokens tokens, two tiles' at most. The registers lose their content when the number changes.
  void setTokens(int64_t numTokens) {
    if (numTokens == numTokens_) return;
    numTokens_ = numTokens;
    const uint8_t first = static_cast<uint8_t>(numTokens > kTileRows ? kTileRows : numTokens);
    const uint8_t second = static_cast<uint8_t>(numTokens > kTileRows ? numTokens - kTileRows : numTokens);
    const uint16_t whole = kTileRowBytes;
    const TileConfig config = {1, 0, {}, {whole, whole, whole, whole, whole, whole, whole, whole},
                               {first, first, second, second, first, second, kTileRows, kTileRows}};
    // LDTILECFG
    asm volatile(".byte 0xc4, 0xe2, 0x78, 0x49, 0x00" : : "a"(&config), "m"(config));
  }

 private:
  int64_t numTokens_ = 0;
};

template <int kTile>
MILLRACE_INLINE void zeroTile() {
  // TILEZERO
  asm volatile(".byte 0xc4, 0xe2, 0x7b, 0x49, %c0" : : "i"(0xc0 | kTile << 3));
}
template <int kTile>
MILLRACE_INLINE void loadTile(const void* first, int64_t stride) {
  // TILELOADD
  asm volatile(".byte 0xc4, 0xe2, 0x7b, 0x4b, %c2, 0x10" : : "a"(first), "d"(stride), "i"(4 | kTile << 3) : "memory");
}
template <int kTile>
MILLRACE_INLINE void storeTile(void* first, int64_t stride) {
  // TILESTORED
  asm volatile(".byte 0xc4, 0xe2, 0x7a, 0x4b, %c2, 0x10" : : "a"(first), "d"(stride), "i"(4 | kTile << 3) : "memory");
}

template <int kPrefix, int kOpcode, int kSum, int kA, int kB>
MILLRACE_INLINE void addTileProducts() {
  asm volatile(".byte 0xc4, 0xe2, %c0, %c1, %c2" : : "i"((~kB & 15) << 3 | kPrefix), "i"(kOpcode), "i"(0xc0 | kSum << 3 | kA));
}
// sum[m][n] += Σ over columns k of a[m][k] · b[k / 2][n][k % 2], in bfloat16 and f32 (TDPBF16PS).
template <int kSum, int kA, int kB>
MILLRACE_INLINE void addBfloatTiles() {
  addTileProducts<2, 0x5c, kSum, kA, kB>();
}
// sum[m][n] += Σ over bytes k of a[m][k] · b[k / 4][n][k % 4], in integers. Bytes of b have a sign, those of a one
// (TDPBSSD) or none (TDPBUSD).
template <int kSum, int kA, int kB, bool kHasSign>
MILLRACE_INLINE void addByteTiles() {
  addTileProducts<kHasSign ? 3 : 1, 0x5e, kSum, kA, kB>();
}

}  // namespace millrace::MILLRACE_ISA
