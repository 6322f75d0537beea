// Slots of states that rows continue and leave behind, for the operations of a recurrent layer.
#pragma once
#include "kernel.h"
#include "math.h"

namespace millrace {

struct StateRows {
  const int32_t* sources;  // [numRows]; kEmptyState or kRowBefore where no slot
  const int32_t* targets;  // [numRows]; -1 for none
  const int32_t* copies;   // as targets, or null
  int64_t numRows;
};

constexpr int32_t kEmptyState = -1;
constexpr int32_t kRowBefore = -2;

#ifdef MILLRACE_DECODES
template <typename Name>
StateRows readStateRows(const Operands<Name>& in, int64_t numSlots) {
  const int64_t numRows = in.integer(Name::numRows);
  StateRows rows{};
  rows.numRows = numRows;
  rows.sources = in.indices(Name::sources, numRows, kRowBefore, numSlots - 1);
  rows.targets = in.indices(Name::targets, numRows, -1, numSlots - 1);
  rows.copies = in.optionalIndices(Name::copies, numRows, -1, numSlots - 1);
  if (numRows > 0 && rows.sources[0] == kRowBefore) in.refuse(Name::sources, "no row before the first at index 0", kRowBefore);
  for (const operand::Place& written : {static_cast<operand::Place>(Name::out), static_cast<operand::Place>(Name::state)}) {
    in.requireApart(written, Name::x);
    in.requireApart(written, Name::sources);
    in.requireApart(written, Name::targets);
    if (rows.copies != nullptr) in.requireApart(written, Name::copies);
  }
  in.requireApart(Name::out, Name::state);
  return rows;
}
#endif

}  // namespace millrace

namespace millrace::MILLRACE_ISA {

// Calls keep(slot) for each slot that keeps the state after row m.
template <class Keep>
static inline void forTargets(const StateRows& rows, int64_t m, Keep keep) {
  if (rows.copies != nullptr && rows.copies[m] >= 0) keep(static_cast<int64_t>(rows.copies[m]));
  if (rows.targets[m] >= 0) keep(static_cast<int64_t>(rows.targets[m]));
}

// ln(1 + e^x); beyond 20 it is x to the last bit of a float. NaN gives NaN.
static inline Doubles softplus(Doubles x) { return x <= Doubles{} + 20.0 ? logDoubles(expDoubles(x) + 1.0) : x; }

// Partial sums over the rows of a state, row i in sum i mod kParts, added (0 + 1) + (2 + 3).
constexpr int64_t kParts = 4;

// Columns of a pass: the partial sums of both products fit the registers.
#if defined(MILLRACE_ISA_AVX512)
constexpr int64_t kStateVectors = 2;
#else
constexpr int64_t kStateVectors = 1;
#endif
constexpr int64_t kColumns = kStateVectors * kLanes;
static_assert(kStateColumns % kColumns == 0);

typedef Floats Sums[kParts][kStateVectors];

MILLRACE_INLINE void storeSums(float* out, const Sums& parts) {
  MILLRACE_UNROLL
  for (int64_t j = 0; j < kStateVectors; j++) storeFloats(out + j * kLanes, (parts[0][j] + parts[1][j]) + (parts[2][j] + parts[3][j]));
}

// Calls body(row of S, its part) for all rows. Parts are constants, so that their sums stay in registers.
template <class Body>
MILLRACE_INLINE void forStateRows(int64_t keyDim, Body body) {
  int64_t i = 0;
  for (; i + kParts <= keyDim; i += kParts) {
    body(i, 0);
    body(i + 1, 1);
    body(i + 2, 2);
    body(i + 3, 3);
  }
  if (i < keyDim) body(i, 0);
  if (i + 1 < keyDim) body(i + 1, 1);
  if (i + 2 < keyDim) body(i + 2, 2);
}

// A block of columns of one head's state, [numStateRows, kStateColumns], in each slot.
struct StateBlock {
  const StateRows& rows;
  float* state;  // [numSlots, numHeads, numBlocks, numStateRows, kStateColumns]
  int64_t numHeads;
  int64_t numBlocks;
  int64_t numStateRows;
  int64_t head;
  int64_t block;
  float* own;  // [numStateRows, kStateColumns]: the state between rows

  size_t numBytes() const { return static_cast<size_t>(numStateRows * kStateColumns) * sizeof(float); }
  float* slot(int64_t index) const { return state + ((index * numHeads + head) * numBlocks + block) * numStateRows * kStateColumns; }
  bool continues(int64_t m) const { return m < rows.numRows && rows.sources[m] == kRowBefore; }

  // Where the state lies that row m starts a run from.
  const float* start(int64_t m) const {
    if (rows.sources[m] != kEmptyState) return slot(rows.sources[m]);
    memset(own, 0, numBytes());
    return own;
  }

  // The last row of a run writes its state into its slot, others into `own`: later rows change that.
  float* destination(int64_t m) const { return rows.targets[m] >= 0 && !continues(m + 1) ? slot(rows.targets[m]) : own; }

  // Copies the state after row m, which is at `from`, to the slots that keep it.
  void keep(int64_t m, const float* from) const {
    forTargets(rows, m, [&](int64_t index) {
      if (slot(index) != from) memcpy(slot(index), from, numBytes());
    });
  }
};

}  // namespace millrace::MILLRACE_ISA
