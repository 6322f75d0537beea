// linear over packed weights: integer products, or those of E4M3 in f32, one f32 accumulator a row and token, a lane each.
//
// A cell's columns are summed exactly, in integers, or always in one order; cells follow one another from the front, each adding to the accumulator by the same
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
constexpr int64_t kPrefetchBytes = 2048;
// With more tokens than this, weights are unpacked into scratch first, two groups side by side. Tiles of eight keep them in registers long
// enough that four tiles unpacking for themselves are faster still.
constexpr int64_t kDirectTokens = kEights > 1 ? 32 : 8;
// Tokens that such weights are multiplied with at once: what registers hold the sums of.
constexpr int kDirectTileTokens = kEights > 1 ? 8 : 4;
// Activations of this many bytes stay in the second-level cache from one pair of groups to the next.
constexpr int64_t kPassBytes = 256 << 10;
// Those in f32 may come from the next cache: each is read for sixteen rows of weights, and unpacking weights takes longer.
constexpr int64_t kFloatPassBytes = 1 << 20;
// Columns unpacked at once: with the activations of a tile they fit the first-level cache.
constexpr int64_t kPanelCols = 512;
constexpr int64_t kPanelBytes = kEights * (24 << 10);
constexpr int64_t kPanelTokens = 4;

MILLRACE_INLINE void prefetch(const uint8_t* address, int64_t numBytes) {
  for (int64_t offset = 0; offset < numBytes; offset += 64) __builtin_prefetch(address + offset);
}

// Asks for what part `part` of kParts of a cell reads, a while later.
template <class Format, int kParts>
MILLRACE_INLINE void prefetchPart(Source packed, int part) {
  constexpr int64_t kBytes = packedInfoOf(Format::kType).cellBytes / kParts;
  const Source later = packed + kPrefetchBytes + part * kBytes;
  prefetch(later.at, kBytes);
  if constexpr (kEights > 1) prefetch(later.at + later.pitch, kBytes);
}

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
template <int kVectors, int kTokens, int kGroups, class Sum>
MILLRACE_INLINE void addDots(const Bytes* const* values, const Row* rows, int64_t column, Sum (*dots)[kGroups]) {
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
  MILLRACE_INLINE void unpack(Source packed, Cell& cell) { Format::unpack(packed, cell); }

  template <int kTokens>
  MILLRACE_INLINE void addPacked(Source packed, const Row* rows, int64_t index, Floats (*acc)[1]) {
    Cell cell;
    prefetchPart<Format, 1>(packed, 0);
    unpack(packed, cell);
    add<kTokens, 1>(&cell, rows, index, acc);
  }

  // Cell `index` of kGroups groups against kTokens tokens.
  template <int kTokens, int kGroups>
  MILLRACE_INLINE void add(const Cell* cells, const Row* rows, int64_t index, Floats (*acc)[kGroups]) {
    Ints sums[kTokens][kGroups] = {};
    constexpr int kDots = kHasWideSums || Format::kFitsWhole ? 1 : 2;
    constexpr int kVectors = 8 / kDots;
    MILLRACE_UNROLL_INT
    for (int h = 0; h < kDots; h++) {
      typename Format::Sum dots[kTokens][kGroups] = {};
      const Bytes* values[kGroups];
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
      const Floats d = splatFloats(block->d);
      const Floats sum = splatFloats(block->sum);
      MILLRACE_UNROLL_INT
      for (int g = 0; g < kGroups; g++) {
        const Floats f = toFloats(sums[t][g]);
        if constexpr (Format::kCentre == Centre::Bytes) {
          acc[t][g] = mulAdd((f - sum) * d, cells[g].scale, acc[t][g]);
        } else if constexpr (Format::kCentre == Centre::Nibbles) {
          acc[t][g] = mulAdd(mulSub(f, d, sum), cells[g].scale, acc[t][g]);
        } else {
          acc[t][g] = mulAdd(f * d, cells[g].scale, mulAdd(cells[g].shift, sum, acc[t][g]));
        }
      }
    }
  }
  MILLRACE_INLINE Floats finish(const Row&, Floats acc) { return acc; }
};

