// Cuts a step's attention into tasks: which rows are computed side by side over which parts. Rows of one sequence, and
// rows of sequences whose tables begin with the same blocks, read those blocks once; long ranges are split over
// threads. Decides which thread computes what, never what is computed: a row's parts and the order of their merging are
// the same in every cut.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "../kernels/paged_attention.h"

namespace millrace {

class AttentionSchedule {
 public:
  // For rows, tables and geometry of `args`, which are checked. Without `sharesReads` every sequence reads its own
  // blocks.
  void build(const PagedAttentionArgs& args, int numThreads, bool sharesReads);

  const AttentionWork* work() const { return &work_; }
  int64_t numUnits() const { return static_cast<int64_t>(bundleEnds_.size()); }
  // Rough time of the whole operation.
  double nanos() const { return nanos_; }
  // Stored bytes of K and V that the tasks read, and that they would if no sequence shared its reads with another.
  int64_t kvBytesRead() const { return kvBytesRead_; }
  int64_t kvBytesUnshared() const { return kvBytesUnshared_; }

 private:
  // Neighbouring rows of one sequence: the smallest thing that is cut.
  struct Tile {
    int32_t firstRow;
    int32_t numRows;
    int32_t sequence;
    int32_t partBegin;
    int32_t partEnd;
    int32_t numSharable;  // leading parts that all its rows see whole
    int64_t numEntries;   // that some of its rows see
  };

  void formTiles(const PagedAttentionArgs& args);
  void emitTile(const Tile& tile, int32_t partBegin, int32_t partEnd);
  // Tasks of the candidates: shared parts together, the rest one by one.
  void emitShared(const PagedAttentionArgs& args);
  // order_[lo..hi) agree in their first `from` parts, which are emitted already.
  void emitRun(const PagedAttentionArgs& args, size_t lo, size_t hi, int32_t from);
  // Cuts tasks that cost more than a thread's fair piece; returns the number of slots that takes.
  int64_t splitTasks(const PagedAttentionArgs& args, int numThreads);
  int64_t assignSlots(int64_t numRows);
  void bundle(const PagedAttentionArgs& args, int numThreads);
  // Entries of the task's range that some of its rows sees.
  int64_t entriesOf(const PagedAttentionArgs& args, const AttentionTask& task) const;
  double nanosOf(const PagedAttentionArgs& args, const AttentionTask& task) const;

  std::vector<Tile> tiles_;
  std::vector<const Tile*> order_;
  std::vector<int32_t> common_;  // parts that order_[i] and order_[i + 1] have in common
  std::vector<AttentionTask> tasks_;
  std::vector<AttentionTask> pieces_;
  std::vector<int32_t> rows_;
  std::vector<int32_t> numTasksOfRow_;
  std::vector<int32_t> firstEndOfRow_;
  std::vector<int32_t> endOfRow_;
  std::vector<int32_t> splitOfRow_;
  std::vector<AttentionSplit> splits_;
  std::vector<int32_t> pending_;
  std::vector<int64_t> bundleEnds_;
  std::vector<float> slots_;
  AttentionWork work_{};
  double nanos_ = 0;
  int64_t kvBytesRead_ = 0;
  int64_t kvBytesUnshared_ = 0;
};

}  // namespace millrace
