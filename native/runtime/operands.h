// Reads and checks one operation's operands by position; every refusal names the operation and the operand.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "handles.h"
#include "plan.h"

namespace millrace {

// What decoding a program keeps between its operations: tables that every layer uses are checked once and cut once.
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

class Operands {
 public:
  Operands(HandleTable& handles, OpCode code, const double* args) : handles_(handles), code_(code), args_(args) {}

  [[noreturn]] void refuse(const char* operand, const std::string& expected, const std::string& got) const;
  [[noreturn]] void refuse(const char* operand, const std::string& expected, double got) const;

  // An integer in [min, max].
  int64_t integer(int index, const char* operand, int64_t min = 0, int64_t max = INT32_MAX) const;
  // A finite number.
  double number(int index, const char* operand) const;

  // A buffer of at least `count` values.
  float* f32(int index, const char* operand, int64_t count) const { return static_cast<float*>(buffer(index, operand, count, 4)); }
  double* f64(int index, const char* operand, int64_t count) const { return static_cast<double*>(buffer(index, operand, count, 8)); }
  int32_t* i32(int index, const char* operand, int64_t count) const { return static_cast<int32_t*>(buffer(index, operand, count, 4)); }
  // As f32(); null for NO_BUFFER.
  float* optionalF32(int index, const char* operand, int64_t count) const { return isNone(index) ? nullptr : f32(index, operand, count); }
  // A buffer of at least `count` i32, each in [min, max].
  const int32_t* indices(int index, const char* operand, int64_t count, int64_t min, int64_t max) const;
  // A whole buffer of four-byte values with its length; NO_BUFFER has length 0.
  template <typename Value>
  const Value* whole(int index, const char* operand, int64_t* count) const {
    static_assert(sizeof(Value) == 4);
    *count = 0;
    if (isNone(index)) return nullptr;
    return static_cast<const Value*>(wholeBuffer(index, operand, count));
  }
  // `count` bytes from `offset` on.
  uint8_t* bytes(int index, const char* operand, int64_t offset, int64_t count) const;
  const WeightRef& weight(int index, const char* operand) const;
  // One that is not packed.
  const WeightRef& rowWeight(int index, const char* operand) const;
  // Indices are checked before anything runs: an operation must not overwrite them while it reads them.
  void requireApart(const char* written, const void* out, const char* read, const void* indices) const;
  // Heads, sizes and KV type from five operands starting at `index`.
  KvGeometry kvGeometry(int index) const;
  // A cache of that geometry; *numBlocks shrinks to what it holds.
  uint8_t* kvCache(int index, const char* operand, const KvGeometry& kv, int64_t* numBlocks) const;

 private:
  bool isNone(int index) const { return args_[index] == 0; }
  void* buffer(int index, const char* operand, int64_t count, int64_t valueBytes) const;
  const void* wholeBuffer(int index, const char* operand, int64_t* count) const;
  const HandleEntry& bufferEntry(int index, const char* operand) const;

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

// Checks and decodes one operation's arguments. Never reads past numArgs values (decodeProgram checked their number).
Op decodeOp(OpCode code, const Operands& operands, DecodeMemo& memo);
Op decodeRopeAndWriteKv(const Operands& operands, DecodeMemo& memo);
Op decodePagedAttention(const Operands& operands, DecodeMemo& memo);
Op decodeSample(const Operands& operands);
// Arguments of each operation, by opcode.
extern const int kNumArgs[kNumOps];

inline Op makeOp(OpCode code, int64_t numUnits, double nanosPerUnit, int64_t scratchBytes = 0) {
  Op op{};
  op.code = code;
  op.numUnits = numUnits;
  op.nanosPerUnit = nanosPerUnit;
  op.scratchBytes = numUnits > 0 ? scratchBytes : 0;
  return op;
}

}  // namespace millrace
