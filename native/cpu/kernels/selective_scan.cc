// selectiveScan: a state space of Mamba-2 as a plain recurrence, for prompts too: a chunked form has other sums for
// other cuts of a prompt. A unit is kStateColumns columns of one head's state, for all rows: the block stays in the
// first-level cache for all of them. Nothing is fused, and exponentials are computed in double, so that every
// instruction set gives the same bits.
#include "kernel.h"
#include "math.h"
#include "recurrent.h"

namespace millrace {

namespace {
// Rows whose steps are computed at once: a multiple of every instruction set's kDoubles.
constexpr int64_t kTileRows = 32;
constexpr int64_t kMaxStateDim = 4096;
constexpr int64_t kMaxHeads = 65536;

struct SelectiveScanArgs {
  float* out;          // [M, numHeads, valueDim]
  const float* x;      // [M, rowWidth()]
  const float* steps;  // [M, numHeads]
  const float* decay;  // [numHeads]
  const float* bias;   // [numHeads]
  const float* skip;   // [numHeads]
  float* state;        // [numSlots, numHeads, numBlocks(), stateDim, kStateColumns]
  StateRows rows;
  int32_t numHeads;
  int32_t numGroups;
  int32_t stateDim;
  int32_t valueDim;

  int64_t numBlocks() const { return (valueDim + kStateColumns - 1) / kStateColumns; }
  int64_t inner() const { return static_cast<int64_t>(numHeads) * valueDim; }
  int64_t rowWidth() const { return inner() + 2 * static_cast<int64_t>(numGroups) * stateDim; }
};
}  // namespace

#ifdef MILLRACE_DECODES

Op decode(const Operands<ops::selectiveScan>& in, DecodeMemo&) {
  using ops::selectiveScan;
  SelectiveScanArgs args{};
  const int64_t numSlots = in.integer(selectiveScan::numSlots);
  args.rows = readStateRows(in, numSlots);
  const int64_t numRows = args.rows.numRows;
  args.numGroups = static_cast<int32_t>(in.integer(selectiveScan::numGroups, 1, kMaxHeads));
  args.numHeads = static_cast<int32_t>(in.integer(selectiveScan::numHeads, 1, kMaxHeads));
  if (args.numHeads % args.numGroups != 0) {
    in.refuse(selectiveScan::numHeads, "a multiple of " + std::to_string(args.numGroups), args.numHeads);
  }
  args.stateDim = static_cast<int32_t>(in.integer(selectiveScan::stateDim, 1, kMaxStateDim));
  args.valueDim = static_cast<int32_t>(in.integer(selectiveScan::valueDim, 1, kMaxStateDim));
  args.out = in.buffer(selectiveScan::out, saturatedProduct(numRows, args.inner()));
  args.x = in.buffer(selectiveScan::x, saturatedProduct(numRows, args.rowWidth()));
  args.steps = in.buffer(selectiveScan::steps, saturatedProduct(numRows, args.numHeads));
  args.decay = in.buffer(selectiveScan::decay, args.numHeads);
  args.bias = in.buffer(selectiveScan::bias, args.numHeads);
  args.skip = in.buffer(selectiveScan::skip, args.numHeads);
  const int64_t blockValues = args.stateDim * kStateColumns;
  args.state = in.buffer(selectiveScan::state, saturatedProduct(numSlots, args.numHeads * args.numBlocks(), blockValues));
  for (const operand::Place& written : {static_cast<operand::Place>(selectiveScan::out), static_cast<operand::Place>(selectiveScan::state)}) {
    in.requireApart(written, selectiveScan::steps);
    in.requireApart(written, selectiveScan::decay);
    in.requireApart(written, selectiveScan::bias);
    in.requireApart(written, selectiveScan::skip);
  }
  const double nanos = static_cast<double>(numRows) * (static_cast<double>(blockValues) * 0.07 + 50);
  return makeOp(OpCode::selectiveScan, args, args.numHeads * args.numBlocks(), nanos, blockValues * 4);
}

#endif

}  // namespace millrace

