// A decoded program cut into stages and chunks. Everything of a stage may run at once; the next stage starts when it is
// complete.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "../kernels/ops.h"
#include "attention_schedule.h"

namespace millrace {

struct Stage {
  uint32_t firstOp = 0;
  uint32_t numOps = 0;
  // Too small to share: thread 0 runs the operations in order, without barriers between them.
  bool isSolo = false;
  int64_t numChunks = 0;
  alignas(64) std::atomic<int64_t> nextChunk{0};
  alignas(64) std::atomic<int64_t> numDone{0};
};

struct Plan {
  std::vector<Op> ops;
  std::unique_ptr<Stage[]> stages;
  size_t numStages = 0;
  size_t stageCapacity = 0;
  // At least one stage is worth other threads.
  bool needsThreads = false;
  int64_t scratchBytes = 0;
  // Workspace of all operations together, because they may run at the same time.
  int64_t workspaceBytes = 0;
  // Worker threads that are looking at this plan; it is rewritten only at 0.
  alignas(64) std::atomic<int> numUsers{0};

  void clear();
  // Memory for the cut of one attention operation, kept until clear().
  AttentionSchedule& nextSchedule();
  // Groups plan.ops into stages for `numThreads` threads.
  void cut(int numThreads);
  // Gives every operation its share of `memory` (workspaceBytes, 64-byte aligned) and zeroes the parts that need it.
  void assignWorkspace(std::byte* memory);

 private:
  std::vector<std::unique_ptr<AttentionSchedule>> schedules_;
  size_t numSchedules_ = 0;

  void addStage(uint32_t firstOp, uint32_t endOp, double nanos, int numThreads);
};

}  // namespace millrace
