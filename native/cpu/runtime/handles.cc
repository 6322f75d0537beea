// The handle table: a slot array with generations.
#include "handles.h"

#include "failure.h"

namespace millrace {

namespace {
constexpr uint32_t kSlotBits = 24;
constexpr double kMaxHandle = 9007199254740992.0;  // 2^53
}  // namespace

double HandleTable::add(HandleEntry entry) {
  uint32_t slot;
  if (free_.empty()) {
    slot = static_cast<uint32_t>(entries_.size());
    if (slot + 2 >= 1u << kSlotBits) throw Failure{kMemoryCode, "expected fewer than 2^24 handles, got as many"};
    entries_.emplace_back();
  } else {
    slot = free_.back();
    free_.pop_back();
  }
  entry.generation = entries_[slot].generation;
  entries_[slot] = std::move(entry);
  return static_cast<double>(static_cast<uint64_t>(entries_[slot].generation) << kSlotBits | (slot + 1));
}

HandleEntry* HandleTable::find(double handle) {
  if (!(handle >= 1 && handle < kMaxHandle)) return nullptr;
  const uint64_t bits = static_cast<uint64_t>(handle);
  if (static_cast<double>(bits) != handle) return nullptr;
  const uint64_t slotPlusOne = bits & ((1u << kSlotBits) - 1);
  if (slotPlusOne == 0 || slotPlusOne > entries_.size()) return nullptr;
  HandleEntry& entry = entries_[slotPlusOne - 1];
  return entry.kind != HandleKind::None && entry.generation == bits >> kSlotBits ? &entry : nullptr;
}

HandleEntry* HandleTable::find(double handle, HandleKind kind) {
  HandleEntry* entry = find(handle);
  return entry != nullptr && entry->kind == kind ? entry : nullptr;
}

void HandleTable::remove(double handle) {
  HandleEntry* entry = find(handle);
  if (entry == nullptr) return;
  const uint32_t slot = static_cast<uint32_t>(entry - entries_.data());
  const uint32_t nextGeneration = (entry->generation + 1) & 0x0fffffffu;
  *entry = HandleEntry{};
  entry->generation = nextGeneration;
  free_.push_back(slot);
}

void HandleTable::clear() {
  entries_.clear();
  free_.clear();
}

}  // namespace millrace