namespace millrace::MILLRACE_ISA {

namespace {

// Lets a token into kColumns columns of S.
// @param from S before it @param to S after it, which may be `from` @param b, c of the token's group, [stateDim]
// @param added the columns' values times the token's step @param out Sᵀ c after it
void advance(const float* from, float* to, int64_t stateDim, float decay, const float* b, const float* c, const float* added, float* out) {
  const Floats kept = splatFloats(decay);
  Floats values[kStateVectors];
  MILLRACE_UNROLL
  for (int64_t j = 0; j < kStateVectors; j++) values[j] = loadFloats(added + j * kLanes);
  Sums sums = {};
  forStateRows(stateDim, [&](int64_t i, int64_t part) __attribute__((always_inline)) {
    const Floats written = splatFloats(b[i]);
    const Floats read = splatFloats(c[i]);
    MILLRACE_UNROLL
    for (int64_t j = 0; j < kStateVectors; j++) {
      const int64_t at = i * kStateColumns + j * kLanes;
      const Floats state = loadFloats(from + at) * kept + written * values[j];
      storeFloats(to + at, state);
      sums[part][j] += state * read;
    }
  });
  storeSums(out, sums);
}

// One block of columns of one head.
struct ScanBlock : StateBlock {
  const SelectiveScanArgs& args;

  // Steps and decays of rows [first, first + count).
  void prepare(int64_t first, int64_t count, float* steps, float* decays) const {
    for (int64_t r = 0; r < count; r++) steps[r] = args.steps[(first + r) * args.numHeads + head];
    const double bias = static_cast<double>(args.bias[head]);
    const double decay = static_cast<double>(args.decay[head]);
    for (int64_t r = 0; r < count; r += kDoubles) {
      const Doubles step = softplus(loadAsDoubles(steps + r) + bias);
      storeAsFloats(steps + r, step);
      storeAsFloats(decays + r, expDoubles(step * decay));
    }
  }

  void compute() const {
    const int64_t first = block * kStateColumns;
    const int64_t count = minOf(kStateColumns, args.valueDim - first);
    const int64_t group = head * args.numGroups / args.numHeads;
    const float skip = args.skip[head];
    float steps[kTileRows] = {};
    float decays[kTileRows];
    float added[kStateColumns] = {};
    float out[kStateColumns];
    const float* from = own;
    for (int64_t m = 0; m < rows.numRows; m++) {
      const int64_t r = m % kTileRows;
      if (r == 0) prepare(m, minOf(kTileRows, rows.numRows - m), steps, decays);
      if (rows.sources[m] != kRowBefore) from = start(m);
      float* to = destination(m);
      const float* row = args.x + m * args.rowWidth();
      const float* values = row + head * args.valueDim + first;
      const float* b = row + args.inner() + group * args.stateDim;
      for (int64_t i = 0; i < count; i++) added[i] = values[i] * steps[r];
      for (int64_t i = 0; i < kStateColumns; i += kColumns) {
        advance(from + i, to + i, args.stateDim, decays[r], b, b + args.numGroups * args.stateDim, added + i, out + i);
      }
      float* target = args.out + m * args.inner() + head * args.valueDim + first;
      for (int64_t i = 0; i < count; i++) target[i] = out[i] + skip * values[i];
      from = to;
      keep(m, to);
    }
  }
};

}  // namespace

void selectiveScanKernel(const Op& op, int64_t begin, int64_t end, std::byte* scratch) {
  const SelectiveScanArgs& args = op.args<SelectiveScanArgs>();
  float* own = reinterpret_cast<float*>(scratch);
  const int64_t numBlocks = args.numBlocks();
  for (int64_t unit = begin; unit < end; unit++) {
    ScanBlock{{args.rows, args.state, args.numHeads, numBlocks, args.stateDim, unit / numBlocks, unit % numBlocks, own}, args}.compute();
  }
}

}  // namespace millrace::MILLRACE_ISA
