// deltaRule: the gated delta rule as a plain recurrence, for prompts too: a chunked form has other sums for other cuts
// of a prompt. A unit is kStateColumns columns of one head's state, for all rows: the block stays in the first-level
// cache for kTileRows rows. Each row goes through a block once: what it adds to an element is at once multiplied by the
// next row's key. Nothing is fused, and exponentials are computed in double, so that every instruction set gives the
// same bits.
#include <cmath>

#include "kernel.h"
#include "math.h"
#include "recurrent.h"

namespace millrace {

namespace {
// Rows whose queries and keys are scaled at once, for up to kMaxBlocks blocks of their head.
constexpr int64_t kTileRows = 32;
constexpr int64_t kMaxBlocks = 4;
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
  const double nanos = static_cast<double>(numRows) * (static_cast<double>(blockValues) * 0.1 + 50);
  const int64_t scratchValues = kMaxBlocks * blockValues + 2 * kTileRows * args.keyDim;
  return makeOp(OpCode::deltaRule, args, args.numValueHeads * args.numBlocks(), nanos, scratchValues * 4);
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

// Rows of one head.
struct Tile {
  int64_t firstRow;
  int64_t numRows;
  float* q;  // [numRows, keyDim], scaled
  float* k;
  float decays[kTileRows];
  float betas[kTileRows];

  void prepare(const DeltaRuleArgs& args, int64_t head) {
    const int64_t keyDim = args.keyDim;
    const int64_t group = args.isTiled ? head % args.numKeyHeads : head * args.numKeyHeads / args.numValueHeads;
    const double rootOfDim = std::sqrt(static_cast<double>(keyDim));
    for (int64_t r = 0; r < numRows; r++) {
      const float* rawQ = args.x + (firstRow + r) * args.rowWidth() + group * keyDim;
      const float* rawK = rawQ + args.numKeyHeads * keyDim;
      scaled(q + r * keyDim, rawQ, keyDim, static_cast<float>(inverseLength(rawQ, keyDim, args.eps) / rootOfDim));
      scaled(k + r * keyDim, rawK, keyDim, static_cast<float>(inverseLength(rawK, keyDim, args.eps)));
      const int64_t gate = (firstRow + r) * args.numValueHeads + head;
      decays[r] = args.alpha[gate];
      betas[r] = args.beta[gate];
    }
    const double bias = static_cast<double>(args.bias[head]);
    const double decay = static_cast<double>(args.decay[head]);
    for (int64_t r = 0; r < numRows; r += kDoubles) {
      storeAsFloats(decays + r, expDoubles(softplus(loadAsDoubles(decays + r) + bias) * decay));
      storeAsFloats(betas + r, 1.0 / (expDoubles(-loadAsDoubles(betas + r)) + 1.0));
    }
  }
};

// recalled = Sᵀ k of kColumns columns.
void recall(const float* s, int64_t keyDim, const float* k, float* recalled) {
  Sums sums = {};
  forStateRows(keyDim, [&](int64_t i, int64_t part) __attribute__((always_inline)) {
    const Floats key = splatFloats(k[i]);
    MILLRACE_UNROLL
    for (int64_t j = 0; j < kStateVectors; j++) sums[part][j] += loadFloats(s + i * kStateColumns + j * kLanes) * key;
  });
  storeSums(recalled, sums);
}

// A token's numbers in one head.
struct Token {
  const float* q;  // [keyDim], scaled
  const float* k;
  float decay;
  float beta;
};

// Lets the token into kColumns columns of S. @param from S before it @param to S after it, which may be `from`
// @param recalled Sᵀ k; replaced by that of the next token where there is one
// @param ahead the next token's key, or else the state that is read next, which is fetched meanwhile
// @param v the columns' values @param out their outputs
template <bool hasNext>
void learn(const float* from, float* to, int64_t keyDim, const Token& token, const float* ahead, const float* v, float* recalled, float* out) {
  const float* queries = token.q;
  const float* keys = token.k;
  const Floats decay = splatFloats(token.decay);
  Floats delta[kStateVectors];
  MILLRACE_UNROLL
  for (int64_t j = 0; j < kStateVectors; j++) {
    delta[j] = (loadFloats(v + j * kLanes) - loadFloats(recalled + j * kLanes) * decay) * splatFloats(token.beta);
  }
  Sums outs = {};
  Sums sums = {};
  forStateRows(keyDim, [&](int64_t i, int64_t part) __attribute__((always_inline)) {
    const Floats k = splatFloats(keys[i]);
    const Floats q = splatFloats(queries[i]);
    const Floats next = hasNext ? splatFloats(ahead[i]) : Floats{};
    MILLRACE_UNROLL
    for (int64_t j = 0; j < kStateVectors; j++) {
      const int64_t at = i * kStateColumns + j * kLanes;
      const Floats state = loadFloats(from + at) * decay + k * delta[j];
      storeFloats(to + at, state);
      outs[part][j] += state * q;
      if (hasNext) sums[part][j] += state * next;
      else __builtin_prefetch(ahead + at, 0, 2);
    }
  });
  storeSums(out, outs);
  if (hasNext) storeSums(recalled, sums);
}

// One block of columns of one head.
struct DeltaBlock : StateBlock {
  const DeltaRuleArgs& args;