// u8 weights per 256 columns with integer scales and minima.
template <class Format>
struct SuperKind {
  static constexpr int64_t kCols = 256;
  using Cell = SuperCell<Format>;
  MILLRACE_INLINE void unpack(Source packed, Cell& cell) {
    Format::unpackHead(packed, cell);
    for (int s = 0; s < 8; s++) Format::unpackPart(packed, s, cell.values + 8 * s);
  }

  // As unpack and add, but a part's values stay in registers.
  template <int kTokens>
  MILLRACE_INLINE void addPacked(Source packed, const Row* rows, int64_t index, Floats (*acc)[1]) {
    SuperHead<Format> head;
    Format::unpackHead(packed, head);
    Ints sums[kTokens][1] = {};
    for (int s = 0; s < 8; s++) {
      Bytes values[8];
      prefetchPart<Format, 8>(packed, s);
      Format::unpackPart(packed, s, values);
      const Bytes* const groups[1] = {values};
      const SuperHead<Format>* const heads[1] = {&head};
      addPart<kTokens, 1>(groups, heads, rows, index, s, sums);
    }
    const SuperHead<Format>* const heads[1] = {&head};
    addSums<kTokens, 1>(heads, rows, index, sums, acc);
  }

  template <int kTokens, int kGroups>
  MILLRACE_INLINE void add(const Cell* cells, const Row* rows, int64_t index, Floats (*acc)[kGroups]) {
    const SuperHead<Format>* heads[kGroups];
    for (int g = 0; g < kGroups; g++) heads[g] = &cells[g];
    Ints sums[kTokens][kGroups] = {};
    for (int s = 0; s < 8; s++) {
      const Bytes* groups[kGroups];
      for (int g = 0; g < kGroups; g++) groups[g] = cells[g].values + 8 * s;
      addPart<kTokens, kGroups>(groups, heads, rows, index, s, sums);
    }
    addSums<kTokens, kGroups>(heads, rows, index, sums, acc);
  }
  MILLRACE_INLINE Floats finish(const Row&, Floats acc) { return acc; }

 private:
  MILLRACE_INLINE const Block256* blockOf(const Row& row, int64_t index) { return reinterpret_cast<const Block256*>(row.header) + index; }

  // Columns 32s to 32s + 31.
  template <int kTokens, int kGroups>
  MILLRACE_INLINE void addPart(const Bytes* const* values, const SuperHead<Format>* const* heads, const Row* rows, int64_t index, int s,
                               Ints (*sums)[kGroups]) {
    constexpr int kDots = Format::kNumScales == 8 && (kHasWideSums || Format::kFitsWhole) ? 1 : 2;
    constexpr int kVectors = 8 / kDots;
    MILLRACE_UNROLL_INT
    for (int h = 0; h < kDots; h++) {
      Dot dots[kTokens][kGroups] = {};
      const Bytes* half[kGroups];
      MILLRACE_UNROLL_INT
      for (int g = 0; g < kGroups; g++) half[g] = values[g] + h * kVectors;
      addDots<kVectors, kTokens, kGroups>(half, rows, 256 * index + 32 * s + 4 * h * kVectors, dots);
      MILLRACE_UNROLL_INT
      for (int t = 0; t < kTokens; t++) {
        MILLRACE_UNROLL_INT
        for (int g = 0; g < kGroups; g++) {
          if constexpr (Format::kIsCentred && Format::kNumMinima == 0) dotOffset(dots[t][g], blockOf(rows[t], index)->offsets16 + 4 * s + 2 * h);
          sums[t][g] += dotTimes(dots[t][g], heads[g]->scales[Format::kNumScales == 8 ? s : 2 * s + h]);
        }
      }
    }
  }

