// The arithmetic of packed weights: how a token's row is multiplied with one cell, straight from its packed bytes or
// unpacked before. One struct for each kind of cell in packed_formats.h; a kind's add and addPacked do the same
// operations in the same order.
#pragma once
#include "linear_packed.h"
#include "packed_formats.h"

namespace millrace::MILLRACE_ISA {
namespace {

// How far ahead of their use packed weights are asked for: left alone, hardware prefetchers reach 6/7 of the bandwidth.
constexpr int64_t kPrefetchBytes = 2048;

MILLRACE_INLINE void prefetch(const uint8_t* address, int64_t numBytes) {
  for (int64_t offset = 0; offset < numBytes; offset += 64) __builtin_prefetch(address + offset);
}

// Prefetches the bytes that part `part` of kParts reads from a cell kPrefetchBytes ahead.
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

// u8 weights per 32 columns with one f32 scale and shift, or a scale for each 16.
template <class Format>
struct BlockKind {
  static constexpr int64_t kCols = 32;
  static constexpr int kScales = kCols / activationBlock(packedInfoOf(Format::kType).activations);
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
    MILLRACE_UNROLL_INT
    for (int s = 0; s < kScales; s++) {
      Ints sums[kTokens][kGroups] = {};
      constexpr int kDots = kScales > 1 || kHasWideSums || Format::kFitsWhole ? 1 : 2;
      constexpr int kVectors = 8 / kScales / kDots;
      MILLRACE_UNROLL_INT
      for (int h = 0; h < kDots; h++) {
        const int first = (s * kDots + h) * kVectors;
        typename Format::Sum dots[kTokens][kGroups] = {};
        const Bytes* values[kGroups];
        MILLRACE_UNROLL_INT
        for (int g = 0; g < kGroups; g++) values[g] = cells[g].values + first;
        addDots<kVectors, kTokens, kGroups>(values, rows, 32 * index + 4 * first, dots);
        MILLRACE_UNROLL_INT
        for (int t = 0; t < kTokens; t++) {
          MILLRACE_UNROLL_INT
          for (int g = 0; g < kGroups; g++) sums[t][g] += dotSum(dots[t][g]);
        }
      }
      MILLRACE_UNROLL_INT
      for (int t = 0; t < kTokens; t++) {
        const SmallBlock* block = reinterpret_cast<const SmallBlock*>(rows[t].header) + kScales * index + s;
        const Floats d = splatFloats(block->d);
        const Floats sum = splatFloats(block->sum);
        MILLRACE_UNROLL_INT
        for (int g = 0; g < kGroups; g++) {
          const Floats f = toFloats(sums[t][g]);
          const Floats scale = cells[g].scales[s];
          if constexpr (Format::kCentre == Centre::Exact) {
            acc[t][g] = mulAdd((f - sum) * d, scale, acc[t][g]);
          } else if constexpr (Format::kCentre == Centre::Nibbles) {
            acc[t][g] = mulAdd(mulSub(f, d, sum), scale, acc[t][g]);
          } else {
            acc[t][g] = mulAdd(f * d, scale, mulAdd(cells[g].shift, sum, acc[t][g]));
          }
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
    constexpr int kScaleCols = 256 / Format::kNumScales;
    constexpr int kDotCols = kHasWideSums ? kScaleCols : minOf(kScaleCols, Format::kSumColumns);
    constexpr int kVectors = kDotCols / 4;
    MILLRACE_UNROLL_INT
    for (int h = 0; h < 32 / kDotCols; h++) {
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
          sums[t][g] += dotTimes(dots[t][g], heads[g]->scales[(32 * s + kDotCols * h) / kScaleCols]);
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

// Weights that are widened to f32, with one f32 scale per 32 columns. Two sums a cell, of sixteen columns each: alone,
// one would wait for itself.
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

}  // namespace
}  // namespace millrace::MILLRACE_ISA
