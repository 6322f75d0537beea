// The C++ types of operations' operands. op_table.h names the operands of each operation; runtime/operands.h reads
// them. An operand belongs to its operation (`Name`, a struct of op_table.h): to read another operation's operand, or
// one as another kind than it has, does not compile.
#pragma once
#include <cstdint>

namespace millrace::operand {

struct Place {
  int index;
  const char* name;
};

// Values that the operation only reads are const.
template <typename Name, typename Value> struct Buffer : Place {};
template <typename Name, typename Value> struct OptionalBuffer : Place {};
template <typename Name, typename Value> struct KvCache : Place {};
// f32, or rows in the format that a packed weight takes.
template <typename Name> struct Activations : Place {};
template <typename Name> struct Weight : Place {};
// Matrices of one type and shape.
template <typename Name> struct Weights : Place {};
template <typename Name> struct Integer : Place {};
template <typename Name> struct Number : Place {};
template <typename Name> struct Flag : Place {};
// A value of `Enum` in [min, max].
template <typename Name, typename Enum> struct Code : Place {
  int64_t min;
  int64_t max;
};

}  // namespace millrace::operand
