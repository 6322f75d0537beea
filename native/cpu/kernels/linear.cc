// linear: out = x · weightᵀ in f32. A unit is kLinearRows weight rows for all tokens. Packed weights are in the
// linear_packed files; here are weights in rows.
//
// Every output has one accumulator, a register, that walks K from the front, a value per lane and fused multiply-add; a
// remainder of K is one more step with zeros in the missing lanes; then the lanes are summed (sum4), the bias is added,
// then the old output. Tiles only decide which outputs are computed side by side and when an accumulator rests in
// memory, so they never change a bit.
#include "dequantize.h"
#include "linear.h"
#include "linear_packed.h"
#include "linear_packed_16bit.h"
#include "linear_packed_bfloats.h"
#include "linear_tile.h"
#ifdef MILLRACE_ISA_AMX
#include "linear_packed_amx.h"
#endif

#ifdef MILLRACE_DECODES
namespace millrace {

Op decode(const Operands<ops::linear>& in, DecodeMemo&) {
  using ops::linear;
  LinearArgs args;
  const double nanosPerUnit = readLinear(in, {linear::out, linear::x, linear::weight, linear::bias}, in.integer(linear::numRows), args);
  args.accumulate = in.flag(linear::accumulate);
  return makeLinearOp(OpCode::linear, args, nanosPerUnit, args);
}

}  // namespace millrace
#endif

