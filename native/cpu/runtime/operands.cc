// Checks of single operands.
#include "operands.h"

#include <cmath>

#include "failure.h"

namespace millrace {

void OperandReader::refuseNamed(const char* part, const std::string& expected, const std::string& got) const {
  failArgument(std::string(kOpNames[static_cast<int>(code_)]) + ": expected " + part + " to be " + expected + ", got " + got);
}

void OperandReader::refuse(operand::Place at, const std::string& expected, double got) const {
  refuseNamed(at.name, expected, formatNumber(got));
}

void OperandReader::requireApart(operand::Place at, operand::Place other) const {
  if (args_[at.index] == args_[other.index]) refuse(at, std::string("another buffer than ") + other.name, "the same");
}

int64_t OperandReader::integerAt(operand::Place at, int64_t min, int64_t max) const {
  const double value = args_[at.index];
  if (!(value >= static_cast<double>(min) && value <= static_cast<double>(max) && std::floor(value) == value)) {
    refuse(at, "an integer in [" + std::to_string(min) + ", " + std::to_string(max) + "]", value);
  }
  return static_cast<int64_t>(value);
}

double OperandReader::numberAt(operand::Place at) const {
  if (!std::isfinite(args_[at.index])) refuse(at, "finite", args_[at.index]);
  return args_[at.index];
}

const HandleEntry& OperandReader::bufferEntry(operand::Place at) const {
  const HandleEntry* entry = handles_.find(args_[at.index], HandleKind::Buffer);
  if (entry == nullptr) refuse(at, "the handle of a buffer", args_[at.index]);
  return *entry;
}

void* OperandReader::bufferAt(operand::Place at, int64_t count, int64_t valueBytes) const {
  const HandleEntry& entry = bufferEntry(at);
  const int64_t needed = saturatedProduct(count, valueBytes);
  if (static_cast<int64_t>(entry.memory->numBytes()) < needed) {
    refuse(at, "at least " + std::to_string(needed) + " bytes", std::to_string(entry.memory->numBytes()) + " bytes");
  }
  return entry.memory->data();
}

void* OperandReader::wholeAt(operand::Place at, int64_t* numBytes) const {
  const HandleEntry& entry = bufferEntry(at);
  *numBytes = static_cast<int64_t>(entry.memory->numBytes());
  return entry.memory->data();
}

uint8_t* OperandReader::bytesAt(operand::Place at, int64_t offset, int64_t count) const {
  const int64_t needed = count > INT64_MAX - offset ? INT64_MAX : offset + count;
  return static_cast<uint8_t*>(bufferAt(at, needed, 1)) + offset;
}

const int32_t* OperandReader::indicesAt(operand::Place at, int64_t count, int64_t min, int64_t max) const {
  const int32_t* values = static_cast<const int32_t*>(bufferAt(at, count, sizeof(int32_t)));
  for (int64_t i = 0; i < count; i++) {
    if (values[i] < min || values[i] > max) {
      refuse(at, "in [" + std::to_string(min) + ", " + std::to_string(max) + "] at index " + std::to_string(i), values[i]);
    }
  }
  return values;
}

const WeightRef& OperandReader::weightAt(operand::Place at) const {
  const HandleEntry* entry = handles_.find(args_[at.index], HandleKind::Weight);
  if (entry == nullptr) refuse(at, "the handle of a weight", args_[at.index]);
  if (handles_.find(entry->source) == nullptr) refuse(at, "a weight whose file or buffer is still there", args_[at.index]);
  return entry->weight;
}

const WeightRef& OperandReader::rowWeightAt(operand::Place at) const {
  const WeightRef& found = weightAt(at);
  if (found.isPacked) refuse(at, "a weight in rows", "a packed one");
  return found;
}

const std::vector<WeightRef>& OperandReader::weightsAt(operand::Place at) const {
  const HandleEntry* entry = handles_.find(args_[at.index], HandleKind::WeightStack);
  if (entry == nullptr) refuse(at, "the handle of a stack of weights", args_[at.index]);
  for (const double source : entry->sources) {
    if (handles_.find(source) == nullptr) refuse(at, "weights whose files and buffers are still there", args_[at.index]);
  }
  return entry->stack;
}

uint8_t* OperandReader::kvCacheAt(operand::Place at, const KvGeometry& kv, int64_t* numBlocks) const {
  const HandleEntry& entry = bufferEntry(at);
  const int64_t blockBytes = saturatedProduct(kv.numKvHeads, kv.blockSize, kv.entryBytes());
  const int64_t held = static_cast<int64_t>(entry.memory->numBytes()) / blockBytes;
  if (held < *numBlocks) *numBlocks = held;
  return entry.memory->data();
}

Op decodeOp(OpCode code, HandleTable& handles, const double* args, DecodeMemo& memo) {
  switch (code) {
#define MILLRACE_OP(name) \
  case OpCode::name: return decode(Operands<ops::name>(handles, args), memo);
    MILLRACE_OPS(MILLRACE_OP)
#undef MILLRACE_OP
  }
  __builtin_unreachable();
}

}  // namespace millrace
