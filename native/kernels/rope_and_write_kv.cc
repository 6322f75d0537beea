// ropeAndWriteKv: rotates a token's queries and keys and stores its key and value in the paged cache. A unit is a token.
#include "kernel.h"
#include "simd.h"

namespace millrace::MILLRACE_ISA {

// One head: pairs (a, b) become (a·cos − b·sin, a·sin + b·cos).
static void rotate(float* head, const float* table, int64_t half, bool isNeox) {
  const int64_t stride = isNeox ? 1 : 2;
  const int64_t distance = isNeox ? half : 1;
  for (int64_t i = 0; i < half; i++) {
    const float cosine = table[2 * i];
    const float sine = table[2 * i + 1];
    const float a = head[i * stride];
    const float b = head[i * stride + distance];
    head[i * stride] = a * cosine - b * sine;
    head[i * stride + distance] = a * sine + b * cosine;
  }
}

static void storeRow(uint8_t* target, const float* source, int64_t width, bool isHalf) {
  if (!isHalf) {
    memcpy(target, source, static_cast<size_t>(width) * 4);
    return;
  }
  int64_t i = 0;
  for (; i + 8 <= width; i += 8) storeHalf8(target + 2 * i, load8(source + i));
  for (; i < width; i++) {
    const uint16_t half = floatToHalf(source[i]);
    memcpy(target + 2 * i, &half, 2);
  }
}

void ropeAndWriteKvKernel(const Op& op, int64_t begin, int64_t end, std::byte*) {
  const RopeAndWriteKvArgs& args = op.ropeAndWriteKv;
  const KvGeometry& kv = args.kv;
  for (int64_t m = begin; m < end; m++) {
    const float* table = args.table + m * args.half * 2;
    float* q = args.q + m * kv.numHeads * kv.headDim;
    float* k = args.k + m * kv.numKvHeads * kv.headDim;
    const float* v = args.v + m * kv.numKvHeads * kv.headDim;
    for (int64_t h = 0; h < kv.numHeads; h++) rotate(q + h * kv.headDim, table, args.half, args.isNeox);
    for (int64_t h = 0; h < kv.numKvHeads; h++) rotate(k + h * kv.headDim, table, args.half, args.isNeox);
    const int64_t slot = args.slots[m];
    if (slot < 0) continue;
    for (int64_t h = 0; h < kv.numKvHeads; h++) {
      const int64_t offset = kv.entryOffset(slot / kv.blockSize, h, slot % kv.blockSize);
      storeRow(args.keyCache + offset, k + h * kv.headDim, kv.headDim, kv.isHalf);
      storeRow(args.valueCache + offset, v + h * kv.headDim, kv.headDim, kv.isHalf);
    }
  }
}

}  // namespace millrace::MILLRACE_ISA
