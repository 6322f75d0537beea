// deltaRule: the gated delta rule as a plain recurrence, for prompts too: a chunked form has other sums for other cuts
// of a prompt. A unit is kStateColumns columns of one head's state, for all rows: the block stays in the first-level
// cache from row to row. Nothing is fused, and exponentials are computed in double, so that every instruction set gives
// the same bits.
#include <cmath>

#include "kernel.h"
#include "math.h"
#include "recurrent.h"

namespace millrace {

namespace {
// Partial sums over the rows of S, row i in sum i mod kParts, added (0 + 1) + (2 + 3).
constexpr int64_t kParts = 4;
constexpr int64_t kMaxHeadDim = 4096;
constexpr int64_t kMaxHeads = 65536;

struct DeltaRuleArgs {
  float* out;          // [M, numValueHeads, valueDim]
  const float* x;      // [M, rowWidth()]
  const float* alpha;  // [M, numValueHeads]
  const float* beta;   // [M, numValueHeads]
  const float* decay;  // [numValueHeads]
  const float* bias;   // [numValueHeads]
  float* state;        // [numSlots, numValueHeads, numBlocks(), keyDim, kStateColumns]
  StateRows rows;
  int64_t numKeyHeads;
  int32_t numValueHeads;
  int32_t keyDim;
  int32_t valueDim;
  bool isTiled;
  double eps;

  int64_t numBlocks() const { return (valueDim + kStateColumns - 1) / kStateColumns; }
  int64_t rowWidth() const { return 2 * numKeyHeads * keyDim + static_cast<int64_t>(numValueHeads) * valueDim; }
};
}  // namespace

#ifdef MILLRACE_DECODES

Op decode(const Operands<ops::deltaRule>& in, DecodeMemo&) {
  using ops::deltaRule;
  DeltaRuleArgs args{};
  const int64_t numSlots = in.integer(deltaRule::numSlots);
  args.rows = readStateRows(in, numSlots);
  const int64_t numRows = args.rows.numRows;
  args.numKeyHeads = in.integer(deltaRule::numKeyHeads, 1, kMaxHeads);
  args.numValueHeads = static_cast<int32_t>(in.integer(deltaRule::numValueHeads, 1, kMaxHeads));
  if (args.numValueHeads % args.numKeyHeads != 0) {
    in.refuse(deltaRule::numValueHeads, "a multiple of " + std::to_string(args.numKeyHeads), args.numValueHeads);
  }
  args.keyDim = static_cast<int32_t>(in.integer(deltaRule::keyDim, 1, kMaxHeadDim));
  args.valueDim = static_cast<int32_t>(in.integer(deltaRule::valueDim, 1, kMaxHeadDim));
  args.isTiled = in.flag(deltaRule::isTiled);
  args.eps = in.number(deltaRule::eps);
  if (args.eps < 0) in.refuse(deltaRule::eps, "at least 0", args.eps);
  args.out = in.buffer(deltaRule::out, saturatedProduct(numRows, args.numValueHeads, args.valueDim));
  args.x = in.buffer(deltaRule::x, saturatedProduct(numRows, args.rowWidth()));
  args.alpha = in.buffer(deltaRule::alpha, saturatedProduct(numRows, args.numValueHeads));
  args.beta = in.buffer(deltaRule::beta, saturatedProduct(numRows, args.numValueHeads));
  args.decay = in.buffer(deltaRule::decay, args.numValueHeads);
  args.bias = in.buffer(deltaRule::bias, args.numValueHeads);
  const int64_t blockValues = args.keyDim * kStateColumns;
  args.state = in.buffer(deltaRule::state, saturatedProduct(numSlots, args.numValueHeads * args.numBlocks(), blockValues));
  for (const operand::Place& written : {static_cast<operand::Place>(deltaRule::out), static_cast<operand::Place>(deltaRule::state)}) {
    in.requireApart(written, deltaRule::alpha);
    in.requireApart(written, deltaRule::beta);
    in.requireApart(written, deltaRule::decay);
    in.requireApart(written, deltaRule::bias);
  }
  const double nanos = static_cast<double>(numRows) * (static_cast<double>(blockValues) * 0.12 + 100);
  return makeOp(OpCode::deltaRule, args, args.numValueHeads * args.numBlocks(), nanos, (blockValues + 2 * args.keyDim + 64) * 4);
}

#endif

}  // namespace millrace

