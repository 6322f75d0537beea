// roundToScales: codes of values over given scales. A unit is a row, or with feedback a tile of rows.
#include "feedback.h"
#include "kernel.h"
#include "small_floats.h"

namespace millrace {

namespace {
struct RoundToScalesArgs {
  uint8_t* out;         // [M, width]
  const float* x;       // [M, width]
  const float* scales;  // [M, width / group]
  const float* factor;  // [width, width] or null
  const int32_t* order;  // [width] or null
  int64_t numRows;
  int64_t width;
  int64_t group;
  ScaledType type;
};
}  // namespace

#ifdef MILLRACE_DECODES

Op decode(const Operands<ops::roundToScales>& in, DecodeMemo&) {
  using ops::roundToScales;
  using MILLRACE_ISA::feedbackScratchBytes;
  using MILLRACE_ISA::kFeedbackRows;
  RoundToScalesArgs args{};
  args.numRows = in.integer(roundToScales::numRows);
  args.width = in.integer(roundToScales::width);
  args.group = in.integer(roundToScales::group, 1);
  args.type = in.code(roundToScales::type);
  if (args.width % args.group != 0) {
    in.refuse(roundToScales::width, "a multiple of " + std::to_string(args.group), static_cast<double>(args.width));
  }
  const int64_t numValues = saturatedProduct(args.numRows, args.width);
  args.x = in.buffer(roundToScales::x, numValues);
  args.scales = in.buffer(roundToScales::scales, saturatedProduct(args.numRows, args.width / args.group));
  args.factor = in.optionalBuffer(roundToScales::factor, saturatedProduct(args.width, args.width));
  args.out = in.buffer(roundToScales::out, numValues);
  in.requireApart(roundToScales::out, roundToScales::x);
  in.requireApart(roundToScales::out, roundToScales::scales);
  args.order = in.optionalIndices(roundToScales::order, args.width, 0, args.width - 1);
  const double width = static_cast<double>(args.width);
  if (args.factor == nullptr) return makeOp(OpCode::roundToScales, args, args.numRows, width * 4);
  in.requireApart(roundToScales::out, roundToScales::factor);
  in.requireApart(roundToScales::out, roundToScales::order);
  const int64_t numTiles = (args.numRows + kFeedbackRows - 1) / kFeedbackRows;
  return makeOp(OpCode::roundToScales, args, numTiles, kFeedbackRows * width * (width / 30 + 10), feedbackScratchBytes(args.width));
}

#endif

}  // namespace millrace

namespace millrace::MILLRACE_ISA {
namespace {

// Columns settled before their errors are fed back together.
constexpr int64_t kColumns = 128;

MILLRACE_INLINE float wholeWithin(float x, float low, float high) {
  const float bounded = x < low ? low : x > high ? high : x;
  const volatile float shifted = bounded + 12582912.0f;
  return shifted - 12582912.0f;
}

struct Int4 {
  static uint8_t code(float x) { return static_cast<uint8_t>(8 + static_cast<int>(wholeWithin(x, -8, 7))); }
  static float level(uint8_t code) { return static_cast<float>(code) - 8; }
};
struct Int8 {
  static uint8_t code(float x) { return static_cast<uint8_t>(static_cast<int8_t>(wholeWithin(x, -127, 127))); }
  static float level(uint8_t code) { return static_cast<float>(static_cast<int8_t>(code)); }
};
// small_floats.h has its values in units of 2^8.
struct E4m3 {
  static uint8_t code(float x) {
    const float magnitude = (x < 0 ? -x : x) * 0x1p-8f;
    return static_cast<uint8_t>(magnitudeToE4m3(magnitude > 1.75f ? 1.75f : magnitude) | (bitsOf(x) >> 24 & 0x80));
  }
  static float level(uint8_t code) { return ((code & 0x80) != 0 ? -256.0f : 256.0f) * kE4m3Magnitudes.at[code & 0x7f]; }
};

struct E2m1 {
  static uint8_t code(float x) { return static_cast<uint8_t>(magnitudeToE2m1(x < 0 ? -x : x) | (bitsOf(x) >> 28 & 8)); }
  static float level(uint8_t code) { return ((code & 8) != 0 ? -1.0f : 1.0f) * kE2m1Magnitudes[code & 7]; }
};

template <class Type>
MILLRACE_INLINE uint8_t codeOf(float x, float scale) {
  return Type::code(scale > 0 ? x / scale : 0);
}

template <class Type>
void roundRows(const RoundToScalesArgs& args, int64_t begin, int64_t end) {
  for (int64_t at = begin * args.width; at < end * args.width; at++) args.out[at] = codeOf<Type>(args.x[at], args.scales[at / args.group]);
}

template <class Type>
void roundTiles(const RoundToScalesArgs& args, int64_t begin, int64_t end, std::byte* scratch) {
  for (int64_t tile = begin; tile < end; tile++) {
    const int64_t first = tile * kFeedbackRows;
    const auto round = [&](int64_t row, int64_t place, int64_t n, BlockFeedback& feedback) {
      for (int64_t i = n - 1; i >= 0; i--) {
        const int64_t column = args.order == nullptr ? place + i : args.order[place + i];
        const int64_t at = (first + row) * args.width + column;
        const float scale = args.scales[at / args.group];
        const uint8_t code = codeOf<Type>(feedback.targets()[i], scale);
        args.out[at] = code;
        feedback.settle(i, scale * Type::level(code));
      }
    };
    const FeedbackRows rows{args.x + first * args.width, minOf(kFeedbackRows, args.numRows - first), args.width, args.factor, args.order};
    roundTile(rows, kColumns, scratch, round);
  }
}

template <class Type>
void run(const RoundToScalesArgs& args, int64_t begin, int64_t end, std::byte* scratch) {
  if (args.factor == nullptr) roundRows<Type>(args, begin, end);
  else roundTiles<Type>(args, begin, end, scratch);
}

}  // namespace

void roundToScalesKernel(const Op& op, int64_t begin, int64_t end, std::byte* scratch) {
  const RoundToScalesArgs& args = op.args<RoundToScalesArgs>();
  switch (args.type) {
    case ScaledType::int4: return run<Int4>(args, begin, end, scratch);
    case ScaledType::int8: return run<Int8>(args, begin, end, scratch);
    case ScaledType::e4m3: return run<E4m3>(args, begin, end, scratch);
    case ScaledType::e2m1: return run<E2m1>(args, begin, end, scratch);
  }
}

}  // namespace millrace::MILLRACE_ISA