  template <int kTokens, int kGroups>
  MILLRACE_INLINE void addSums(const SuperHead<Format>* const* heads, const Row* rows, int64_t index, Ints (*sums)[kGroups], Floats (*acc)[kGroups]) {
    // Pair by pair for all tokens: one chain a token and group would wait for itself.
    Ints minima[kTokens][kGroups] = {};
    MILLRACE_UNROLL_INT
    for (int p = 0; p < Format::kNumMinima / 2; p++) {
      MILLRACE_UNROLL_INT
      for (int t = 0; t < kTokens; t++) {
        const Block256* block = blockOf(rows[t], index);
        const WideColumns columns = loadWideColumns((Format::kNumMinima == 8 ? block->sums32 : block->sums16) + 2 * p);
        MILLRACE_UNROLL_INT
        for (int g = 0; g < kGroups; g++) wideAdd(minima[t][g], {reinterpret_cast<Shorts>(heads[g]->minima[p])}, columns);
      }
    }
    MILLRACE_UNROLL_INT
    for (int t = 0; t < kTokens; t++) {
      const Floats d = splatFloats(blockOf(rows[t], index)->d);
      MILLRACE_UNROLL_INT
      for (int g = 0; g < kGroups; g++) {
        Floats f;
        if constexpr (Format::kIsCentred) f = toFloats(sums[t][g] - minima[t][g]) * heads[g]->scale;
        else f = mulAdd(toFloats(minima[t][g]), heads[g]->minimumScale, toFloats(sums[t][g]) * heads[g]->scale);
        acc[t][g] = mulAdd(f, d, acc[t][g]);
      }
    }
  }
};

// i8 weights widened to i16, with one f32 scale per 32 columns.
template <class Format>
struct WideKind {
  static constexpr int64_t kCols = 32 * Format::kParts;
  using Cell = WideCell<Format::kParts>;
  MILLRACE_INLINE void unpack(Source packed, Cell& cell) { Format::unpack(packed, cell); }

  template <int kTokens>
  MILLRACE_INLINE void addPacked(Source packed, const Row* rows, int64_t index, Floats (*acc)[1]) {
    Cell cell;
    prefetchPart<Format, 1>(packed, 0);
    unpack(packed, cell);
    add<kTokens, 1>(&cell, rows, index, acc);
  }

  template <int kTokens, int kGroups>
  MILLRACE_INLINE void add(const Cell* cells, const Row* rows, int64_t index, Floats (*acc)[kGroups]) {
    for (int part = 0; part < Format::kParts; part++) {
      Ints sums[kTokens][kGroups] = {};
      MILLRACE_UNROLL_INT
      for (int c = 0; c < 16; c++) {
        MILLRACE_UNROLL_INT
        for (int t = 0; t < kTokens; t++) {
          const WideColumns columns = loadWideColumns(reinterpret_cast<const int16_t*>(rows[t].q) + kCols * index + 32 * part + 2 * c);
          MILLRACE_UNROLL_INT
          for (int g = 0; g < kGroups; g++) wideAdd(sums[t][g], cells[g].parts[part].values[c], columns);
        }
      }
      MILLRACE_UNROLL_INT
      for (int t = 0; t < kTokens; t++) {
        MILLRACE_UNROLL_INT
        for (int g = 0; g < kGroups; g++) acc[t][g] = mulAdd(toFloats(sums[t][g]), cells[g].parts[part].scale, acc[t][g]);
      }
    }
  }
  MILLRACE_INLINE Floats finish(const Row& row, Floats acc) {
    float d;
    memcpy(&d, row.header, 4);
    return acc * splatFloats(d);
  }
};

// Weights that are widened to f32, with one f32 scale per 32 columns. Two sums a cell, of sixteen columns each: alone, one would wait for itself.
template <class Format>
struct FloatKind {
  static constexpr int64_t kCols = 32;
  using Cell = FloatCell;
  MILLRACE_INLINE void unpack(Source packed, Cell& cell) {
    cell.scale = Format::scaleOf(packed);
    MILLRACE_UNROLL_INT
    for (int i = 0; i < 32; i++) cell.values[i] = Format::valueOf(packed, i % 8, i / 8);
  }

