// ropeAndWriteKv: rotates a token's queries and keys and stores its key and value in the paged cache. A unit is a
// token.
#include "kernel.h"
#include "kv_cache.h"
#include "simd.h"
#include "small_floats.h"

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
  bool storesKeysAlone;
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
  args.storesKeysAlone = in.integer(ops::ropeAndWriteKv::latentDim, 0, args.kv.headDim) > 0;
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

// Where an entry lies in its octet: a key's values are eight apart, a value's one after the other.
struct Place {
  uint8_t* octet;
  int64_t lane;
  bool isKey;
};

// The largest magnitude of finite values; infinity if one is not finite.
static float largestOf(const float* values, int64_t count) {
  float largest = 0.0f;
  bool isFinite = true;
  for (int64_t d = 0; d < count; d++) {
    const float magnitude = values[d] < 0 ? -values[d] : values[d];
    isFinite = isFinite && magnitude <= 3.4028235e38f;
    largest = magnitude > largest ? magnitude : largest;
  }
  return isFinite ? largest : __builtin_inff();
}

// The exponent byte e for which magnitudes up to `largest` are at most 1.75 · 2^(e - 127), E4M3's range; 0, and all
// values are stored as 0, where that is far below any key or value that counts; 255 where one is not finite.
static uint8_t exponentOf(float largest) {
  const uint32_t bits = bitsOf(largest);
  const uint32_t exponent = (bits >> 23) + ((bits & 0x7fffffu) > 0x600000u ? 1 : 0);
  return static_cast<uint8_t>(exponent < 32 ? 0 : exponent > 253 ? 255 : exponent);
}

// 2^(127 - e), for which 2^(e - 127) is the scale; 0 where nothing but zeros is stored.
static float inverseOf(uint8_t exponent) { return exponent == 0 || exponent == 255 ? 0.0f : floatOf((254u - exponent) << 23); }

static uint8_t signOf(float value) { return bitsOf(value) >> 31 != 0 ? 0x80 : 0; }
static float magnitudeOf(float value) { return floatOf(bitsOf(value) & 0x7fffffffu); }

// The scale is the largest magnitude / 127: 0 where that is no normal number, NaN where a value is not finite, so that
// it shows.
static void storeInt8(const KvGeometry& kv, Place to, uint8_t* target, int64_t stride, const float* values) {
  const float largest = largestOf(values, kv.headDim);
  float scale = largest / 127.0f;
  if (scale < 1.17549435e-38f) scale = 0.0f;
  if (largest == __builtin_inff()) scale = __builtin_nanf("");
  memcpy(to.octet + kv.scalesOffset() + 4 * to.lane, &scale, 4);
  for (int64_t d = 0; d < kv.headDim; d++) {
    // Adding 1.5 · 2^23 rounds to the nearest integer, ties to even; the quotient is at most 127.
    const float rounded = (scale > 0 ? values[d] / scale : 0.0f) + 12582912.0f - 12582912.0f;
    target[d * stride] = static_cast<uint8_t>(static_cast<int8_t>(rounded));
  }
}

static void storeE4m3(const KvGeometry& kv, Place to, uint8_t* target, int64_t stride, const float* values) {
  const uint8_t exponent = exponentOf(largestOf(values, kv.headDim));
  const float inverse = inverseOf(exponent);
  to.octet[kv.exponentsOffset() + to.lane] = exponent;
  for (int64_t d = 0; d < kv.headDim; d++) {
    // No product with a NaN or an infinity is stored.
    const uint8_t code = static_cast<uint8_t>(magnitudeToE4m3(magnitudeOf(values[d]) * inverse) | signOf(values[d]));
    target[d * stride] = inverse > 0 ? code : 0;
  }
}

