// Handles: numbers that name a buffer, a mapped file or a weight. A handle is generation · 2^24 + slot + 1, so a
// released one is recognised even after its slot was given away again, and one of a kind never passes for another.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "../kernels/ops.h"
#include "memory.h"

namespace millrace {

enum class HandleKind : uint8_t { None, Buffer, File, Weight, WeightStack };

struct HandleEntry {
  HandleKind kind = HandleKind::None;
  uint32_t generation = 0;
  std::shared_ptr<Memory> memory;  // buffers and files
  WeightRef weight{};              // weights
  double source = 0;               // the buffer or file a weight lies in
  std::vector<WeightRef> stack;    // weight stacks: one for each expert
  std::vector<double> sources;     // weight stacks: the buffers and files they lie in
};

class HandleTable {
 public:
  double add(HandleEntry entry);
  // Null when `handle` is not alive.
  HandleEntry* find(double handle);
  HandleEntry* find(double handle, HandleKind kind);
  void remove(double handle);
  // Entries of all live handles.
  const std::vector<HandleEntry>& entries() const { return entries_; }
  void clear();

 private:
  std::vector<HandleEntry> entries_;
  std::vector<uint32_t> free_;
};

}  // namespace millrace
