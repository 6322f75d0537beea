// linear over packed weights: the tiles in which cells meet tokens, with one f32 accumulator a row and token, a lane
// each. The products are in packed_kinds.h.
//
// A cell's columns are summed in integers, which is exact, or in f32 in one fixed order. Cells follow one another from
// the front, and each adds to the accumulator by the same few operations (Kind::add). How many tokens or groups are
// computed side by side, and whether a cell is used at once or kept unpacked for many tokens, therefore changes no bit.
#pragma once
#include "linear_tile.h"
#include "packed_kinds.h"

namespace millrace::MILLRACE_ISA {
namespace {

// With more tokens than this, weights are unpacked into scratch first, two groups side by side. Tiles of eight keep
// them in registers long enough that four tiles unpacking for themselves are faster still.
constexpr int64_t kDirectTokens = kEights > 1 ? 32 : 8;
// Tokens that such weights are multiplied with at once: as many as have their sums in registers.
constexpr int kDirectTileTokens = kEights > 1 ? 8 : 4;
// Activations of this many bytes stay in the second-level cache from one pair of groups to the next.
constexpr int64_t kPassBytes = 256 << 10;
// Activations in f32 or bfloat16 may come from the next cache: each serves sixteen rows of weights, and unpacking
// weights takes longer.
constexpr int64_t kFloatPassBytes = 1 << 20;
// Columns unpacked at once: with the activations of a tile they fit the first-level cache.
constexpr int64_t kPanelCols = 512;
constexpr int64_t kPanelBytes = kEights * (24 << 10);
constexpr int kPanelTokens = 4;

// Vectors of groups: group g and, where a vector has room, the one `pitch` groups on, if it is below `end`.
struct Groups {
  const LinearArgs& args;
  PackedInfo info;
  int64_t numCells;
  int64_t end;
  int64_t pitch;

  int64_t bytes() const { return info.headBytes + numCells * info.cellBytes; }
  // In place of a group past the end the first one is read twice.
  Source head(int64_t g) const { return {args.weight.data + g * bytes(), g + pitch < end ? pitch * bytes() : 0}; }
  Source packed(int64_t g, int64_t cell) const { return head(g) + (info.headBytes + cell * info.cellBytes); }