  template <int kTokens>
  MILLRACE_INLINE void addPacked(Source packed, const Row* rows, int64_t index, Floats (*acc)[1]) {
    prefetchPart<Format, 1>(packed, 0);
    const Floats scale = Format::scaleOf(packed);
    addColumns<kTokens, 1>([&](int, int i) { return Format::valueOf(packed, i % 8, i / 8); }, &scale, rows, index, acc);
  }

  template <int kTokens, int kGroups>
  MILLRACE_INLINE void add(const Cell* cells, const Row* rows, int64_t index, Floats (*acc)[kGroups]) {
    Floats scales[kGroups];
    MILLRACE_UNROLL_INT
    for (int g = 0; g < kGroups; g++) scales[g] = cells[g].scale;
    addColumns<kTokens, kGroups>([&](int g, int i) { return cells[g].values[i]; }, scales, rows, index, acc);
  }
  MILLRACE_INLINE Floats finish(const Row&, Floats acc) { return acc; }

 private:
  template <int kTokens, int kGroups, class ValueOf>
  MILLRACE_INLINE void addColumns(ValueOf valueOf, const Floats* scales, const Row* rows, int64_t index, Floats (*acc)[kGroups]) {
    MILLRACE_UNROLL_INT
    for (int half = 0; half < 2; half++) {
      Floats sums[kTokens][kGroups] = {};
      MILLRACE_UNROLL_INT
      for (int i = 16 * half; i < 16 * half + 16; i++) {
        Floats values[kGroups];
        MILLRACE_UNROLL_INT
        for (int g = 0; g < kGroups; g++) values[g] = valueOf(g, i);
        MILLRACE_UNROLL_INT
        for (int t = 0; t < kTokens; t++) {
          const Floats x = splatFloats(reinterpret_cast<const float*>(rows[t].q)[32 * index + i % 8 * 4 + i / 8]);
          MILLRACE_UNROLL_INT
          for (int g = 0; g < kGroups; g++) sums[t][g] = mulAdd(values[g], x, sums[t][g]);
        }
      }
      MILLRACE_UNROLL_INT
      for (int t = 0; t < kTokens; t++) {
        MILLRACE_UNROLL_INT
        for (int g = 0; g < kGroups; g++) acc[t][g] = mulAdd(sums[t][g], scales[g], acc[t][g]);
      }
    }
  }
};

// Vectors of groups: group g and, where a vector has room, the one `pitch` groups on, if it is below `end`.
struct Groups {
  const LinearArgs& args;
  int64_t cellBytes;
  int64_t numCells;
  int64_t end;
  int64_t pitch;

  int64_t bytes() const { return numCells * cellBytes; }
  // In place of a group past the end the first one is read twice.
  Source packed(int64_t g, int64_t cell) const {
    return {args.weight.data + g * bytes() + cell * cellBytes, g + pitch < end ? pitch * bytes() : 0};
  }

  // Adds the bias and the old output to one token's sums of the rows from group g on, and stores them.
  void store(int64_t token, int64_t g, Floats sums) const {
    f32x8 parts[kEights];
    memcpy(parts, &sums, sizeof sums);
    MILLRACE_UNROLL_INT
    for (int p = 0; p < kEights; p++) {
      if (g + p * pitch < end) storeGroup(token, (g + p * pitch) * kPackedRows, parts[p]);
    }
  }

 private:
  void storeGroup(int64_t token, int64_t n, f32x8 sums) const {
    float* out = args.out + token * args.weight.rows + n;
    const int64_t numRows = minOf(kPackedRows, args.weight.rows - n);
    if (args.bias != nullptr) sums = sums + loadPartial8(args.bias + n, numRows);
    if (args.accumulate) sums = sums + loadPartial8(out, numRows);
    if (numRows == kPackedRows) store8(out, sums);
    else storePartial8(out, sums, numRows);
  }
};

