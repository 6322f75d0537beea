// causalConv: a short convolution of each column over the tokens of its sequence, then SiLU where it is asked for. A
// unit is kUnitColumns columns of all rows. SiLU is computed in double and nothing is fused, so that every instruction
// set gives the same bits.
#include "kernel.h"
#include "math.h"
#include "recurrent.h"

namespace millrace {

namespace {
// A multiple of every instruction set's kDoubles.
constexpr int64_t kUnitColumns = 64;
constexpr int64_t kMaxTaps = 64;

struct CausalConvArgs {
  float* out;           // [M, width]
  const float* x;       // [M, width]
  const float* kernel;  // [taps, width]
  const float* bias;    // [width] or null
  float* state;         // [numSlots, taps - 1, width]
  StateRows rows;
  int64_t width;
  int64_t taps;
  bool isActivated;
};
}  // namespace

#ifdef MILLRACE_DECODES

Op decode(const Operands<ops::causalConv>& in, DecodeMemo&) {
  using ops::causalConv;
  CausalConvArgs args{};
  const int64_t numSlots = in.integer(causalConv::numSlots);
  args.rows = readStateRows(in, numSlots);
  args.width = in.integer(causalConv::width, 1);
  args.taps = in.integer(causalConv::taps, 1, kMaxTaps);
  args.isActivated = in.flag(causalConv::isActivated);
  args.out = in.buffer(causalConv::out, saturatedProduct(args.rows.numRows, args.width));
  args.x = in.buffer(causalConv::x, saturatedProduct(args.rows.numRows, args.width));
  args.kernel = in.buffer(causalConv::kernel, saturatedProduct(args.taps, args.width));
  args.bias = in.optionalBuffer(causalConv::bias, args.width);
  args.state = in.buffer(causalConv::state, saturatedProduct(numSlots, args.taps - 1, args.width));
  in.requireApart(causalConv::out, causalConv::kernel);
  in.requireApart(causalConv::state, causalConv::kernel);
  if (args.bias != nullptr) {
    in.requireApart(causalConv::out, causalConv::bias);
    in.requireApart(causalConv::state, causalConv::bias);
  }
  const double nanos = static_cast<double>(args.rows.numRows * kUnitColumns) * (2.0 + 0.1 * static_cast<double>(args.taps)) + 100;
  return makeOp(OpCode::causalConv, args, (args.width + kUnitColumns - 1) / kUnitColumns, nanos, kMaxTaps * kUnitColumns * 4);
}

#endif

}  // namespace millrace

namespace millrace::MILLRACE_ISA {

namespace {

// The columns of a unit.
struct Columns {
  const CausalConvArgs& args;
  int64_t first;
  int64_t count;
  float* past;  // [taps - 1, count]: the state that the present run of rows continues

  float* slot(int64_t index, int64_t row) const { return args.state + (index * (args.taps - 1) + row) * args.width + first; }

  void load(int32_t source) const {
    const size_t numBytes = static_cast<size_t>(count) * sizeof(float);
    for (int64_t row = 0; row < args.taps - 1; row++) {
      if (source == kEmptyState) memset(past + row * count, 0, numBytes);
      else memcpy(past + row * count, slot(source, row), numBytes);
    }
  }

  // Inputs of the token `age` tokens before row m, the run's row number `t`.
  const float* input(int64_t m, int64_t t, int64_t age) const {
    return age <= t ? args.x + (m - age) * args.width + first : past + (args.taps - 1 + t - age) * count;
  }

  void compute(int64_t m, int64_t t) const {
    float sums[kUnitColumns] = {};
    for (int64_t j = 0; j < args.taps; j++) {
      const float* kernel = args.kernel + j * args.width + first;
      const float* values = input(m, t, args.taps - 1 - j);
      for (int64_t c = 0; c < count; c++) sums[c] += kernel[c] * values[c];
    }
    for (int64_t c = 0; args.bias != nullptr && c < count; c++) sums[c] += args.bias[first + c];
    for (int64_t c = 0; args.isActivated && c < count; c += kDoubles) {
      const Doubles sum = loadAsDoubles(sums + c);
      storeAsFloats(sums + c, sum / (expDoubles(-sum) + 1.0));
    }
    memcpy(args.out + m * args.width + first, sums, static_cast<size_t>(count) * sizeof(float));
  }

  void keep(int64_t index, int64_t m, int64_t t) const {
    for (int64_t row = 0; row < args.taps - 1; row++) {
      memcpy(slot(index, row), input(m, t, args.taps - 2 - row), static_cast<size_t>(count) * sizeof(float));
    }
  }
};

}  // namespace

void causalConvKernel(const Op& op, int64_t begin, int64_t end, std::byte* scratch) {
  const CausalConvArgs& args = op.args<CausalConvArgs>();
  for (int64_t unit = begin; unit < end; unit++) {
    const int64_t first = unit * kUnitColumns;
    const Columns columns{args, first, minOf(kUnitColumns, args.width - first), reinterpret_cast<float*>(scratch)};
    int64_t t = 0;
    for (int64_t m = 0; m < args.rows.numRows; m++) {
      t = args.rows.sources[m] == kRowBefore ? t + 1 : 0;
      if (t == 0) columns.load(args.rows.sources[m]);
      columns.compute(m, t);
      forTargets(args.rows, m, [&](int64_t slot) { columns.keep(slot, m, t); });
    }
  }
}

}  // namespace millrace::MILLRACE_ISA