// The E2M1 codes of a group's values with a scale, and the sum of their squared errors.
static float encodeGroup(const float* values, float scale, uint8_t* codes) {
  float error = 0.0f;
  for (int64_t i = 0; i < kFp4Group; i++) {
    const float magnitude = magnitudeOf(values[i]);
    const uint8_t code = scale > 0 ? magnitudeToE2m1(magnitude / scale) : 0;
    const float off = magnitude - kE2m1Magnitudes[code] * scale;
    error += off * off;
    codes[i] = static_cast<uint8_t>(code | (code > 0 ? signOf(values[i]) >> 4 : 0));
  }
  return error;
}

// Of two scales, which put a group's largest magnitude at 6 or at 4, where E2M1 is finer, the one with less error (Cook
// et al., "Four Over Six", 2025).
static void storeFp4(const KvGeometry& kv, Place to, const float* values) {
  const float largest = largestOf(values, kv.headDim);
  const uint8_t exponent = exponentOf(largest / 4.0f);
  const float inverse = inverseOf(exponent);
  const float unit = inverse > 0 ? floatOf(static_cast<uint32_t>(exponent) << 23) : 0.0f;
  to.octet[kv.exponentsOffset() + to.lane] = exponent;
  for (int64_t group = 0; group < kv.numGroups(); group++) {
    float padded[kFp4Group] = {};
    const int64_t left = kv.headDim - group * kFp4Group;
    const int64_t count = left < kFp4Group ? left : kFp4Group;
    if (inverse > 0) memcpy(padded, values + group * kFp4Group, static_cast<size_t>(count) * 4);
    const float top = largestOf(padded, kFp4Group) * inverse;
    uint8_t best[kFp4Group], other[kFp4Group];
    uint8_t scale = magnitudeToE4m3(top / 6.0f);
    const uint8_t wider = magnitudeToE4m3(top / 4.0f);
    const float error = encodeGroup(padded, kE4m3Magnitudes.at[scale] * unit, best);
    if (encodeGroup(padded, kE4m3Magnitudes.at[wider] * unit, other) < error) {
      scale = wider;
      memcpy(best, other, sizeof best);
    }
    uint8_t* bytes = to.octet + (to.isKey ? group * kFp4Group / 2 * kKvOctet + to.lane : to.lane * kv.valueBytes() + group * kFp4Group / 2);
    for (int64_t i = 0; i < kFp4Group / 2; i++) {
      if (to.isKey) bytes[i * kKvOctet] = static_cast<uint8_t>(best[2 * i] | best[2 * i + 1] << 4);
      else bytes[i] = static_cast<uint8_t>(best[i] | best[i + 8] << 4);
    }
    to.octet[kv.scalesOffset() + (to.isKey ? group * kKvOctet + to.lane : to.lane * kv.numGroups() + group)] = scale;
  }
}

static void storeF16(const KvGeometry& kv, uint8_t* target, int64_t stride, const float* values) {
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

static void storeEntry(const KvGeometry& kv, Place to, const float* values) {
  if (kv.type == KvType::fp4) return storeFp4(kv, to, values);
  const int64_t size = kv.valueBytes() / kv.headDim;
  const int64_t stride = to.isKey ? kKvOctet * size : size;
  uint8_t* target = to.octet + to.lane * (to.isKey ? size : kv.valueBytes());
  if (kv.type == KvType::int8) return storeInt8(kv, to, target, stride, values);
  if (kv.type == KvType::fp8_e4m3) return storeE4m3(kv, to, target, stride, values);
  if (kv.type == KvType::f16) return storeF16(kv, target, stride, values);
  for (int64_t d = 0; d < kv.headDim; d++) {
    if (kv.type == KvType::f32) memcpy(target + d * stride, &values[d], 4);
    else target[d * stride] = floatToE5m2(values[d]);
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
      storeEntry(kv, {args.keyCache + offset, slot % kKvOctet, true}, k + h * kv.headDim);
      if (!args.storesKeysAlone) storeEntry(kv, {args.valueCache + offset, slot % kKvOctet, false}, v + h * kv.headDim);
    }
  }
}

}  // namespace millrace::MILLRACE_ISA