  // Applies the scales of whole rows to one token's sums of the rows from group g on, adds the bias and the old output,
  // and stores them.
  void store(int64_t token, int64_t g, Floats sums) const {
    // The second vector of a panel may lie past the end, where no scales are.
    if (g >= end) return;
    if (info.headBytes > 0) sums = sums * loadFloats(head(g));
    f32x8 parts[kEights];
    memcpy(parts, &sums, sizeof sums);
    MILLRACE_UNROLL_INT
    for (int p = 0; p < kEights; p++) {
      if (g + p * pitch < end) storeRows(args, token, (g + p * pitch) * kPackedRows, parts[p]);
    }
  }
};

// Cells [first, first + numCells) of two vectors, unpacked, side by side.
template <class Kind>
struct Panel {
  const typename Kind::Cell* cells;
  int64_t first;
  int64_t numCells;
  bool isFirst;
  bool isLast;
};

// Adds a panel's cells to the accumulators, one after another. A kind that sums several cells before it scales them has
// a specialisation.
template <class Kind>
struct PanelSum {
  template <int kTokens>
  MILLRACE_INLINE void add(const Panel<Kind>& panel, const Row* rows, Floats (*acc)[2]) {
    for (int64_t i = 0; i < panel.numCells; i++) Kind::template add<kTokens, 2>(panel.cells + 2 * i, rows, panel.first + i, acc);
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
  for (int64_t i = 0; i < groups.numCells; i++, packed = packed + groups.info.cellBytes) {
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

// Advances the accumulators of kTokens tokens and the vectors from group g on by one panel; after the last the outputs
// are stored.
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
  PanelSum<Kind>::template add<kTokens>(panel, row, acc);
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

// The two vectors from group g on for tokens [m0, m1), kTileTokens at once.
template <class Kind, int kTileTokens>
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
    const int64_t panelBytes = panel.numCells * groups.info.cellBytes;
    const uint8_t* next = panel.isLast ? groups.packed(g + 2 * kEights, 0).at : groups.packed(g, first + panel.numCells).at;
    const int64_t numTiles = (m1 - m0 + kTileTokens - 1) / kTileTokens;
    const int64_t sliceBytes = (panelBytes / numTiles + 63) / 64 * 64;
    int64_t token = m0;
    for (; token + kTileTokens <= m1; token += kTileTokens, next += sliceBytes) {
      for (int64_t v = 0; v < 2 * kEights; v++) prefetch(next + v * groups.bytes(), sliceBytes);
      panelTile<Kind, kTileTokens>(groups, rows, panel, g, token, resting + 2 * (token - m0));
    }
    for (; token + kPanelTokens <= m1; token += kPanelTokens) panelTile<Kind, kPanelTokens>(groups, rows, panel, g, token, resting + 2 * (token - m0));
    for (; token + 2 <= m1; token += 2) panelTile<Kind, 2>(groups, rows, panel, g, token, resting + 2 * (token - m0));
    if (token < m1) panelTile<Kind, 1>(groups, rows, panel, g, token, resting + 2 * (token - m0));
  }
}

Rows rowsOf(const LinearArgs& args, const PackedInfo& info) {
  return {reinterpret_cast<const uint8_t*>(args.x), activationRowBytes(info.activations, args.weight.cols),
          activationHeaderBytes(info.activations, args.weight.cols)};
}

// More than kDirectTokens tokens.
template <class Kind, int kTileTokens = kPanelTokens>
void runPanels(const LinearArgs& args, int64_t begin, int64_t end, std::byte* scratch) {
  const PackedInfo info = packedInfoOf(args.weight.type);
  const Rows rows = rowsOf(args, info);
  const Groups groups = {args, info, args.weight.cols / Kind::kCols, end, 1};
  const int64_t passBytes = rows.headerBytes == 0 ? kFloatPassBytes : kPassBytes;
  const int64_t passTokens = minOf(kLinearPassTokens, maxOf(32, passBytes / rows.stride / kPanelTokens * kPanelTokens));
  for (int64_t m0 = 0; m0 < args.numRows; m0 += passTokens) {
    const int64_t m1 = minOf(m0 + passTokens, args.numRows);
    for (int64_t g = begin; g < end; g += 2 * kEights) panelGroups<Kind, kTileTokens>(groups, rows, g, m0, m1, scratch);
  }
}

// The number of vectors of groups [begin, end). A vector's groups lie half of the range apart: each half is then read
// in one go, which memory answers fastest.
MILLRACE_INLINE int64_t numVectorsOf(int64_t begin, int64_t end) { return (end - begin + kEights - 1) / kEights; }

// Calls body(token, number of tokens) for tiles of nearly equal sizes, mostTokens at most.
template <class Body>
MILLRACE_INLINE void forTiles(int64_t numTokens, int64_t mostTokens, Body body) {
  const int64_t numTiles = (numTokens + mostTokens - 1) / mostTokens;
  for (int64_t tile = 0, token = 0; tile < numTiles; tile++) {
    const int64_t size = (numTokens - token + numTiles - tile - 1) / (numTiles - tile);
    body(token, size);
    token += size;
  }
}

template <class Kind>
void runPacked(const LinearArgs& args, int64_t begin, int64_t end, std::byte* scratch) {
  if (args.numRows > kDirectTokens) return runPanels<Kind>(args, begin, end, scratch);
  const PackedInfo info = packedInfoOf(args.weight.type);
  const Rows rows = rowsOf(args, info);
  const int64_t numVectors = numVectorsOf(begin, end);
  const Groups groups = {args, info, args.weight.cols / Kind::kCols, end, numVectors};
  for (int64_t g = begin; g < begin + numVectors; g++) {
    forTiles(args.numRows, kDirectTileTokens, [&](int64_t token, int64_t numTokens) { directTileOf<Kind>(numTokens, groups, rows, g, token); });
  }
}

}  // namespace
}  // namespace millrace::MILLRACE_ISA
