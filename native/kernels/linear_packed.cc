// linear over packed weights: integer products, one f32 accumulator of eight lanes (eight weight rows) for each token.
//
// A cell's columns are summed exactly, in integers; cells follow one another from the front, each adding to the accumulator by the same
// few operations (Kind::add). How many tokens or groups are computed side by side, and whether a cell is used at once or kept unpacked
// for many tokens, therefore changes no bit.
#if defined(__GNUC__) && !defined(__clang__)
// The tiles below are written in the order that keeps sums in registers; these two passes undo it and cost half the speed.
#pragma GCC optimize("no-tree-ter", "no-tree-reassoc")
#endif
#include "linear_packed.h"

#include "packed_formats.h"

namespace millrace::MILLRACE_ISA {
namespace {

// How far ahead of their use packed weights are asked for: left alone, hardware prefetchers reach 6/7 of the bandwidth.
constexpr int64_t kPrefetchBytes = 1024;
// With more tokens than this, weights are unpacked into scratch first, two groups side by side.
constexpr int64_t kDirectTokens = 8;
// Activations of this many bytes stay in the second-level cache from one pair of groups to the next.
constexpr int64_t kPassBytes = 256 << 10;
// Columns unpacked at once: with the activations of a tile they fit the first-level cache.
constexpr int64_t kPanelCols = 512;
constexpr int64_t kPanelTokens = 4;

// One token's quantised row.
struct Row {
  const uint8_t* header;
  const int8_t* q;
};

struct Rows {
  const uint8_t* first;
  int64_t stride;
  int64_t headerBytes;

  Row at(int64_t token) const {
    const uint8_t* header = first + token * stride;
    return {header, reinterpret_cast<const int8_t*>(header + headerBytes)};
  }
};

// Adds kVectors vectors of each group, values[g] on, times the tokens' columns from `column` on.
template <int kVectors, int kTokens, int kGroups>
MILLRACE_INLINE void addDots(const u8x32* const* values, const Row* rows, int64_t column, Dot (*dots)[kGroups]) {
  MILLRACE_UNROLL_INT
  for (int c = 0; c < kVectors; c++) {
    MILLRACE_UNROLL_INT
    for (int t = 0; t < kTokens; t++) {
      const Columns columns = loadColumns(rows[t].q + column + 4 * c);
      MILLRACE_UNROLL_INT
      for (int g = 0; g < kGroups; g++) dotAdd(dots[t][g], values[g][c], columns);
    }
  }
}

// u8 weights per 32 columns with one f32 scale and shift.
template <class Format>
struct BlockKind {
  static constexpr int64_t kCols = 32;
  using Cell = BlockCell;
  MILLRACE_INLINE void unpack(const uint8_t* packed, Cell& cell) { Format::unpack(packed, cell); }

  template <int kTokens>
  MILLRACE_INLINE void addPacked(const uint8_t* packed, const Row* rows, int64_t index, f32x8 (*acc)[1]) {
    Cell cell;
    unpack(packed, cell);
    add<kTokens, 1>(&cell, rows, index, acc);
  }

  // Cell `index` of kGroups groups against kTokens tokens.
  template <int kTokens, int kGroups>
  MILLRACE_INLINE void add(const Cell* cells, const Row* rows, int64_t index, f32x8 (*acc)[kGroups]) {
    i32x8 sums[kTokens][kGroups] = {};
    constexpr int kDots = Format::kFitsWhole ? 1 : 2;
    constexpr int kVectors = 8 / kDots;
    MILLRACE_UNROLL_INT
    for (int h = 0; h < kDots; h++) {
      Dot dots[kTokens][kGroups] = {};
      const u8x32* values[kGroups];
      MILLRACE_UNROLL_INT
      for (int g = 0; g < kGroups; g++) values[g] = cells[g].values + h * kVectors;
      addDots<kVectors, kTokens, kGroups>(values, rows, 32 * index + 4 * h * kVectors, dots);
      MILLRACE_UNROLL_INT
      for (int t = 0; t < kTokens; t++) {
        MILLRACE_UNROLL_INT
        for (int g = 0; g < kGroups; g++) sums[t][g] += dotSum(dots[t][g]);
      }
    }
    MILLRACE_UNROLL_INT
    for (int t = 0; t < kTokens; t++) {
      const Block32* block = reinterpret_cast<const Block32*>(rows[t].header) + index;
      const f32x8 d = splat8(block->d);
      const f32x8 sum8 = splat8(block->sum8);
      MILLRACE_UNROLL_INT
      for (int g = 0; g < kGroups; g++) {
        const f32x8 f = toFloat8(sums[t][g]);
        if constexpr (Format::kIsCentred) {
          acc[t][g] = fma8(fms8(f, d, sum8), cells[g].scale, acc[t][g]);
        } else {
          acc[t][g] = fma8(f * d, cells[g].scale, fma8(cells[g].shift, sum8, acc[t][g]));
        }
      }
    }
  }
  MILLRACE_INLINE f32x8 finish(const Row&, f32x8 acc) { return acc; }
};

// u8 weights per 256 columns with integer scales and minima.
template <class Format>
struct SuperKind {
  static constexpr int64_t kCols = 256;
  using Cell = SuperCell<Format>;
  MILLRACE_INLINE void unpack(const uint8_t* packed, Cell& cell) {
    Format::unpackHead(packed, cell);
    for (int s = 0; s < 8; s++) Format::unpackPart(packed, s, cell.values + 8 * s);
  }

