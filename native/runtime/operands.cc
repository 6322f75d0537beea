// Checks of single operands.
#include "operands.h"

#include <cmath>

#include "failure.h"

namespace millrace {

void Operands::refuse(const char* operand, const std::string& expected, const std::string& got) const {
  failArgument(std::string(kOpNames[static_cast<int>(code_)]) + ": expected " + operand + " to be " + expected + ", got " + got);
}

void Operands::refuse(const char* operand, const std::string& expected, double got) const {
  refuse(operand, expected, formatNumber(got));
}

int64_t Operands::integer(int index, const char* operand, int64_t min, int64_t max) const {
  const double value = args_[index];
  if (!(value >= static_cast<double>(min) && value <= static_cast<double>(max) && std::floor(value) == value)) {
    refuse(operand, "an integer in [" + std::to_string(min) + ", " + std::to_string(max) + "]", value);
  }
  return static_cast<int64_t>(value);
}

double Operands::number(int index, const char* operand) const {
  if (!std::isfinite(args_[index])) refuse(operand, "finite", args_[index]);
  return args_[index];
}

const HandleEntry& Operands::bufferEntry(int index, const char* operand) const {
  const HandleEntry* entry = handles_.find(args_[index], HandleKind::Buffer);
  if (entry == nullptr) refuse(operand, "the handle of a buffer", args_[index]);
  return *entry;
}

void* Operands::buffer(int index, const char* operand, int64_t count, int64_t valueBytes) const {
  const HandleEntry& entry = bufferEntry(index, operand);
  const int64_t needed = saturatedProduct(count, valueBytes);
  if (static_cast<int64_t>(entry.memory->numBytes()) < needed) {
    refuse(operand, "at least " + std::to_string(needed) + " bytes", std::to_string(entry.memory->numBytes()) + " bytes");
  }
  return entry.memory->data();
}

const void* Operands::wholeBuffer(int index, const char* operand, int64_t* count) const {
  const HandleEntry& entry = bufferEntry(index, operand);
  *count = static_cast<int64_t>(entry.memory->numBytes() / 4);
  return entry.memory->data();
}

const int32_t* Operands::indices(int index, const char* operand, int64_t count, int64_t min, int64_t max) const {
  const int32_t* values = i32(index, operand, count);
  for (int64_t i = 0; i < count; i++) {
    if (values[i] < min || values[i] > max) {
      refuse(operand, "in [" + std::to_string(min) + ", " + std::to_string(max) + "] at index " + std::to_string(i), values[i]);
    }
  }
  return values;
}

const WeightRef& Operands::weight(int index, const char* operand) const {
  const HandleEntry* entry = handles_.find(args_[index], HandleKind::Weight);
  if (entry == nullptr) refuse(operand, "the handle of a weight", args_[index]);
  if (handles_.find(entry->source) == nullptr) refuse(operand, "a weight whose file or buffer is still there", args_[index]);
  return entry->weight;
}

const WeightRef& Operands::rowWeight(int index, const char* operand) const {
  const WeightRef& found = weight(index, operand);
  if (found.isPacked) refuse(operand, "a weight in rows", "a packed one");
  return found;
}

uint8_t* Operands::bytes(int index, const char* operand, int64_t offset, int64_t count) const {
  const int64_t needed = count > INT64_MAX - offset ? INT64_MAX : offset + count;
  return static_cast<uint8_t*>(buffer(index, operand, needed, 1)) + offset;
}

void Operands::requireApart(const char* written, const void* out, const char* read, const void* indices) const {
  if (out == indices) refuse(written, std::string("another buffer than ") + read, "the same");
}

KvGeometry Operands::kvGeometry(int index) const {
  KvGeometry kv;
  constexpr int64_t kMaxDimension = 65536;  // keeps every product of two of them far from overflow
  kv.numHeads = integer(index, "numHeads", 1, kMaxDimension);
  kv.numKvHeads = integer(index + 1, "numKvHeads", 1, kMaxDimension);
  kv.headDim = integer(index + 2, "headDim", 1, kMaxDimension);
  kv.blockSize = integer(index + 3, "blockSize", 1);
  if (kv.blockSize % kKvOctet != 0) refuse("blockSize", "a multiple of 8", static_cast<double>(kv.blockSize));
  kv.type = static_cast<KvType>(integer(index + 4, "kvType", 0, 2));
  if (kv.numHeads % kv.numKvHeads != 0) refuse("numHeads", "a multiple of " + std::to_string(kv.numKvHeads), static_cast<double>(kv.numHeads));
  return kv;
}

uint8_t* Operands::kvCache(int index, const char* operand, const KvGeometry& kv, int64_t* numBlocks) const {
  const HandleEntry& entry = bufferEntry(index, operand);
  const int64_t blockBytes = saturatedProduct(kv.numKvHeads, kv.blockSize, kv.entryBytes());
  const int64_t held = static_cast<int64_t>(entry.memory->numBytes()) / blockBytes;
  if (held < *numBlocks) *numBlocks = held;
  return entry.memory->data();
}

}  // namespace millrace
