// scaleAndCap and scaleByPosition: x times a number, the same for all rows or one for each. A unit is kUnitValues
// values, or a row.
#include "kernel.h"
#include "math.h"

namespace millrace {

namespace {
constexpr int64_t kUnitValues = 1024;

struct ScaleAndCapArgs {
  float* x;
  int64_t numValues;
  float scale;
  float cap;  // 0 = none
};

struct ScaleByPositionArgs {
  float* x;  // [M, width]
  const int32_t* positions;
  int64_t width;
  int64_t length;
  double beta;
};
}  // namespace

#ifdef MILLRACE_DECODES

Op decode(const Operands<ops::scaleAndCap>& in, DecodeMemo&) {
  using ops::scaleAndCap;
  ScaleAndCapArgs args{};
  args.numValues = saturatedProduct(in.integer(scaleAndCap::numRows), in.integer(scaleAndCap::width));
  args.x = in.buffer(scaleAndCap::x, args.numValues);
  args.scale = static_cast<float>(in.number(scaleAndCap::scale));
  args.cap = static_cast<float>(in.number(scaleAndCap::cap));
  if (!(args.cap >= 0)) in.refuse(scaleAndCap::cap, "at least 0", args.cap);
  return makeOp(OpCode::scaleAndCap, args, (args.numValues + kUnitValues - 1) / kUnitValues, args.cap > 0 ? 2000 : 150);
}

Op decode(const Operands<ops::scaleByPosition>& in, DecodeMemo&) {
  using ops::scaleByPosition;
  ScaleByPositionArgs args{};
  const int64_t numRows = in.integer(scaleByPosition::numRows);
  args.width = in.integer(scaleByPosition::width);
  args.x = in.buffer(scaleByPosition::x, saturatedProduct(numRows, args.width));
  args.positions = in.buffer(scaleByPosition::positions, numRows);
  args.beta = in.number(scaleByPosition::beta);
  args.length = in.integer(scaleByPosition::length, 1, 1 << 27);
  return makeOp(OpCode::scaleByPosition, args, numRows, static_cast<double>(args.width) * 0.2 + 20);
}

#endif

}  // namespace millrace

namespace millrace::MILLRACE_ISA {

static void scaleValues(float* x, int64_t count, float scale, float cap) {
  for (int64_t i = 0; i < count; i += 8) {
    const int64_t rest = minOf(count - i, 8);
    const f32x8 scaled = loadPartial8(x + i, rest) * splat8(scale);
    storePartial8(x + i, cap > 0 ? capped8(scaled, cap) : scaled, rest);
  }
}

void scaleAndCapKernel(const Op& op, int64_t begin, int64_t end, std::byte*) {
  const ScaleAndCapArgs& args = op.args<ScaleAndCapArgs>();
  const int64_t first = begin * kUnitValues;
  scaleValues(args.x + first, minOf(end * kUnitValues, args.numValues) - first, args.scale, args.cap);
}

void scaleByPositionKernel(const Op& op, int64_t begin, int64_t end, std::byte*) {
  const ScaleByPositionArgs& args = op.args<ScaleByPositionArgs>();
  for (int64_t m = begin; m < end; m++) {
    const double numLengths = static_cast<double>(maxOf(args.positions[m], 0) / args.length);
    scaleValues(args.x + m * args.width, args.width, static_cast<float>(1.0 + args.beta * logDouble(1.0 + numLengths)), 0);
  }
}

}  // namespace millrace::MILLRACE_ISA
