// Cutting: the amount of work decides which threads run an operation, never its result.
#include "plan.h"

#include <cstring>

namespace millrace {

namespace {
// Below this much work a stage is not worth a second thread.
constexpr double kSoloNanos = 4000;
constexpr double kMinChunkNanos = 1500;
// Chunks per thread: more even out a thread that loses its core, fewer cost less claiming.
constexpr int64_t kChunksPerThread = 8;

int64_t roundedToLine(int64_t numBytes) { return (numBytes + 63) / 64 * 64; }

double nanosOf(const Op& op) { return static_cast<double>(op.numUnits) * op.nanosPerUnit; }

int64_t unitsPerChunk(const Op& op, int numThreads) {
  const int64_t numChunks = kChunksPerThread * numThreads;
  int64_t units = (op.numUnits + numChunks - 1) / numChunks;
  if (op.maxUnitsPerChunk > 0 && units > op.maxUnitsPerChunk) units = op.maxUnitsPerChunk;
  const int64_t smallest = static_cast<int64_t>(kMinChunkNanos / (op.nanosPerUnit + 1e-3)) + 1;
  if (units < smallest) units = smallest;
  return units < 1 ? 1 : units;
}
}  // namespace

void Plan::clear() {
  ops.clear();
  numStages = 0;
  needsThreads = false;
  scratchBytes = 0;
  workspaceBytes = 0;
  numSchedules_ = 0;
}

AttentionSchedule& Plan::nextSchedule() {
  if (numSchedules_ == schedules_.size()) schedules_.push_back(std::make_unique<AttentionSchedule>());
  return *schedules_[numSchedules_++];
}

void Plan::addStage(uint32_t firstOp, uint32_t endOp, double nanos, int numThreads) {
  int64_t numUnits = 0;
  for (uint32_t i = firstOp; i < endOp; i++) numUnits += ops[i].numUnits;
  const bool isSolo = numThreads == 1 || nanos < kSoloNanos || numUnits <= 1;
  if (isSolo && numStages > 0 && stages[numStages - 1].isSolo) {
    stages[numStages - 1].numOps += endOp - firstOp;
    return;
  }
  Stage& stage = stages[numStages++];
  stage.firstOp = firstOp;
  stage.numOps = endOp - firstOp;
  stage.isSolo = isSolo;
  stage.numChunks = 1;
  stage.nextChunk.store(0, std::memory_order_relaxed);
  stage.numDone.store(0, std::memory_order_relaxed);
  if (isSolo) return;
  needsThreads = true;
  stage.numChunks = 0;
  for (uint32_t i = firstOp; i < endOp; i++) {
    Op& op = ops[i];
    op.unitsPerChunk = unitsPerChunk(op, numThreads);
    op.firstChunk = stage.numChunks;
    stage.numChunks += (op.numUnits + op.unitsPerChunk - 1) / op.unitsPerChunk;
  }
}

void Plan::cut(int numThreads) {
  if (stageCapacity < ops.size()) {
    stageCapacity = ops.size() * 2;
    stages.reset(new Stage[stageCapacity]);
  }
  uint32_t firstOp = 0;
  double nanos = 0;
  for (uint32_t i = 0; i < ops.size(); i++) {
    nanos += nanosOf(ops[i]);
    if (ops[i].scratchBytes > scratchBytes) scratchBytes = ops[i].scratchBytes;
    workspaceBytes += roundedToLine(ops[i].workspaceBytes);
    if (ops[i].isConcurrent && i + 1 < ops.size()) continue;
    addStage(firstOp, i + 1, nanos, numThreads);
    firstOp = i + 1;
    nanos = 0;
  }
}

void Plan::assignWorkspace(std::byte* memory) {
  for (Op& op : ops) {
    if (op.workspaceBytes == 0) continue;
    op.workspace = memory;
    memset(memory, 0, static_cast<size_t>(op.clearedBytes));
    memory += roundedToLine(op.workspaceBytes);
  }
}

}  // namespace millrace