  // As unpack and add, but a part's values stay in registers.
  template <int kTokens>
  MILLRACE_INLINE void addPacked(const uint8_t* packed, const Row* rows, int64_t index, f32x8 (*acc)[1]) {
    SuperHead<Format> head;
    Format::unpackHead(packed, head);
    i32x8 sums[kTokens][1] = {};
    for (int s = 0; s < 8; s++) {
      u8x32 values[8];
      Format::unpackPart(packed, s, values);
      const u8x32* const groups[1] = {values};
      const SuperHead<Format>* const heads[1] = {&head};
      addPart<kTokens, 1>(groups, heads, rows, index, s, sums);
    }
    const SuperHead<Format>* const heads[1] = {&head};
    addSums<kTokens, 1>(heads, rows, index, sums, acc);
  }

  template <int kTokens, int kGroups>
  MILLRACE_INLINE void add(const Cell* cells, const Row* rows, int64_t index, f32x8 (*acc)[kGroups]) {
    const SuperHead<Format>* heads[kGroups];
    for (int g = 0; g < kGroups; g++) heads[g] = &cells[g];
    i32x8 sums[kTokens][kGroups] = {};
    for (int s = 0; s < 8; s++) {
      const u8x32* groups[kGroups];
      for (int g = 0; g < kGroups; g++) groups[g] = cells[g].values + 8 * s;
      addPart<kTokens, kGroups>(groups, heads, rows, index, s, sums);
    }
    addSums<kTokens, kGroups>(heads, rows, index, sums, acc);
  }
  MILLRACE_INLINE f32x8 finish(const Row&, f32x8 acc) { return acc; }

 private:
  MILLRACE_INLINE const Block256* blockOf(const Row& row, int64_t index) { return reinterpret_cast<const Block256*>(row.header) + index; }

  // Columns 32s to 32s + 31.
  template <int kTokens, int kGroups>
  MILLRACE_INLINE void addPart(const u8x32* const* values, const SuperHead<Format>* const* heads, const Row* rows, int64_t index, int s,
                               i32x8 (*sums)[kGroups]) {
    constexpr int kDots = Format::kFitsWhole ? 1 : 2;
    constexpr int kVectors = 8 / kDots;
    MILLRACE_UNROLL_INT
    for (int h = 0; h < kDots; h++) {
      Dot dots[kTokens][kGroups] = {};
      const u8x32* half[kGroups];
      MILLRACE_UNROLL_INT
      for (int g = 0; g < kGroups; g++) half[g] = values[g] + h * kVectors;
      addDots<kVectors, kTokens, kGroups>(half, rows, 256 * index + 32 * s + 4 * h * kVectors, dots);
      MILLRACE_UNROLL_INT
      for (int t = 0; t < kTokens; t++) {
        MILLRACE_UNROLL_INT
        for (int g = 0; g < kGroups; g++) {
          if constexpr (Format::kNumMinima == 0) dotOffset(dots[t][g], blockOf(rows[t], index)->offsets16 + 4 * s + 2 * h);
          sums[t][g] += dotTimes(dots[t][g], heads[g]->scales[Format::kNumScales == 8 ? s : 2 * s + h]);
        }
      }
    }
  }

