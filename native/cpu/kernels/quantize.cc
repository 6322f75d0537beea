// quantize: f32 rows into the formats of packed.h. A unit is a row.
//
// bf16 rounds each value to nearest even; a NaN stays one. The others: d = max|x| / largest, q = x · (largest / max|x|)
// rounded to nearest even. A block with a NaN or an infinity gets d = NaN; one that is all below 1e-30 becomes zeros.
#include "quantize.h"
#include "simd.h"

namespace millrace {

#ifdef MILLRACE_DECODES

Op decode(const Operands<ops::quantize>& in, DecodeMemo&) {
  QuantizeArgs args{};
  const int64_t numRows = in.integer(ops::quantize::numRows);
  args.width = in.integer(ops::quantize::width, 1);
  args.format = in.code(ops::quantize::format);
  requireWholeBlocks(in, ops::quantize::width, args.width, args.format);
  args.out = in.buffer(ops::quantize::out, saturatedProduct(numRows, activationRowBytes(args.format, args.width)));
  args.x = in.buffer(ops::quantize::x, saturatedProduct(numRows, args.width));
  return makeOp(OpCode::quantize, args, numRows, static_cast<double>(args.width) * 0.4 + 20);
}

#endif

}  // namespace millrace

namespace millrace::MILLRACE_ISA {
namespace {

struct Step {
  float d;
  float inverse;
};

// Bits of |x|: they order as the magnitudes do, infinities and NaN last.
MILLRACE_INLINE i32x8 magnitudeBits(f32x8 x) { return reinterpret_cast<i32x8>(x) & 0x7fffffff; }
MILLRACE_INLINE i32x8 largerOf(i32x8 a, i32x8 b) { return a > b ? a : b; }
// As integers, lanes may be compared and added up in any order.
MILLRACE_INLINE int32_t largestLane(i32x8 v) {
#if defined(MILLRACE_ISA_AVX2)
  const __m256i lanes = reinterpret_cast<__m256i>(v);
  __m128i largest = _mm_max_epi32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256(lanes, 1));
  largest = _mm_max_epi32(largest, _mm_shuffle_epi32(largest, 0x4e));
  return _mm_cvtsi128_si32(_mm_max_epi32(largest, _mm_shuffle_epi32(largest, 0xb1)));
#else
  int32_t largest = v[0];
  for (int lane = 1; lane < 8; lane++) largest = largest > v[lane] ? largest : v[lane];
  return largest;
#endif
}
MILLRACE_INLINE int32_t sumOf(i32x8 v) {
#if defined(MILLRACE_ISA_AVX2)
  const __m256i lanes = reinterpret_cast<__m256i>(v);
  __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256(lanes, 1));
  sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xb1)));
#else
  return ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7]));
#endif
}

Step stepOf(int32_t bits, float largest) {
  float maximum;
  memcpy(&maximum, &bits, 4);
  if (bits >= 0x7f800000) return {__builtin_nanf(""), 0.0f};
  if (maximum < 1e-30f) return {0.0f, 0.0f};
  return {maximum / largest, largest / maximum};
}

// Nearest integers, ties to even, of |x| < 2^22: they appear in the low bits of x + 1.5 · 2^23.
MILLRACE_INLINE i32x8 roundToInt(f32x8 x) {
  return reinterpret_cast<i32x8>(x + splat8(12582912.0f)) - 0x4b400000;
}

typedef int16_t i16x8 __attribute__((vector_size(16)));

// kVectors times eight columns; the integers also in `vectors`.
template <int kVectors>
MILLRACE_INLINE void quantizeEights(const float* x, Step step, int8_t* q, i32x8* vectors) {
  MILLRACE_UNROLL
  for (int i = 0; i < kVectors; i++) {
    // A NaN or infinity times 0 leaves bits that are cut off; d is NaN then.
    vectors[i] = (roundToInt(load8(x + 8 * i) * splat8(step.inverse)) << 24) >> 24;
    const i8x8 bytes = __builtin_convertvector(vectors[i], i8x8);
    memcpy(q + 8 * i, &bytes, 8);
  }
}

MILLRACE_INLINE i32x8 magnitudeBits16(const float* x) { return largerOf(magnitudeBits(load8(x)), magnitudeBits(load8(x + 8))); }
MILLRACE_INLINE i32x8 magnitudeBits32(const float* x) { return largerOf(magnitudeBits16(x), magnitudeBits16(x + 16)); }

