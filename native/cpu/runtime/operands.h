// Reads and checks one operation's operands; every refusal names the operation and the operand.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "handles.h"
#include "plan.h"

namespace millrace {

// Kept while a program is decoded: tables that every layer uses are checked once and cut once.
struct DecodeMemo {
  // Attention over these rows and tables is checked for caches of numBlocks blocks, and cut.
  struct Attention {
    PagedAttentionArgs args;
    int64_t numBlocks;
    const AttentionSchedule* schedule;
  };

  Plan& plan;
  int numThreads;
  bool sharesKvReads;
  std::vector<Attention> attention{};
  int64_t kvBytesRead = 0;
  int64_t kvBytesUnshared = 0;
  const int32_t* slots = nullptr;
  int64_t numSlotRows = 0;
  int64_t numSlots = -1;
};

// Reads and checks operands by their place.
class OperandReader {
 public:
  [[noreturn]] void refuse(operand::Place at, const std::string& expected, const std::string& got) const { refuseNamed(at.name, expected, got); }
  [[noreturn]] void refuse(operand::Place at, const std::string& expected, double got) const;
  // `part`: of an operand, such as params.mode.
  [[noreturn]] void refuseNamed(const char* part, const std::string& expected, const std::string& got) const;
  // Refuses a buffer that is also another operand. Indices are checked before anything runs: an operation must not
  // overwrite them while it reads them.
  void requireApart(operand::Place at, operand::Place other) const;

 protected:
  OperandReader(HandleTable& handles, OpCode code, const double* args) : handles_(handles), code_(code), args_(args) {}

  bool isNone(operand::Place at) const { return args_[at.index] == 0; }
  int64_t integerAt(operand::Place at, int64_t min, int64_t max) const;
  double numberAt(operand::Place at) const;
  void* bufferAt(operand::Place at, int64_t count, int64_t valueBytes) const;
  void* wholeAt(operand::Place at, int64_t* numBytes) const;
  uint8_t* bytesAt(operand::Place at, int64_t offset, int64_t count) const;
  const int32_t* indicesAt(operand::Place at, int64_t count, int64_t min, int64_t max) const;
  const WeightRef& weightAt(operand::Place at) const;
  const WeightRef& rowWeightAt(operand::Place at) const;
  const std::vector<WeightRef>& weightsAt(operand::Place at) const;
  uint8_t* kvCacheAt(operand::Place at, const KvGeometry& kv, int64_t* numBlocks) const;

 private:
  const HandleEntry& bufferEntry(operand::Place at) const;

  HandleTable& handles_;
  OpCode code_;
  const double* args_;
};

// a · b · c, or INT64_MAX when that does not fit; no factor is negative.
inline int64_t saturatedProduct(int64_t a, int64_t b, int64_t c = 1) {
  int64_t product;
  if (a == 0 || b == 0 || c == 0) return 0;
  if (__builtin_mul_overflow(a, b, &product) || __builtin_mul_overflow(product, c, &product)) return INT64_MAX;
  return product;
}

// The operands of one operation (a struct of op_table.h), each of which is read as what it is.
template <typename Name>
class Operands : public OperandReader {
 public:
  Operands(HandleTable& handles, const double* args) : OperandReader(handles, Name::code, args) {}