  template <int kTokens, int kGroups>
  MILLRACE_INLINE void addSums(const SuperHead<Format>* const* heads, const Row* rows, int64_t index, i32x8 (*sums)[kGroups], f32x8 (*acc)[kGroups]) {
    MILLRACE_UNROLL_INT
    for (int t = 0; t < kTokens; t++) {
      const Block256* block = blockOf(rows[t], index);
      const f32x8 d = splat8(block->d);
      MILLRACE_UNROLL_INT
      for (int g = 0; g < kGroups; g++) {
        f32x8 f = toFloat8(sums[t][g]) * heads[g]->scale;
        if constexpr (Format::kNumMinima > 0) {
          const int16_t* columnSums = Format::kNumMinima == 8 ? block->sums32 : block->sums16;
          i32x8 minimum = pairTimes(heads[g]->minima[0], columnSums);
          MILLRACE_UNROLL_INT
          for (int p = 1; p < Format::kNumMinima / 2; p++) minimum += pairTimes(heads[g]->minima[p], columnSums + 2 * p);
          f = fma8(toFloat8(minimum), heads[g]->minimumScale, f);
        }
        acc[t][g] = fma8(f, d, acc[t][g]);
      }
    }
  }
};

// i8 weights widened to i16, with one f32 scale per 32 columns.
template <class Format>
struct WideKind {
  static constexpr int64_t kCols = 32 * Format::kParts;
  using Cell = WideCell<Format::kParts>;
  MILLRACE_INLINE void unpack(const uint8_t* packed, Cell& cell) { Format::unpack(packed, cell); }

  template <int kTokens>
  MILLRACE_INLINE void addPacked(const uint8_t* packed, const Row* rows, int64_t index, f32x8 (*acc)[1]) {
    Cell cell;
    unpack(packed, cell);
    add<kTokens, 1>(&cell, rows, index, acc);
  }