  void compute(const Tile& tile) const {
    const int64_t keyDim = args.keyDim;
    const int64_t first = block * kStateColumns;
    const size_t count = static_cast<size_t>(minOf(kStateColumns, args.valueDim - first));
    const float* values = args.x + 2 * args.numKeyHeads * keyDim + head * args.valueDim + first;
    float v[kStateColumns] = {};
    float out[kStateColumns];
    float recalled[kStateColumns];
    bool isRecalled = false;
    const float* from = own;
    for (int64_t r = 0; r < tile.numRows; r++) {
      const int64_t m = tile.firstRow + r;
      if (args.rows.sources[m] != kRowBefore) from = start(m);
      float* to = destination(m);
      const Token token{tile.q + r * keyDim, tile.k + r * keyDim, tile.decays[r], tile.betas[r]};
      const bool hasNext = r + 1 < tile.numRows && continues(m + 1);
      const float* upcoming = m + 1 < args.rows.numRows && args.rows.sources[m + 1] >= 0 ? slot(args.rows.sources[m + 1]) : from;
      memcpy(v, values + m * args.rowWidth(), count * sizeof(float));
      for (int64_t c = 0; c < kStateColumns; c += kColumns) {
        if (!isRecalled) recall(from + c, keyDim, token.k, recalled + c);
        const auto learnColumns = hasNext ? learn<true> : learn<false>;
        learnColumns(from + c, to + c, keyDim, token, hasNext ? token.k + keyDim : upcoming + c, v + c, recalled + c, out + c);
      }
      isRecalled = hasNext;
      from = to;
      memcpy(args.out + (m * args.numValueHeads + head) * args.valueDim + first, out, count * sizeof(float));
      keep(m, to);
    }
  }
};

}  // namespace

void deltaRuleKernel(const Op& op, int64_t begin, int64_t end, std::byte* scratch) {
  const DeltaRuleArgs& args = op.args<DeltaRuleArgs>();
  const int64_t keyDim = args.keyDim;
  const int64_t blockValues = keyDim * kStateColumns;
  float* states = reinterpret_cast<float*>(scratch);
  float* q = states + kMaxBlocks * blockValues;
  for (int64_t unit = begin; unit < end;) {
    const int64_t head = unit / args.numBlocks();
    const int64_t firstBlock = unit % args.numBlocks();
    const int64_t numBlocks = minOf(minOf(args.numBlocks() - firstBlock, end - unit), kMaxBlocks);
    Tile tile{0, 0, q, q + kTileRows * keyDim, {}, {}};
    for (; tile.firstRow < args.rows.numRows; tile.firstRow += tile.numRows) {
      tile.numRows = minOf(args.rows.numRows - tile.firstRow, kTileRows);
      tile.prepare(args, head);
      for (int64_t b = 0; b < numBlocks; b++) DeltaBlock{{args.rows, args.state, args.numValueHeads, args.numBlocks(), keyDim, head, firstBlock + b, states + b * blockValues}, args}.compute(tile);
    }
    unit += numBlocks;
  }
}

}  // namespace millrace::MILLRACE_ISA