  // An integer in [min, max].
  int64_t integer(const operand::Integer<Name>& at, int64_t min = 0, int64_t max = INT32_MAX) const { return integerAt(at, min, max); }
  // A finite number.
  double number(const operand::Number<Name>& at) const { return numberAt(at); }
  bool flag(const operand::Flag<Name>& at) const { return integerAt(at, 0, 1) == 1; }
  template <typename Enum>
  Enum code(const operand::Code<Name, Enum>& at) const {
    return static_cast<Enum>(integerAt(at, at.min, at.max));
  }
  // A buffer of at least `count` values.
  template <typename Value>
  Value* buffer(const operand::Buffer<Name, Value>& at, int64_t count) const {
    return static_cast<Value*>(bufferAt(at, count, sizeof(Value)));
  }
  // As buffer(); null for NO_BUFFER.
  template <typename Value>
  Value* optionalBuffer(const operand::OptionalBuffer<Name, Value>& at, int64_t count) const {
    return isNone(at) ? nullptr : static_cast<Value*>(bufferAt(at, count, sizeof(Value)));
  }
  // A whole buffer with its length; null and 0 for NO_BUFFER.
  template <typename Value>
  Value* whole(const operand::Buffer<Name, Value>& at, int64_t* count) const {
    *count = 0;
    if (isNone(at)) return nullptr;
    int64_t numBytes;
    Value* values = static_cast<Value*>(wholeAt(at, &numBytes));
    *count = numBytes / static_cast<int64_t>(sizeof(Value));
    return values;
  }
  // A buffer of at least `count` values, each in [min, max].
  const int32_t* indices(const operand::Buffer<Name, const int32_t>& at, int64_t count, int64_t min, int64_t max) const {
    return indicesAt(at, count, min, max);
  }
  // As indices(); null for NO_BUFFER.
  const int32_t* optionalIndices(const operand::OptionalBuffer<Name, const int32_t>& at, int64_t count, int64_t min, int64_t max) const {
    return isNone(at) ? nullptr : indicesAt(at, count, min, max);
  }
  // `count` bytes from `offset` on.
  uint8_t* bytes(const operand::Buffer<Name, uint8_t>& at, int64_t offset, int64_t count) const { return bytesAt(at, offset, count); }
  // Rows of `cols` values.
  const float* activations(const operand::Activations<Name>& at, int64_t numRows, ActivationFormat format, int64_t cols) const {
    return static_cast<const float*>(bufferAt(at, saturatedProduct(numRows, activationRowBytes(format, cols)), 1));
  }
  const WeightRef& weight(const operand::Weight<Name>& at) const { return weightAt(at); }
  // One that is not packed.
  const WeightRef& rowWeight(const operand::Weight<Name>& at) const { return rowWeightAt(at); }
  // At least one matrix; all have one type and shape.
  const std::vector<WeightRef>& weights(const operand::Weights<Name>& at) const { return weightsAt(at); }
  // A cache of that geometry; *numBlocks shrinks to what it holds.
  template <typename Value>
  Value* kvCache(const operand::KvCache<Name, Value>& at, const KvGeometry& kv, int64_t* numBlocks) const {
    return kvCacheAt(at, kv, numBlocks);
  }
};

// Heads, sizes and KV type.
template <typename Name>
KvGeometry readKvGeometry(const Operands<Name>& in) {
  KvGeometry kv;
  constexpr int64_t kMaxDimension = 65536;  // keeps every product of two of them far from overflow
  kv.numHeads = in.integer(Name::numHeads, 1, kMaxDimension);
  kv.numKvHeads = in.integer(Name::numKvHeads, 1, kMaxDimension);
  kv.headDim = in.integer(Name::headDim, 1, kMaxDimension);
  kv.blockSize = in.integer(Name::blockSize, 1);
  if (kv.blockSize % kKvOctet != 0) {
    in.refuse(Name::blockSize, "a multiple of " + std::to_string(kKvOctet), static_cast<double>(kv.blockSize));
  }
  kv.type = in.code(Name::kvType);
  if (kv.numHeads % kv.numKvHeads != 0) {
    in.refuse(Name::numHeads, "a multiple of " + std::to_string(kv.numKvHeads), static_cast<double>(kv.numHeads));
  }
  return kv;
}

// Checks and decodes one operation; each stands beside its kernel or in a decode_*.cc here.
#define MILLRACE_OP(name) Op decode(const Operands<ops::name>& in, DecodeMemo& memo);
MILLRACE_OPS(MILLRACE_OP)
#undef MILLRACE_OP

// @param args kNumOperands[code] of them
Op decodeOp(OpCode code, HandleTable& handles, const double* args, DecodeMemo& memo);

template <typename Args>
Op makeOp(OpCode code, const Args& args, int64_t numUnits, double nanosPerUnit, int64_t scratchBytes = 0) {
  Op op;
  op.code = code;
  op.numUnits = numUnits;
  op.nanosPerUnit = nanosPerUnit;
  op.scratchBytes = numUnits > 0 ? scratchBytes : 0;
  op.args<Args>() = args;
  return op;
}

}  // namespace millrace