  template <int kTokens, int kGroups>
  MILLRACE_INLINE void add(const Cell* cells, const Row* rows, int64_t index, f32x8 (*acc)[kGroups]) {
    for (int part = 0; part < Format::kParts; part++) {
      i32x8 sums[kTokens][kGroups] = {};
      MILLRACE_UNROLL_INT
      for (int c = 0; c < 16; c++) {
        MILLRACE_UNROLL_INT
        for (int t = 0; t < kTokens; t++) {
          const WideColumns columns = loadWideColumns(reinterpret_cast<const int16_t*>(rows[t].q) + kCols * index + 32 * part + 2 * c);
          MILLRACE_UNROLL_INT
          for (int g = 0; g < kGroups; g++) sums[t][g] += wideTimes(cells[g].parts[part].values[c], columns);
        }
      }
      MILLRACE_UNROLL_INT
      for (int t = 0; t < kTokens; t++) {
        MILLRACE_UNROLL_INT
        for (int g = 0; g < kGroups; g++) acc[t][g] = fma8(toFloat8(sums[t][g]), cells[g].parts[part].scale, acc[t][g]);
      }
    }
  }
  MILLRACE_INLINE f32x8 finish(const Row& row, f32x8 acc) {
    float d;
    memcpy(&d, row.header, 4);
    return acc * splat8(d);
  }
};

// Adds the bias and the old output to the eight sums of one token from row n on, and stores them.
MILLRACE_INLINE void store(const LinearArgs& args, int64_t token, int64_t n, f32x8 sums) {
  float* out = args.out + token * args.weight.rows + n;
  const int64_t numRows = minOf(kPackedRows, args.weight.rows - n);
  if (args.bias != nullptr) sums = sums + loadPartial8(args.bias + n, numRows);
  if (args.accumulate) sums = sums + loadPartial8(out, numRows);
  if (numRows == kPackedRows) store8(out, sums);
  else storePartial8(out, sums, numRows);
}

MILLRACE_INLINE void prefetch(const uint8_t* address, int64_t numBytes) {
  for (int64_t offset = 0; offset < numBytes; offset += 64) __builtin_prefetch(address + offset);
}

// All columns of group g for tokens [token, token + kTokens), cells unpacked as they come.
template <class Kind, int kTokens>
void directTile(const LinearArgs& args, const Rows& rows, int64_t g, int64_t token) {
  const int64_t cellBytes = packedInfoOf(args.weight.type).cellBytes;
  const int64_t numCells = args.weight.cols / Kind::kCols;
  const uint8_t* packed = args.weight.data + g * numCells * cellBytes;
  Row row[kTokens];
  f32x8 acc[kTokens][1];
  MILLRACE_UNROLL_INT
  for (int t = 0; t < kTokens; t++) {
    row[t] = rows.at(token + t);
    acc[t][0] = zero8();
  }
  for (int64_t i = 0; i < numCells; i++, packed += cellBytes) {
    prefetch(packed + kPrefetchBytes, cellBytes);
    Kind::template addPacked<kTokens>(packed, row, i, acc);
  }
  MILLRACE_UNROLL_INT
  for (int t = 0; t < kTokens; t++) store(args, token + t, g * kPackedRows, Kind::finish(row[t], acc[t][0]));
}

// One tile from `token` on, of an even share of the tokens left; returns its size.
template <class Kind>
int64_t directPart(const LinearArgs& args, const Rows& rows, int64_t g, int64_t token) {
  const int64_t left = args.numRows - token;
  const int64_t numTiles = (left + 3) / 4;
  const int64_t numTokens = (left + numTiles - 1) / numTiles;
  if (numTokens == 4) directTile<Kind, 4>(args, rows, g, token);
  if (numTokens == 3) directTile<Kind, 3>(args, rows, g, token);
  if (numTokens == 2) directTile<Kind, 2>(args, rows, g, token);
  if (numTokens == 1) directTile<Kind, 1>(args, rows, g, token);
  return numTokens;
}

// Two groups' cells [first, first + numCells), unpacked, side by side.
template <class Kind>
struct Panel {
  const typename Kind::Cell* cells;
  int64_t first;
  int64_t numCells;
  bool isFirst;
  bool isLast;
  bool hasSecondGroup;
};

// Advances the accumulators of kTokens tokens and two groups by one panel; after the last the outputs are stored.
template <class Kind, int kTokens>
void panelTile(const LinearArgs& args, const Rows& rows, const Panel<Kind>& panel, int64_t g, int64_t token, f32x8* resting) {
  Row row[kTokens];
  f32x8 acc[kTokens][2];
  MILLRACE_UNROLL_INT
  for (int t = 0; t < kTokens; t++) {
    row[t] = rows.at(token + t);
    acc[t][0] = panel.isFirst ? zero8() : resting[2 * t];
    acc[t][1] = panel.isFirst ? zero8() : resting[2 * t + 1];
  }
  for (int64_t i = 0; i < panel.numCells; i++) Kind::template add<kTokens, 2>(panel.cells + 2 * i, row, panel.first + i, acc);
  MILLRACE_UNROLL_INT
  for (int t = 0; t < kTokens; t++) {
    if (panel.isLast) {
      store(args, token + t, g * kPackedRows, Kind::finish(row[t], acc[t][0]));
      if (panel.hasSecondGroup) store(args, token + t, (g + 1) * kPackedRows, Kind::finish(row[t], acc[t][1]));
    } else {
      resting[2 * t] = acc[t][0];
      resting[2 * t + 1] = acc[t][1];
    }
  }
}

// Groups g and, if it is below `end`, g + 1 for tokens [m0, m1).
template <class Kind>
void panelGroups(const LinearArgs& args, const Rows& rows, int64_t g, int64_t end, int64_t m0, int64_t m1, std::byte* scratch) {
  constexpr int64_t kMaxCells = kPanelCols / Kind::kCols;
  typename Kind::Cell* cells = reinterpret_cast<typename Kind::Cell*>(scratch);
  f32x8* resting = reinterpret_cast<f32x8*>(cells + 2 * kMaxCells);
  const int64_t cellBytes = packedInfoOf(args.weight.type).cellBytes;
  const int64_t numCells = args.weight.cols / Kind::kCols;
  const int64_t groupBytes = numCells * cellBytes;
  const bool hasSecond = g + 1 < end;
  for (int64_t first = 0; first < numCells; first += kMaxCells) {
    const Panel<Kind> panel = {cells, first, minOf(kMaxCells, numCells - first), first == 0, first + kMaxCells >= numCells, hasSecond};
    const uint8_t* packed = args.weight.data + g * groupBytes + first * cellBytes;
    const uint8_t* second = packed + (hasSecond ? groupBytes : 0);
    for (int64_t i = 0; i < panel.numCells; i++) {
      Kind::unpack(packed + i * cellBytes, cells[2 * i]);
      Kind::unpack(second + i * cellBytes, cells[2 * i + 1]);
    }
    // While this panel is multiplied, the next one comes in from memory: a slice with every tile.
    const int64_t panelBytes = panel.numCells * cellBytes;
    const uint8_t* next = panel.isLast ? args.weight.data + (g + 2) * groupBytes : packed + panelBytes;
    const int64_t numTiles = (m1 - m0 + kPanelTokens - 1) / kPanelTokens;
    const int64_t sliceBytes = (panelBytes / numTiles + 63) / 64 * 64;
    int64_t token = m0;
    for (; token + kPanelTokens <= m1; token += kPanelTokens, next += sliceBytes) {
      prefetch(next, sliceBytes);
      prefetch(next + groupBytes, sliceBytes);
      panelTile<Kind, kPanelTokens>(args, rows, panel, g, token, resting + 2 * (token - m0));
    }
    for (; token + 2 <= m1; token += 2) panelTile<Kind, 2>(args, rows, panel, g, token, resting + 2 * (token - m0));
    if (token < m1) panelTile<Kind, 1>(args, rows, panel, g, token, resting + 2 * (token - m0));
  }
}

template <class Kind>
void run(const LinearArgs& args, int64_t begin, int64_t end, std::byte* scratch) {
  const ActivationFormat format = packedInfoOf(args.weight.type).activations;
  const Rows rows = {reinterpret_cast<const uint8_t*>(args.x), activationRowBytes(format, args.weight.cols),
                     activationHeaderBytes(format, args.weight.cols)};
  if (args.numRows > kDirectTokens) {
    const int64_t passTokens = minOf(kLinearPassTokens, maxOf(32, kPassBytes / rows.stride / kPanelTokens * kPanelTokens));
    for (int64_t m0 = 0; m0 < args.numRows; m0 += passTokens) {
      const int64_t m1 = minOf(m0 + passTokens, args.numRows);
      for (int64_t g = begin; g < end; g += 2) panelGroups<Kind>(args, rows, g, end, m0, m1, scratch);
    }
    return;
  }
  for (int64_t g = begin; g < end; g++) {
    for (int64_t token = 0; token < args.numRows;) token += directPart<Kind>(args, rows, g, token);
  }
}

}  // namespace

void linearPacked(const LinearArgs& args, int64_t begin, int64_t end, std::byte* scratch) {
  switch (args.weight.type) {
    case TensorType::Q4_0: return run<BlockKind<PackedQ4_0>>(args, begin, end, scratch);
    case TensorType::Q4_1: return run<BlockKind<PackedQ4_1>>(args, begin, end, scratch);
    case TensorType::Q5_0: return run<BlockKind<PackedQ5_0>>(args, begin, end, scratch);
    case TensorType::Q5_1: return run<BlockKind<PackedQ5_1>>(args, begin, end, scratch);
    case TensorType::Q8_0: return run<WideKind<PackedQ8_0>>(args, begin, end, scratch);
    case TensorType::MXFP4: return run<BlockKind<PackedMXFP4>>(args, begin, end, scratch);
    case TensorType::IQ4_XS: return run<WideKind<PackedIQ4_XS>>(args, begin, end, scratch);
    case TensorType::Q2_K: return run<SuperKind<PackedQ2_K>>(args, begin, end, scratch);
    case TensorType::Q3_K: return run<SuperKind<PackedQ3_K>>(args, begin, end, scratch);
    case TensorType::IQ4_NL: return run<WideKind<PackedIQ4_NL>>(args, begin, end, scratch);
    case TensorType::Q4_K: return run<SuperKind<PackedQ4_K>>(args, begin, end, scratch);
    case TensorType::Q5_K: return run<SuperKind<PackedQ5_K>>(args, begin, end, scratch);
    case TensorType::Q6_K: return run<SuperKind<PackedQ6_K>>(args, begin, end, scratch);
    default: return;
  }
}

}  // namespace millrace::MILLRACE_ISA
