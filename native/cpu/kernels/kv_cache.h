// The layout of the caches of keys and values.
#pragma once
#include <cstdint>

#include "op_table.h"

namespace millrace {

// Caches are [numBlocks, numKvHeads, blockSize / 8, octet]. An octet of keys is [headDim, 8], so that eight entries' scores are eight lanes;
// an octet of values is [8, headDim]. Of int8, an octet's eight f32 scales follow, one per entry: a value is its byte times the scale.
struct KvGeometry {
  int64_t numHeads;
  int64_t numKvHeads;
  int64_t headDim;
  int64_t blockSize;
  KvType type;

  constexpr int64_t valueBytes() const { return type == KvType::f16 ? 2 : type == KvType::f32 ? 4 : 1; }
  // Stored bytes of one entry's key (or value) of one head.
  constexpr int64_t entryBytes() const { return headDim * valueBytes() + (type == KvType::int8 ? 4 : 0); }
  // Bytes from an octet's start to its scales.
  constexpr int64_t scalesOffset() const { return kKvOctet * headDim; }
  constexpr int64_t octetBytes() const { return kKvOctet * entryBytes(); }
  // Bytes from the cache's start to an octet of (block, kvHead).
  constexpr int64_t octetOffset(int64_t block, int64_t kvHead, int64_t octet) const {
    return ((block * numKvHeads + kvHead) * (blockSize / kKvOctet) + octet) * octetBytes();
  }
};

}  // namespace millrace