// All columns of the vector of group g for tokens [token, token + kTokens), cells unpacked as they come.
template <class Kind, int kTokens>
void directTile(const Groups& groups, const Rows& rows, int64_t g, int64_t token) {
  Source packed = groups.packed(g, 0);
  Row row[kTokens];
  Floats acc[kTokens][1];
  MILLRACE_UNROLL_INT
  for (int t = 0; t < kTokens; t++) {
    row[t] = rows.at(token + t);
    acc[t][0] = Floats{};
  }
  for (int64_t i = 0; i < groups.numCells; i++, packed = packed + groups.cellBytes) {
    Kind::template addPacked<kTokens>(packed, row, i, acc);
  }
  MILLRACE_UNROLL_INT
  for (int t = 0; t < kTokens; t++) groups.store(token + t, g, Kind::finish(row[t], acc[t][0]));
}

// A tile of numTokens tokens, kTokens at most.
template <class Kind, int kTokens = kDirectTileTokens>
void directTileOf(int64_t numTokens, const Groups& groups, const Rows& rows, int64_t g, int64_t token) {
  if (numTokens == kTokens) return directTile<Kind, kTokens>(groups, rows, g, token);
  if constexpr (kTokens > 1) directTileOf<Kind, kTokens - 1>(numTokens, groups, rows, g, token);
}

// Cells [first, first + numCells) of two vectors, unpacked, side by side.
template <class Kind>
struct Panel {
  const typename Kind::Cell* cells;
  int64_t first;
  int64_t numCells;
  bool isFirst;
  bool isLast;
};

// Advances the accumulators of kTokens tokens and the vectors from group g on by one panel; after the last the outputs are stored.
template <class Kind, int kTokens>
void panelTile(const Groups& groups, const Rows& rows, const Panel<Kind>& panel, int64_t g, int64_t token, Floats* resting) {
  Row row[kTokens];
  Floats acc[kTokens][2];
  MILLRACE_UNROLL_INT
  for (int t = 0; t < kTokens; t++) {
    row[t] = rows.at(token + t);
    acc[t][0] = panel.isFirst ? Floats{} : resting[2 * t];
    acc[t][1] = panel.isFirst ? Floats{} : resting[2 * t + 1];
  }
  for (int64_t i = 0; i < panel.numCells; i++) Kind::template add<kTokens, 2>(panel.cells + 2 * i, row, panel.first + i, acc);
  MILLRACE_UNROLL_INT
  for (int t = 0; t < kTokens; t++) {
    if (panel.isLast) {
      groups.store(token + t, g, Kind::finish(row[t], acc[t][0]));
      groups.store(token + t, g + kEights, Kind::finish(row[t], acc[t][1]));
    } else {
      resting[2 * t] = acc[t][0];
      resting[2 * t + 1] = acc[t][1];
    }
  }
}

// The two vectors from group g on for tokens [m0, m1).
template <class Kind>
void panelGroups(const Groups& groups, const Rows& rows, int64_t g, int64_t m0, int64_t m1, std::byte* scratch) {
  constexpr int64_t kMaxCells = minOf(kPanelCols / Kind::kCols, kPanelBytes / 2 / static_cast<int64_t>(sizeof(typename Kind::Cell)));
  static_assert(2 * kMaxCells * sizeof(typename Kind::Cell) + 2 * sizeof(Floats) * kDirectTokens <= linearScratchBytes(kDirectTokens));
  typename Kind::Cell* cells = reinterpret_cast<typename Kind::Cell*>(scratch);
  Floats* resting = reinterpret_cast<Floats*>(cells + 2 * kMaxCells);
  const int64_t numCells = groups.numCells;
  const int64_t second = g + kEights < groups.end ? g + kEights : g;
  for (int64_t first = 0; first < numCells; first += kMaxCells) {
    const Panel<Kind> panel = {cells, first, minOf(kMaxCells, numCells - first), first == 0, first + kMaxCells >= numCells};
    for (int64_t i = 0; i < panel.numCells; i++) {
      Kind::unpack(groups.packed(g, first + i), cells[2 * i]);
      Kind::unpack(groups.packed(second, first + i), cells[2 * i + 1]);
    }
    // While this panel is multiplied, the next one comes in from memory: a slice with every tile.
    const int64_t panelBytes = panel.numCells * groups.cellBytes;
    const uint8_t* next = panel.isLast ? groups.packed(g + 2 * kEights, 0).at : groups.packed(g, first + panel.numCells).at;
    const int64_t numTiles = (m1 - m0 + kPanelTokens - 1) / kPanelTokens;
    const int64_t sliceBytes = (panelBytes / numTiles + 63) / 64 * 64;
    int64_t token = m0;
    for (; token + kPanelTokens <= m1; token += kPanelTokens, next += sliceBytes) {
      for (int64_t v = 0; v < 2 * kEights; v++) prefetch(next + v * groups.bytes(), sliceBytes);
      panelTile<Kind, kPanelTokens>(groups, rows, panel, g, token, resting + 2 * (token - m0));
    }
    for (; token + 2 <= m1; token += 2) panelTile<Kind, 2>(groups, rows, panel, g, token, resting + 2 * (token - m0));
    if (token < m1) panelTile<Kind, 1>(groups, rows, panel, g, token, resting + 2 * (token - m0));
  }
}