template <ActivationFormat kFormat>
void quantizeSmallBlocks(const float* x, int64_t cols, SmallBlock* blocks, int8_t* q) {
  constexpr int kCols = activationBlock(kFormat);
  for (int64_t i = 0; i < cols / kCols; i++, x += kCols, q += kCols) {
    const Step step = stepOf(largestLane(kCols == 16 ? magnitudeBits16(x) : magnitudeBits32(x)), 127.0f);
    i32x8 v[4] = {};
    quantizeEights<kCols / 8>(x, step, q, v);
    const float sum = static_cast<float>(sumOf((v[0] + v[1]) + (v[2] + v[3])));
    if constexpr (kFormat == ActivationFormat::blocks32) blocks[i] = {step.d, 8.0f * step.d * sum};
    else blocks[i] = {step.d, (kFormat == ActivationFormat::blocks16 ? 12.0f : 128.0f) * sum};
  }
}

void quantizeBlocks256(const float* x, int64_t cols, Block256* blocks, int8_t* q) {
  for (int64_t i = 0; i < cols / 256; i++, x += 256, q += 256) {
    i32x8 bits = magnitudeBits32(x);
    for (int s = 1; s < 8; s++) bits = largerOf(bits, magnitudeBits32(x + 32 * s));
    const Step step = stepOf(largestLane(bits), 127.0f);
    Block256& block = blocks[i];
    block.d = step.d;
    for (int s = 0; s < 8; s++) {
      i32x8 v[4];
      quantizeEights<4>(x + 32 * s, step, q + 32 * s, v);
      MILLRACE_UNROLL
      for (int h = 0; h < 2; h++) {
        const i32x8 both = v[2 * h] + v[2 * h + 1];
        const int32_t first = (both[0] + both[1]) + (both[4] + both[5]);
        const int32_t second = (both[2] + both[3]) + (both[6] + both[7]);
        block.sums16[2 * s + h] = static_cast<int16_t>(first + second);
        block.offsets16[4 * s + 2 * h] = static_cast<int16_t>(-32 * first);
        block.offsets16[4 * s + 2 * h + 1] = static_cast<int16_t>(-32 * second);
      }
      block.sums32[s] = static_cast<int16_t>(block.sums16[2 * s] + block.sums16[2 * s + 1]);
    }
  }
}

void quantizeRow16(const float* x, int64_t cols, float* d, int16_t* q) {
  i32x8 bits{};
  for (int64_t k = 0; k < cols; k += 32) bits = largerOf(bits, magnitudeBits32(x + k));
  const Step step = stepOf(largestLane(bits), 32767.0f);
  *d = step.d;
  for (int64_t k = 0; k < cols; k += 8) {
    const i16x8 narrow = __builtin_convertvector(roundToInt(load8(x + k) * splat8(step.inverse)), i16x8);
    memcpy(q + k, &narrow, 16);
  }
}

MILLRACE_INLINE u16x8 toBfloats(f32x8 x) {
  const u32x8 bits = reinterpret_cast<u32x8>(x);
  const u32x8 rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  const u32x8 isNaN = reinterpret_cast<u32x8>((bits & 0x7fffffff) > 0x7f800000);
  return __builtin_convertvector((isNaN & (bits >> 16 | 0x40)) | (~isNaN & rounded), u16x8);
}

void roundToBfloats(const float* x, int64_t cols, uint8_t* out) {
  for (int64_t k = 0; k < cols; k += 8) {
    const int64_t count = minOf(8, cols - k);
    const u16x8 rounded = toBfloats(loadPartial8(x + k, count));
    memcpy(out + 2 * k, &rounded, static_cast<size_t>(2 * count));
  }
}

}  // namespace

void quantizeKernel(const Op& op, int64_t begin, int64_t end, std::byte*) {
  const QuantizeArgs& args = op.args<QuantizeArgs>();
  const int64_t rowBytes = activationRowBytes(args.format, args.width);
  const int64_t headerBytes = activationHeaderBytes(args.format, args.width);
  for (int64_t m = begin; m < end; m++) {
    const float* x = args.x + m * args.width;
    uint8_t* header = args.out + m * rowBytes;
    int8_t* q = reinterpret_cast<int8_t*>(header + headerBytes);
    SmallBlock* blocks = reinterpret_cast<SmallBlock*>(header);
    switch (args.format) {
      case ActivationFormat::blocks16: quantizeSmallBlocks<ActivationFormat::blocks16>(x, args.width, blocks, q); break;
      case ActivationFormat::blocks32: quantizeSmallBlocks<ActivationFormat::blocks32>(x, args.width, blocks, q); break;
      case ActivationFormat::centred32: quantizeSmallBlocks<ActivationFormat::centred32>(x, args.width, blocks, q); break;
      case ActivationFormat::blocks256: quantizeBlocks256(x, args.width, reinterpret_cast<Block256*>(header), q); break;
      case ActivationFormat::row16: quantizeRow16(x, args.width, reinterpret_cast<float*>(header), reinterpret_cast<int16_t*>(q)); break;
      case ActivationFormat::bf16: roundToBfloats(x, args.width, header); break;
      case ActivationFormat::f32: break;
    }
  }
}

}  // namespace millrace::MILLRACE_ISA