namespace millrace::MILLRACE_ISA {

namespace {

// 1 / √(Σ x² + eps). Squares of f32 are exact in double.
double inverseLength(const float* x, int64_t count, double eps) {
  f64x4 low = {}, high = {};
  for (int64_t i = 0; i < count; i += 8) {
    f64x4 a, b;
    toDouble4(count - i >= 8 ? load8(x + i) : loadPartial8(x + i, count - i), &a, &b);
    low += a * a;
    high += b * b;
  }
  const double sum = ((low[0] + low[1]) + (low[2] + low[3])) + ((high[0] + high[1]) + (high[2] + high[3]));
  return 1.0 / std::sqrt(sum + eps);
}

void scaled(float* out, const float* x, int64_t count, float factor) {
  for (int64_t i = 0; i < count; i++) out[i] = x[i] * factor;
}

// ln(1 + e^x); beyond 20 it is x to the last bit of a float. NaN gives NaN.
double softplus(double x) { return x <= 20.0 ? logDouble(1.0 + expDouble(x)) : x; }

constexpr int64_t kVectors = 2;
constexpr int64_t kColumns = kVectors * kLanes;

MILLRACE_INLINE Floats whole(const Floats (&parts)[kParts][kVectors], int64_t v) {
  return (parts[0][v] + parts[1][v]) + (parts[2][v] + parts[3][v]);
}

// A token's numbers in one head.
struct Token {
  const float* q;  // [keyDim], scaled
  const float* k;
  float decay;
  float beta;
};

// Lets the token into kColumns columns of S from `s` on. @param v the columns' values @param out their outputs
void updateColumns(float* s, int64_t keyDim, const Token& token, const float* v, float* out) {
  const Floats decay = splatFloats(token.decay);
  Floats sums[kParts][kVectors] = {};
  const auto recall = [&](int64_t i, int64_t part) __attribute__((always_inline)) {
    const Floats k = splatFloats(token.k[i]);
    MILLRACE_UNROLL
    for (int64_t j = 0; j < kVectors; j++) sums[part][j] += loadFloats(s + i * kStateColumns + j * kLanes) * k;
  };
  int64_t i = 0;
  for (; i + kParts <= keyDim; i += kParts) {
    recall(i, 0);
    recall(i + 1, 1);
    recall(i + 2, 2);
    recall(i + 3, 3);
  }
  for (int64_t part = 0; i + part < keyDim; part++) recall(i + part, part);
  Floats delta[kVectors];
  for (int64_t j = 0; j < kVectors; j++) {
    delta[j] = (loadFloats(v + j * kLanes) - whole(sums, j) * decay) * splatFloats(token.beta);
  }
  Floats outs[kParts][kVectors] = {};
  const auto learn = [&](int64_t row, int64_t part) __attribute__((always_inline)) {
    const Floats k = splatFloats(token.k[row]);
    const Floats q = splatFloats(token.q[row]);
    MILLRACE_UNROLL
    for (int64_t j = 0; j < kVectors; j++) {
      float* at = s + row * kStateColumns + j * kLanes;
      const Floats state = loadFloats(at) * decay + k * delta[j];
      storeFloats(at, state);
      outs[part][j] += state * q;
    }
  };
  for (i = 0; i + kParts <= keyDim; i += kParts) {
    learn(i, 0);
    learn(i + 1, 1);
    learn(i + 2, 2);
    learn(i + 3, 3);
  }
  for (int64_t part = 0; i + part < keyDim; part++) learn(i + part, part);
  for (int64_t j = 0; j < kVectors; j++) storeFloats(out + j * kLanes, whole(outs, j));
}

// One block of columns of one head.
struct StateBlock {
  const DeltaRuleArgs& args;
  int64_t head;
  int64_t block;
  float* s;  // [keyDim, kStateColumns]
  float* q;  // [keyDim]
  float* k;

  size_t numBytes() const { return static_cast<size_t>(args.keyDim * kStateColumns) * sizeof(float); }
  float* slot(int64_t index) const {
    return args.state + ((index * args.numValueHeads + head) * args.numBlocks() + block) * args.keyDim * kStateColumns;
  }

  void load(int32_t source) const {
    if (source == kEmptyState) memset(s, 0, numBytes());
    else memcpy(s, slot(source), numBytes());
  }

  void compute(int64_t m) const {
    const int64_t keyDim = args.keyDim;
    const int64_t group = args.isTiled ? head % args.numKeyHeads : head * args.numKeyHeads / args.numValueHeads;
    const float* row = args.x + m * args.rowWidth();
    const float* rawQ = row + group * keyDim;
    const float* rawK = rawQ + args.numKeyHeads * keyDim;
    const double ofQ = inverseLength(rawQ, keyDim, args.eps) / std::sqrt(static_cast<double>(keyDim));
    scaled(q, rawQ, keyDim, static_cast<float>(ofQ));
    scaled(k, rawK, keyDim, static_cast<float>(inverseLength(rawK, keyDim, args.eps)));
    const int64_t gate = m * args.numValueHeads + head;
    const double step = softplus(static_cast<double>(args.alpha[gate]) + static_cast<double>(args.bias[head]));
    const float decay = static_cast<float>(expDouble(static_cast<double>(args.decay[head]) * step));
    const float beta = static_cast<float>(1.0 / (1.0 + expDouble(-static_cast<double>(args.beta[gate]))));
    const int64_t first = block * kStateColumns;
    const size_t count = static_cast<size_t>(minOf(kStateColumns, args.valueDim - first));
    float v[kStateColumns] = {};
    float out[kStateColumns];
    memcpy(v, row + 2 * args.numKeyHeads * keyDim + head * args.valueDim + first, count * sizeof(float));
    const Token token{q, k, decay, beta};
    for (int64_t c = 0; c < kStateColumns; c += kColumns) updateColumns(s + c, keyDim, token, v + c, out + c);
    memcpy(args.out + gate * args.valueDim + first, out, count * sizeof(float));
  }
};

}  // namespace

void deltaRuleKernel(const Op& op, int64_t begin, int64_t end, std::byte* scratch) {
  const DeltaRuleArgs& args = op.args<DeltaRuleArgs>();
  float* s = reinterpret_cast<float*>(scratch);
  float* q = s + args.keyDim * kStateColumns;
  for (int64_t unit = begin; unit < end; unit++) {
    const StateBlock block{args, unit / args.numBlocks(), unit % args.numBlocks(), s, q, q + args.keyDim};
    for (int64_t m = 0; m < args.rows.numRows; m++) {
      if (args.rows.sources[m] != kRowBefore) block.load(args.rows.sources[m]);
      block.compute(m);
      forTargets(args.rows, m, [&](int64_t slot) { memcpy(block.slot(slot), s, block.numBytes()); });
    }
  }
}

}  // namespace millrace::MILLRACE_ISA