template <class Kind>
void run(const LinearArgs& args, int64_t begin, int64_t end, std::byte* scratch) {
  const PackedInfo info = packedInfoOf(args.weight.type);
  const Rows rows = {reinterpret_cast<const uint8_t*>(args.x), activationRowBytes(info.activations, args.weight.cols),
                     activationHeaderBytes(info.activations, args.weight.cols)};
  const int64_t numCells = args.weight.cols / Kind::kCols;
  if (args.numRows > kDirectTokens) {
    const Groups groups = {args, info.cellBytes, numCells, end, 1};
    const int64_t passBytes = info.activations == ActivationFormat::f32 ? kFloatPassBytes : kPassBytes;
    const int64_t passTokens = minOf(kLinearPassTokens, maxOf(32, passBytes / rows.stride / kPanelTokens * kPanelTokens));
    for (int64_t m0 = 0; m0 < args.numRows; m0 += passTokens) {
      const int64_t m1 = minOf(m0 + passTokens, args.numRows);
      for (int64_t g = begin; g < end; g += 2 * kEights) panelGroups<Kind>(groups, rows, g, m0, m1, scratch);
    }
    return;
  }
  // A vector's groups lie half of the range apart: each half is then read in one go, which memory answers fastest.
  const int64_t pitch = (end - begin + kEights - 1) / kEights;
  const Groups groups = {args, info.cellBytes, numCells, end, pitch};
  // Tiles of nearly equal sizes.
  const int64_t numTiles = (args.numRows + kDirectTileTokens - 1) / kDirectTileTokens;
  for (int64_t g = begin; g < begin + pitch; g++) {
    for (int64_t tile = 0, token = 0; tile < numTiles; tile++) {
      const int64_t numTokens = (args.numRows - token + numTiles - tile - 1) / (numTiles - tile);
      directTileOf<Kind>(numTokens, groups, rows, g, token);
      token += numTokens;
    }
  }
}

}  // namespace

void linearPacked(const LinearArgs& args, int64_t begin, int64_t end, std::byte* scratch) {
  switch (args.weight.type) {
    case TensorType::Q4_0: return run<BlockKind<PackedQ4_0>>(args, begin, end, scratch);
    case TensorType::Q4_1: return run<BlockKind<PackedQ4_1>>(args, begin, end, scratch);
    case TensorType::Q5_0: return run<BlockKind<PackedQ5_0>>(args, begin, end, scratch);
    case TensorType::Q5_1: return run<BlockKind<PackedQ5_1>>(args, begin, end, scratch);
    case TensorType::Q8_0: return run<WideKind<PackedBytes<TensorType::Q8_0>>>(args, begin, end, scratch);
    case TensorType::Q8_0_INT8: return run<BlockKind<PackedCentredBytes<TensorType::Q8_0_INT8>>>(args, begin, end, scratch);
    case TensorType::I8: return run<WideKind<PackedBytes<TensorType::I8>>>(args, begin, end, scratch);
    case TensorType::I8_INT8: return run<BlockKind<PackedCentredBytes<TensorType::I8_INT8>>>(args, begin, end, scratch);
    case TensorType::F8_E4M3: return run<FloatKind<PackedF8>>(args, begin, end, scratch);
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
