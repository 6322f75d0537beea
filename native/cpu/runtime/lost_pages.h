// What becomes of a mapped file that is cut off, or whose disk fails, while it is read: touching a page that is not
// there any more raises SIGBUS, which would end the process without a word. Here the pages become zeros instead, the
// range is marked as lost, and a computation that read it can report that.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace millrace {

// A place in the table that the signal handler reads: used again, but never freed.
struct GuardedRange {
  std::atomic<uintptr_t> begin{0};
  std::atomic<uintptr_t> end{0};  // 0: free
  std::atomic<bool> isLost{false};
  GuardedRange* next = nullptr;
};

// From now on a fault in these whole pages marks the range as lost. Faults elsewhere go to the handler that was there
// before.
GuardedRange* guardRange(void* data, size_t numBytes);
// Before the range is unmapped.
void unguardRange(GuardedRange* range);
// Ranges lost since the process began: while it is 0, no range need be checked.
int numLostRanges();

}  // namespace millrace
