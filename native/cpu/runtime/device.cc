// Checks what comes in from outside, keeps the handles and decodes programs into the pool's next plan.
#include "device.h"

#include <algorithm>
#include <cmath>

#include "checksum.h"
#include "cpu.h"
#include "failure.h"
#include "operands.h"

namespace millrace {

namespace {

constexpr int kMaxThreads = 1024;
constexpr int kMaxCpus = 1024;
constexpr double kMaxBytes = 9007199254740991.0;  // the largest integer a JavaScript number surely holds
constexpr int64_t kHeaderWords = 3;
constexpr double kConcurrentFlag = 1;

int64_t requireInteger(const char* where, const char* name, double value, double min, double max) {
  if (value >= min && value <= max && std::floor(value) == value) return static_cast<int64_t>(value);
  failArgument(std::string(where) + ": expected " + name + " to be an integer in [" + formatNumber(min) + ", " + formatNumber(max) + "], got " +
               formatNumber(value));
}

int requireThreads(double numThreads) {
  return static_cast<int>(requireInteger("createDevice", "numThreads", numThreads, 1, kMaxThreads));
}

[[noreturn]] void refuseHandle(const char* where, const char* kind, double handle) {
  failArgument(std::string(where) + ": expected the handle of a " + kind + ", got " + formatNumber(handle));
}

TensorType requireType(const std::string& name) {
  for (int i = 0; i < kNumTensorTypes; i++) {
    if (name == kTensorTypes[i].name) return static_cast<TensorType>(i);
  }
  failArgument("createWeight: expected a tensor type the kernels read, got " + name);
}

[[noreturn]] void refuseWord(const char* what, int64_t at, double got) {
  failArgument(std::string("submit: expected ") + what + " at word " + std::to_string(at) + ", got " + formatNumber(got));
}

}  // namespace

Device::Device(double numThreads, const char* isa, bool sharesKvReads)
    : kernels_(selectKernels(isa)), pool_(requireThreads(numThreads), kernels_), sharesKvReads_(sharesKvReads) {}

double Device::allocate(double byteLength) {
  const int64_t numBytes = requireInteger("allocate", "byteLength", byteLength, 0, kMaxBytes);
  HandleEntry entry;
  entry.kind = HandleKind::Buffer;
  entry.memory = Memory::allocate(static_cast<size_t>(numBytes));
  return handles_.add(std::move(entry));
}

const std::shared_ptr<Memory>& Device::buffer(double handle) {
  const HandleEntry* entry = handles_.find(handle, HandleKind::Buffer);
  if (entry == nullptr) refuseHandle("view", "buffer", handle);
  return entry->memory;
}

void Device::release(double handle) {
  if (handles_.find(handle, HandleKind::Buffer) == nullptr) refuseHandle("release", "buffer", handle);
  handles_.remove(handle);
}

double Device::mapFile(const std::string& path) {
  HandleEntry entry;
  entry.kind = HandleKind::File;
  entry.memory = Memory::mapFile(path);
  return handles_.add(std::move(entry));
}

void Device::unmapFile(double handle) {
  if (handles_.find(handle, HandleKind::File) == nullptr) refuseHandle("unmapFile", "file", handle);
  handles_.remove(handle);
}

void Device::releasePages(double file, double byteOffset, double byteLength, bool isEvicted) {
  const HandleEntry* entry = handles_.find(file, HandleKind::File);
  if (entry == nullptr) refuseHandle("releasePages", "file", file);
  const double size = static_cast<double>(entry->memory->numBytes());
  const int64_t offset = requireInteger("releasePages", "byteOffset", byteOffset, 0, size);
  const int64_t numBytes = requireInteger("releasePages", "byteLength", byteLength, 0, size - byteOffset);
  entry->memory->releasePages(static_cast<size_t>(offset), static_cast<size_t>(numBytes), isEvicted);
}

void Device::prefetch(double file) {
  const HandleEntry* entry = handles_.find(file, HandleKind::File);
  if (entry == nullptr) refuseHandle("prefetch", "file", file);
  entry->memory->prefetch();
}

uint64_t Device::checksum(double source, double byteOffset, double byteLength) {
  const HandleEntry* held = handles_.find(source);
  if (held == nullptr || held->memory == nullptr) refuseHandle("checksum", "file or buffer", source);
  const double size = static_cast<double>(held->memory->numBytes());
  const int64_t offset = requireInteger("checksum", "byteOffset", byteOffset, 0, size);
  const int64_t numBytes = requireInteger("checksum", "byteLength", byteLength, 0, size - byteOffset);
  const uint64_t sum = millrace::checksum(held->memory->data() + offset, static_cast<size_t>(numBytes));
  held->memory->requireReadable();
  return sum;
}

void Device::requireUnchanged(const std::vector<double>& shared) {
  for (const double handle : shared) {
    const HandleEntry* entry = handles_.find(handle, HandleKind::File);
    if (entry == nullptr) refuseHandle("requireUnchanged", "file", handle);
    entry->memory->requireUnchanged(false);
  }
  const auto isShared = [&](const Memory* memory) {
    return std::any_of(shared.begin(), shared.end(), [&](double handle) { return handles_.find(handle)->memory.get() == memory; });
  };
  for (const HandleEntry& entry : handles_.entries()) {
    if (entry.kind == HandleKind::File && !isShared(entry.memory.get())) entry.memory->requireUnchanged(true);
  }
}

void Device::requireReadable() {
  if (numLostRanges() == 0) return;
  for (const HandleEntry& entry : handles_.entries()) {
    if (entry.kind == HandleKind::File) entry.memory->requireReadable();
  }
}

void Device::pinThreads(const std::vector<double>& cpus) {
  if (cpus.empty()) failArgument("pinThreads: expected at least one CPU, got none");
  std::vector<int> numbers;
  for (const double cpu : cpus) numbers.push_back(static_cast<int>(requireInteger("pinThreads", "a CPU", cpu, 0, kMaxCpus - 1)));
  pool_.pin(numbers);
}

double Device::createWeight(double source, double byteOffset, const std::string& type, double rows, double cols, bool isPacked) {
  const HandleEntry* held = handles_.find(source);
  if (held == nullptr || held->memory == nullptr) refuseHandle("createWeight", "file or buffer", source);
  const int64_t offset = requireInteger("createWeight", "byteOffset", byteOffset, 0, kMaxBytes);
  HandleEntry entry;
  entry.kind = HandleKind::Weight;
  entry.source = source;
  entry.weight.type = requireType(type);
  entry.weight.rows = requireInteger("createWeight", "rows", rows, 1, INT32_MAX);
  entry.weight.cols = requireInteger("createWeight", "cols", cols, 1, INT32_MAX);
  const TensorTypeInfo& info = infoOf(entry.weight.type);
  const PackedInfo packed = packedInfoOf(entry.weight.type);
  if (isPacked && packed.cellBytes == 0) failArgument("createWeight: expected a type with a packed form, got " + type);
  const int64_t unitCols = isPacked ? packed.cellValues : info.blockValues;
  if (entry.weight.cols % unitCols != 0) {
    failArgument("createWeight: expected cols to be a multiple of " + std::to_string(unitCols) + " for " + type + ", got " + formatNumber(cols));
  }
  entry.weight.rowBytes = entry.weight.cols / info.blockValues * info.blockBytes;
  const int64_t available = static_cast<int64_t>(held->memory->numBytes()) - offset;
  entry.weight.isPacked = isPacked;
  const int64_t needed = isPacked ? packedBytes(entry.weight.type, entry.weight.rows, entry.weight.cols)
                                  : saturatedProduct(entry.weight.rows, entry.weight.rowBytes);
  if (needed > available) {
    failArgument("createWeight: expected " + std::to_string(needed) + " bytes at offset " + std::to_string(offset) + ", got " +
                 std::to_string(available < 0 ? 0 : available));
  }
  entry.weight.data = held->memory->data() + offset;
  return handles_.add(std::move(entry));
}

double Device::createWeightStack(const std::vector<double>& weights) {
  if (weights.empty()) failArgument("createWeightStack: expected at least one weight, got none");
  HandleEntry entry;
  entry.kind = HandleKind::WeightStack;
  for (const double handle : weights) {
    const HandleEntry* found = handles_.find(handle, HandleKind::Weight);
    if (found == nullptr) refuseHandle("createWeightStack", "weight", handle);
    const WeightRef& weight = found->weight;
    const WeightRef& first = entry.stack.empty() ? weight : entry.stack[0];
    if (weight.type != first.type || weight.rows != first.rows || weight.cols != first.cols || weight.isPacked != first.isPacked) {
      failArgument("createWeightStack: expected weights of one type and shape, got another at index " + std::to_string(entry.stack.size()));
    }
    entry.stack.push_back(weight);
    if (std::find(entry.sources.begin(), entry.sources.end(), found->source) == entry.sources.end()) entry.sources.push_back(found->source);
  }
  return handles_.add(std::move(entry));
}

void Device::releaseWeight(double handle) {
  const bool isWeight = handles_.find(handle, HandleKind::Weight) != nullptr || handles_.find(handle, HandleKind::WeightStack) != nullptr;
  if (!isWeight) refuseHandle("releaseWeight", "weight", handle);
  handles_.remove(handle);
}

void Device::submit(const double* words, int64_t numWords) {
  Plan& plan = pool_.nextPlan();
  DecodeMemo memo{plan, pool_.numThreads(), sharesKvReads_};
  for (int64_t at = 0; at < numWords;) {
    const double opcode = words[at];
    if (!(opcode >= 0 && opcode < kNumOps && std::floor(opcode) == opcode)) refuseWord("an opcode", at, opcode);
    const OpCode code = static_cast<OpCode>(opcode);
    const int numArgs = kNumOperands[static_cast<int>(code)];
    if (numWords - at < kHeaderWords + numArgs) refuseWord("a whole operation", at, static_cast<double>(numWords - at));
    const double flags = words[at + 1];
    if (flags != 0 && flags != kConcurrentFlag) refuseWord("flags 0 or 1", at + 1, flags);
    if (words[at + 2] != numArgs) refuseWord(("numArgs " + std::to_string(numArgs)).c_str(), at + 2, words[at + 2]);
    plan.ops.push_back(decodeOp(code, handles_, words + at + kHeaderWords, memo));
    // Layers share one schedule and its workspace, so one attention ends before the next begins.
    plan.ops.back().isConcurrent = flags == kConcurrentFlag && code != OpCode::pagedAttention;
    at += kHeaderWords + numArgs;
  }
  pool_.run();
  requireReadable();
  kvBytesRead_ += memo.kvBytesRead;
  kvBytesUnshared_ += memo.kvBytesUnshared;
}

}  // namespace millrace
