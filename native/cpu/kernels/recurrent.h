// Slots of states that rows continue and leave behind, for the operations of a recurrent layer.
#pragma once
#include "kernel.h"

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

}  // namespace millrace::MILLRACE_ISA
