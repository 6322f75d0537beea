// The layout of the caches of keys and values.
#pragma once
#include <cstdint>

#include "op_table.h"

namespace millrace {

// Values of an fp4 entry that share a scale.
constexpr int64_t kFp4Group = 16;

// Caches are [numBlocks, numKvHeads, blockSize / 8, octet]. An octet of keys is [headDim, 8], so that eight entries'
// scores are eight lanes; an octet of values is [8, headDim]. Behind an octet's values lie its scales, one per entry:
//   int8      f32: a value is its byte times the scale.
//   fp8_e4m3  a byte e: a value is (the E4M3 value of its code) · 2^-8 · 2^(e - 127). Where a value of the entry is not finite, e is 255, and
//             all of the entry's values are NaN.
//   fp4       per group of 16 values an E4M3 code, keys [numGroups, 8] and values [8, numGroups]; then per entry such a byte. A value is (the
//             E2M1 value of its code) times the group's and the entry's scale. Groups are padded with zeros. A key's byte holds dimensions 2 i and, above it, 2 i + 1 of an entry; a
//             value's byte j of a group's eight holds dimension j and, above it, j + 8.
struct KvGeometry {
  int64_t numHeads;
  int64_t numKvHeads;
  int64_t headDim;
  int64_t blockSize;
  KvType type;

  constexpr int64_t numGroups() const { return (headDim + kFp4Group - 1) / kFp4Group; }
  // Stored bytes of one entry's values of one head, and of their scales.
  constexpr int64_t valueBytes() const {
    switch (type) {
      case KvType::f32: return 4 * headDim;
      case KvType::f16: return 2 * headDim;
      case KvType::fp4: return kFp4Group / 2 * numGroups();
      default: return headDim;
    }
  }
  constexpr int64_t scaleBytes() const {
    switch (type) {
      case KvType::int8: return 4;
      case KvType::fp8_e4m3: return 1;
      case KvType::fp4: return numGroups() + 1;
      default: return 0;
    }
  }
  constexpr int64_t entryBytes() const { return valueBytes() + scaleBytes(); }
  // Bytes from an octet's start to its scales, and of fp4 to the entries' bytes behind those of the groups.
  constexpr int64_t scalesOffset() const { return kKvOctet * valueBytes(); }
  constexpr int64_t exponentsOffset() const { return kKvOctet * (entryBytes() - 1); }
  constexpr int64_t octetBytes() const { return kKvOctet * entryBytes(); }
  // Bytes from the cache's start to an octet of (block, kvHead).
  constexpr int64_t octetOffset(int64_t block, int64_t kvHead, int64_t octet) const {
    return ((block * numKvHeads + kvHead) * (blockSize / kKvOctet) + octet) * octetBytes();
  }
};

}  // namespace millrace