namespace millrace::MILLRACE_ISA {
namespace {

// Tokens side by side: as many accumulators as there are registers for.
#if defined(MILLRACE_ISA_AVX512)
constexpr int kTokenTile = 5;
#else
constexpr int kTokenTile = 3;
#endif
// Rows of a panel that stay in the first-level cache while all tokens pass over them.
constexpr int64_t kRowGroup = 8;
// Tokens whose activations (a block of columns of each) stay in the second-level cache from one row group to the next.
constexpr int64_t kTokenBlock = 32 * kTokenTile;
// With at most this many tokens, 16- and 32-bit weights are widened in registers instead of through scratch.
constexpr int64_t kDirectTokens = 9;
// Five tokens use a widened register as often as scratch would pay for: with so many, as long as their activations stay
// in the second-level cache, from 12 to 32 tokens 1.6 to 1.25 times as fast as through scratch, with 64 a little, with
// 128 no more (Zen 5).
constexpr int64_t kDirectCachedTokens = kTokenTile == 5 ? 64 : kDirectTokens;
constexpr int64_t kDirectCachedBytes = 256 * 1024;

struct F32Row {
  static constexpr int64_t kBytes = 4;
  MILLRACE_INLINE Floats load(const uint8_t* p) { return loadFloats({p, 32}); }
};
struct F16Row {
  static constexpr int64_t kBytes = 2;
  MILLRACE_INLINE Floats load(const uint8_t* p) { return loadHalves(p); }
};
struct Bf16Row {
  static constexpr int64_t kBytes = 2;
  MILLRACE_INLINE Floats load(const uint8_t* p) { return loadBfloats(p); }
};

// Four rows, kTokens tokens, all of K, weights widened in registers.
template <typename Row, int kTokens>
void directTile(const LinearArgs& args, int64_t token, int64_t n, int64_t numRows) {
  const int64_t numCols = args.weight.cols;
  const uint8_t* w[kRowTile];
  MILLRACE_UNROLL
  for (int r = 0; r < kRowTile; r++) w[r] = args.weight.data + (n + minOf(r, numRows - 1)) * args.weight.rowBytes;
  // The next tile's rows, which hardware prefetchers do not expect.
  const int64_t ahead = kRowTile * args.weight.rowBytes;
  const float* x = args.x + token * numCols;
  Floats acc[kTokens][kRowTile];
  MILLRACE_UNROLL
  for (int t = 0; t < kTokens; t++) {
    MILLRACE_UNROLL
    for (int r = 0; r < kRowTile; r++) acc[t][r] = Floats{};
  }
  int64_t k = 0;
  for (; k + kLanes <= numCols; k += kLanes) {
    Floats xs[kTokens];
    MILLRACE_UNROLL
    for (int t = 0; t < kTokens; t++) xs[t] = loadFloats(x + t * numCols + k);
    MILLRACE_UNROLL
    for (int r = 0; r < kRowTile; r++) {
      __builtin_prefetch(w[r] + k * Row::kBytes + ahead, 0, 2);
      const Floats weights = Row::load(w[r] + k * Row::kBytes);
      MILLRACE_UNROLL
      for (int t = 0; t < kTokens; t++) acc[t][r] = mulAdd(weights, xs[t], acc[t][r]);
    }
  }
  if (k < numCols) {
    MILLRACE_UNROLL
    for (int r = 0; r < kRowTile; r++) {
      uint8_t padded[4 * kLanes] = {};
      memcpy(padded, w[r] + k * Row::kBytes, static_cast<size_t>((numCols - k) * Row::kBytes));
      const Floats weights = Row::load(padded);
      MILLRACE_UNROLL
      for (int t = 0; t < kTokens; t++) {
        acc[t][r] = mulAdd(weights, loadPartial(x + t * numCols + k, numCols - k), acc[t][r]);
      }
    }
  }
  finishTile<kTokens>(args, token, n, acc, numRows);
}

template <typename Row>
void directRows(const LinearArgs& args, int64_t n0, int64_t n1) {
  // Tiles of nearly equal sizes.
  const int64_t numTiles = (args.numRows + kTokenTile - 1) / kTokenTile;
  for (int64_t n = n0; n < n1; n += kRowTile) {
    for (int64_t tile = 0, token = 0; tile < numTiles; tile++) {
      const int64_t numTokens = (args.numRows - token + numTiles - tile - 1) / (numTiles - tile);
      withTokens<kTokenTile>(numTokens, [&](auto size) { directTile<Row, size>(args, token, n, minOf(kRowTile, n1 - n)); });
      token += numTokens;
    }
  }
}

// A block of columns [k0, k0 + numCols) of rows in f32: dequantised, and padded with zeros to whole registers and
// tiles; or as the file stores them, where nothing is to be padded.
struct Panel {
  const float* weights;
  int64_t stride;
  int64_t k0;
  int64_t numCols;
  bool isFirst;
  bool isLast;
  // kRowGroup rows that are multiplied next where they lie, of the same stride and number of columns; null: none.
  const float* next;
};

// Fetches row `index` of the rows that are multiplied next into the second-level cache: a thread that finds them in
// memory waits for every line.
MILLRACE_INLINE void prefetchNext(const Panel& panel, int64_t index) {
  if (panel.next == nullptr || index >= kRowGroup) return;
  const float* row = panel.next + index * panel.stride;
  for (int64_t k = 0; k < panel.numCols; k += kLanes) __builtin_prefetch(row + k, 0, 2);
}

// Advances the accumulators [token][row] of kTokens tokens by one panel; after the last panel the outputs are written.
template <int kTokens>
MILLRACE_INLINE void panelTile(const LinearArgs& args, const Panel& panel, int64_t token, int64_t n, int64_t numRows, Floats* resting) {
  const float* w = panel.weights;
  const int64_t stride = args.weight.cols;
  const float* x = args.x + token * stride + panel.k0;
  Floats acc[kTokens][kRowTile];
  MILLRACE_UNROLL
  for (int t = 0; t < kTokens; t++) {
    MILLRACE_UNROLL
    for (int r = 0; r < kRowTile; r++) acc[t][r] = panel.isFirst ? Floats{} : resting[t * kRowTile + r];
  }
  int64_t k = 0;
  for (; k + kLanes <= panel.numCols; k += kLanes) {
    Floats xs[kTokens];
    MILLRACE_UNROLL
    for (int t = 0; t < kTokens; t++) xs[t] = loadFloats(x + t * stride + k);
    MILLRACE_UNROLL
    for (int r = 0; r < kRowTile; r++) {
      const Floats weights = loadFloats(w + r * panel.stride + k);
      MILLRACE_UNROLL
      for (int t = 0; t < kTokens; t++) acc[t][r] = mulAdd(weights, xs[t], acc[t][r]);
    }
  }
  if (k < panel.numCols) {
    Floats xs[kTokens];
    MILLRACE_UNROLL
    for (int t = 0; t < kTokens; t++) xs[t] = loadPartial(x + t * stride + k, panel.numCols - k);
    MILLRACE_UNROLL
    for (int r = 0; r < kRowTile; r++) {
      const Floats weights = loadFloats(w + r * panel.stride + k);
      MILLRACE_UNROLL
      for (int t = 0; t < kTokens; t++) acc[t][r] = mulAdd(weights, xs[t], acc[t][r]);
    }
  }
  if (panel.isLast) return finishTile<kTokens>(args, token, n, acc, numRows);
  MILLRACE_UNROLL
  for (int t = 0; t < kTokens; t++) {
    MILLRACE_UNROLL
    for (int r = 0; r < kRowTile; r++) resting[t * kRowTile + r] = acc[t][r];
  }
}

// Tokens [token, token + kTokens) against rows [n0, n1) of a panel. `resting` holds kRowTile accumulators per token,
// tile after tile.
template <int kTokens>
void panelRowTiles(const LinearArgs& args, const Panel& panel, int64_t token, int64_t n0, int64_t n1, Floats* resting, int64_t tileStride) {
  Panel tile = panel;
  for (int64_t n = n0; n < n1; n += kRowTile) {
    panelTile<kTokens>(args, tile, token, n, minOf(kRowTile, n1 - n), resting);
    tile.weights += kRowTile * panel.stride;
    resting += tileStride;
  }
}

// Tokens [t0, t1) against rows [n0, n1) of a panel.
void panelTokens(const LinearArgs& args, const Panel& panel, int64_t t0, int64_t t1, int64_t n0, int64_t n1, Floats* resting, int64_t tileStride) {
  int64_t t = t0;
  for (; t + kTokenTile <= t1; t += kTokenTile) {
    prefetchNext(panel, (t - t0) / kTokenTile);
    panelRowTiles<kTokenTile>(args, panel, t, n0, n1, resting, tileStride);
    resting += kTokenTile * kRowTile;
  }
  if (t < t1) withTokens<kTokenTile>(t1 - t, [&](auto size) { panelRowTiles<size>(args, panel, t, n0, n1, resting, tileStride); });
}

// Dequantises columns [k0, k0 + numCols) of rows [n0, n1) and pads rows to a multiple of the tile and columns to whole
// registers.
void fillPanel(const WeightRef& weight, int64_t n0, int64_t n1, int64_t k0, int64_t numCols, float* out) {
  const TensorTypeInfo& info = infoOf(weight.type);
  const int64_t paddedCols = (numCols + kLanes - 1) / kLanes * kLanes;
  const int64_t numRows = (n1 - n0 + kRowTile - 1) / kRowTile * kRowTile;
  for (int64_t r = 0; r < numRows; r++) {
    float* row = out + r * kLinearBlockCols;
    if (n0 + r < n1) {
      const uint8_t* source = weight.data + (n0 + r) * weight.rowBytes + k0 / info.blockValues * info.blockBytes;
      MILLRACE_COMMON_ISA::dequantize(weight.type, source, numCols, row);
    }
    const int64_t first = n0 + r < n1 ? numCols : 0;
    for (int64_t k = first; k < paddedCols; k++) row[k] = 0.0f;
  }
}

// Whether rows are used where they lie. Those whose pitch is a multiple of a page would share few sets of the
// first-level cache.
bool readsStored(const WeightRef& weight, int64_t numRows) {
  const bool isWhole = numRows % kRowTile == 0 && weight.cols % kLanes == 0;
  return weight.type == TensorType::F32 && isWhole && weight.rowBytes % 4096 != 0 && reinterpret_cast<uintptr_t>(weight.data) % 4 == 0;
}

// Rows [n0, n1) (at most kLinearRows) for tokens [m0, m1) (at most kLinearPassTokens).
void panelRows(const LinearArgs& args, int64_t n0, int64_t n1, int64_t m0, int64_t m1, std::byte* scratch) {
  float* weights = reinterpret_cast<float*>(scratch);
  Floats* resting = reinterpret_cast<Floats*>(scratch + kLinearRows * kLinearBlockCols * 4);
  const int64_t numTokens = m1 - m0;
  const bool isStored = readsStored(args.weight, n1 - n0);
  for (int64_t k0 = 0; k0 < args.weight.cols; k0 += kLinearBlockCols) {
    const int64_t numCols = minOf(kLinearBlockCols, args.weight.cols - k0);
    const float* rows = isStored ? reinterpret_cast<const float*>(args.weight.data + n0 * args.weight.rowBytes) + k0 : weights;
    const int64_t stride = isStored ? args.weight.cols : kLinearBlockCols;
    if (!isStored) fillPanel(args.weight, n0, n1, k0, numCols, weights);
    for (int64_t t0 = m0; t0 < m1; t0 += kTokenBlock) {
      const int64_t t1 = minOf(t0 + kTokenBlock, m1);
      for (int64_t n = n0; n < n1; n += kRowGroup) {
        const bool isLast = k0 + numCols == args.weight.cols;
        const float* group = rows + (n - n0) * stride;
        const float* next = n + kRowGroup < n1 ? group + kRowGroup * stride : isLast ? rows + (n1 - n0) * stride - k0 : rows + kLinearBlockCols;
        const bool isThere = isStored && n1 + kLinearRows <= args.weight.rows;
        const Panel panel = {group, stride, k0, numCols, k0 == 0, isLast, isThere ? next : nullptr};
        Floats* firstResting = resting + (n - n0) * numTokens + (t0 - m0) * kRowTile;
        panelTokens(args, panel, t0, t1, n, minOf(n + kRowGroup, n1), firstResting, numTokens * kRowTile);
      }
    }
  }
}

}  // namespace

void linearKernel(const Op& op, int64_t begin, int64_t end, std::byte* scratch) {
  const LinearArgs& args = op.args<LinearArgs>();
  const int64_t n0 = begin * kLinearRows;
  const int64_t n1 = minOf(end * kLinearRows, args.weight.rows);
  if (args.weight.isPacked) {
#ifdef MILLRACE_ISA_AMX
    if (args.weight.type == TensorType::BF16_BF16) return linearBfloatTiles(args, begin, end, scratch);
#endif
    if (is16Bit(args.weight.type)) return MILLRACE_FLOATS_ISA::linearPacked16Bit(args, begin, end, scratch);
    const int64_t firstGroup = n0 / kPackedRows;
    const int64_t endGroup = (n1 + kPackedRows - 1) / kPackedRows;
#ifdef MILLRACE_ISA_AMX
    if (hasByteTiles(args.weight.type, args.numRows)) return linearByteTiles(args, firstGroup, endGroup, scratch);
#endif
    if (args.weight.type == TensorType::F8_E4M3_BF16) return MILLRACE_FLOATS_ISA::linearPackedBfloats(args, firstGroup, endGroup, scratch);
    return MILLRACE_BYTES_ISA::linearPacked(args, firstGroup, endGroup, scratch);
  }
  const bool isCached = args.numRows <= kDirectCachedTokens && args.numRows * args.weight.cols * 4 <= kDirectCachedBytes;
  const bool isDirect = args.numRows <= kDirectTokens || isCached;
  if (isDirect && args.weight.type == TensorType::F32) return directRows<F32Row>(args, n0, n1);
  if (isDirect && args.weight.type == TensorType::F16) return directRows<F16Row>(args, n0, n1);
  if (isDirect && args.weight.type == TensorType::BF16) return directRows<Bf16Row>(args, n0, n1);
  // With few tokens the reads of weights dominate: fewer rows at a time keeps fewer streams open.
  const int64_t rowsAtOnce = args.numRows <= kTokenTile ? kRowTile : kLinearRows;
  for (int64_t m0 = 0; m0 < args.numRows; m0 += kLinearPassTokens) {
    const int64_t m1 = minOf(m0 + kLinearPassTokens, args.numRows);
    for (int64_t n = n0; n < n1; n += rowsAtOnce) panelRows(args, n, minOf(n + rowsAtOnce, n1), m0, m1, scratch);
  }
}

}  // namespace millrace::MILLRACE_ISA
