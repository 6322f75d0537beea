// ropeAndWriteKv: rotates a token's queries and keys and stores its key and value in the paged cache. A unit is a token.
#include "kernel.h"
#include "kv_cache.h"
#include "simd.h"

namespace millrace {

namespace {
struct RopeAndWriteKvArgs {
  float* q;            // [M, numHeads, headDim]
  float* k;            // [M, numKvHeads, headDim]
  const float* v;      // [M, numKvHeads, headDim]
  const float* table;  // [M, half, 2]
  uint8_t* keyCache;
  uint8_t* valueCache;
  const int32_t* slots;  // [M]; −1 stores nothing
  KvGeometry kv;
  int64_t half;
  bool isNeox;
};
}  // namespace

#ifdef MILLRACE_DECODES

// Slots are the same for every layer: those checked for one layer of a program are remembered for the next.
static const int32_t* readSlots(const Operands<ops::ropeAndWriteKv>& in, int64_t numRows, int64_t numSlots, DecodeMemo& memo) {
  const int32_t* slots = in.buffer(ops::ropeAndWriteKv::slots, numRows);
  in.requireApart(ops::ropeAndWriteKv::q, ops::ropeAndWriteKv::slots);
  in.requireApart(ops::ropeAndWriteKv::k, ops::ropeAndWriteKv::slots);
  in.requireApart(ops::ropeAndWriteKv::keyCache, ops::ropeAndWriteKv::slots);
  in.requireApart(ops::ropeAndWriteKv::valueCache, ops::ropeAndWriteKv::slots);
  if (memo.slots == slots && memo.numSlotRows >= numRows && memo.numSlots >= 0 && numSlots >= memo.numSlots) return slots;
  in.indices(ops::ropeAndWriteKv::slots, numRows, -1, numSlots - 1);
  memo.slots = slots;
  memo.numSlotRows = numRows;
  memo.numSlots = numSlots;
  return slots;
}

Op decode(const Operands<ops::ropeAndWriteKv>& in, DecodeMemo& memo) {
  const int64_t numRows = in.integer(ops::ropeAndWriteKv::numRows);
  RopeAndWriteKvArgs args{};
  args.kv = readKvGeometry(in);
  args.half = in.integer(ops::ropeAndWriteKv::half, 0, args.kv.headDim / 2);
  args.isNeox = in.flag(ops::ropeAndWriteKv::isNeox);
  args.q = in.buffer(ops::ropeAndWriteKv::q, saturatedProduct(numRows, args.kv.numHeads, args.kv.headDim));
  args.k = in.buffer(ops::ropeAndWriteKv::k, saturatedProduct(numRows, args.kv.numKvHeads, args.kv.headDim));
  args.v = in.buffer(ops::ropeAndWriteKv::v, saturatedProduct(numRows, args.kv.numKvHeads, args.kv.headDim));
  args.table = in.buffer(ops::ropeAndWriteKv::table, saturatedProduct(numRows, args.half, 2));
  int64_t numBlocks = INT64_MAX;
  args.keyCache = in.kvCache(ops::ropeAndWriteKv::keyCache, args.kv, &numBlocks);
  args.valueCache = in.kvCache(ops::ropeAndWriteKv::valueCache, args.kv, &numBlocks);
  args.slots = readSlots(in, numRows, saturatedProduct(numBlocks, args.kv.blockSize), memo);
  const double valuesPerRow = static_cast<double>((args.kv.numHeads + 2 * args.kv.numKvHeads) * args.kv.headDim);
  return makeOp(OpCode::ropeAndWriteKv, args, numRows, valuesPerRow * 1.0 + 20);
}

#endif

}  // namespace millrace

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

// The scale of an entry stored as int8: its largest magnitude / 127. 0 where that is no normal number, and all values are stored as 0; NaN
// where a value is not finite, so that it shows.
static float scaleOf(const float* values, int64_t headDim) {
  float largest = 0.0f;
  bool isFinite = true;
  for (int64_t d = 0; d < headDim; d++) {
    const float magnitude = values[d] < 0 ? -values[d] : values[d];
    isFinite = isFinite && magnitude <= 3.4028235e38f;
    largest = magnitude > largest ? magnitude : largest;
  }
  if (!isFinite) return __builtin_nanf("");
  const float scale = largest / 127.0f;
  return scale < 1.17549435e-38f ? 0.0f : scale;
}

// An entry of `stride` bytes from value to value; of int8 with its scale at `scale`.
static void storeEntry(const KvGeometry& kv, uint8_t* target, int64_t stride, uint8_t* scale, const float* values) {
  if (kv.type == KvType::int8) {
    const float factor = scaleOf(values, kv.headDim);
    memcpy(scale, &factor, 4);
    for (int64_t d = 0; d < kv.headDim; d++) {
      // Adding 1.5 · 2^23 rounds to the nearest integer, ties to even; the quotient is at most 127.
      const float rounded = (factor > 0 ? values[d] / factor : 0.0f) + 12582912.0f - 12582912.0f;
      target[d * stride] = static_cast<uint8_t>(static_cast<int8_t>(rounded));
    }
    return;
  }
  if (kv.type == KvType::f32) {
    for (int64_t d = 0; d < kv.headDim; d++) memcpy(target + d * stride, &values[d], 4);
    return;
  }
  int64_t d = 0;
  for (; d + 8 <= kv.headDim; d += 8) {
    uint16_t halves[8];
    storeHalf8(halves, load8(values + d));
    for (int64_t i = 0; i < 8; i++) memcpy(target + (d + i) * stride, &halves[i], 2);
  }
  for (; d < kv.headDim; d++) {
    const uint16_t half = floatToHalf(values[d]);
    memcpy(target + d * stride, &half, 2);
  }
}

void ropeAndWriteKvKernel(const Op& op, int64_t begin, int64_t end, std::byte*) {
  const RopeAndWriteKvArgs& args = op.args<RopeAndWriteKvArgs>();
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
      const int64_t offset = kv.octetOffset(slot / kv.blockSize, h, slot % kv.blockSize / kKvOctet);
      const int64_t lane = slot % kKvOctet;
      const int64_t scaleAt = kv.scalesOffset() + 4 * lane;
      uint8_t* keys = args.keyCache + offset;
      uint8_t* values = args.valueCache + offset;
      storeEntry(kv, keys + lane * kv.valueBytes(), kKvOctet * kv.valueBytes(), keys + scaleAt, k + h * kv.headDim);
      storeEntry(kv, values + lane * kv.headDim * kv.valueBytes(), kv.valueBytes(), values + scaleAt, v + h * kv.headDim);
    }
  }
}

}  // namespace millrace::MILLRACE_ISA
