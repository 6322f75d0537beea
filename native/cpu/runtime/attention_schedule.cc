// Costs are nanoseconds on one thread of a recent core; they only steer how work is cut.
#include "attention_schedule.h"

#include <algorithm>

namespace millrace {

namespace {

constexpr double kNanosPerMac = 0.02;
constexpr double kNanosPerByte = 0.06;
// Bundles per thread, and pieces no smaller than that: more even out a thread that loses its core, fewer cost less
// merging.
constexpr int64_t kBundlesPerThread = 8;
constexpr double kMinBundleNanos = 2000;
// Results of parts that are kept apart may take this much memory; a step that would need more is cut without splitting
// or sharing.
constexpr int64_t kMaxSlotBytes = int64_t{128} << 20;

int32_t partsIn(int64_t numEntries) { return static_cast<int32_t>((numEntries + kAttentionPart - 1) / kAttentionPart); }

int64_t slotFloats(const PagedAttentionArgs& args) { return attentionPaddedDim(args.kv) + 8; }

}  // namespace

void AttentionSchedule::build(const PagedAttentionArgs& args, int numThreads, bool sharesReads) {
  const auto cut = [&](int threads, bool isSharing) {
    tasks_.clear();
    rows_.clear();
    formTiles(args);
    for (const Tile& tile : tiles_) {
      if (!isSharing || tile.numSharable == 0) emitTile(tile, tile.partBegin, tile.partEnd);
    }
    if (isSharing) emitShared(args);
    return splitTasks(args, threads);
  };
  const int64_t slotBytes = args.kv.numHeads * slotFloats(args) * 4;
  int64_t numSlots = cut(numThreads, sharesReads);
  if (numSlots * slotBytes > kMaxSlotBytes) numSlots = cut(1, false);
  slots_.resize(static_cast<size_t>(numSlots * args.kv.numHeads * slotFloats(args)));
  bundle(args, numThreads);

  const int64_t entryBytes = args.bytesPerEntry() * args.kv.numKvHeads;
  kvBytesRead_ = 0;
  kvBytesUnshared_ = 0;
  for (const AttentionTask& task : tasks_) kvBytesRead_ += entriesOf(args, task) * entryBytes;
  for (const Tile& tile : tiles_) kvBytesUnshared_ += tile.numEntries * entryBytes;
  work_ = {tasks_.data(), static_cast<int64_t>(tasks_.size()), rows_.data(), bundleEnds_.data(), splitOfRow_.data(), splits_.data(),
           slots_.data(), slotFloats(args), pending_.data()};
}

void AttentionSchedule::formTiles(const PagedAttentionArgs& args) {
  const int64_t maxRows = attentionTaskRows(args.kv);
  tiles_.clear();
  for (int64_t m = 0; m < args.numRows;) {
    const int64_t first = m;
    int64_t begin = INT64_MAX;
    int64_t shortest = INT64_MAX;
    int64_t longest = 0;
    bool isWindowed = false;
    for (; m < args.numRows && m - first < maxRows && args.sequenceIndex[m] == args.sequenceIndex[first]; m++) {
      // Between ranges that lie apart there may be table entries that no task reads, and that were not checked.
      if (m > first && (attentionBegin(args, m) > longest || args.kvLengths[m] < begin)) break;
      begin = std::min(begin, attentionBegin(args, m));
      isWindowed = isWindowed || attentionBegin(args, m) > 0;
      shortest = std::min<int64_t>(shortest, args.kvLengths[m]);
      longest = std::max<int64_t>(longest, args.kvLengths[m]);
    }
    // A tile that fills a task by itself gains nothing by company.
    const bool isSharable = !isWindowed && 2 * (m - first) <= maxRows;
    tiles_.push_back({static_cast<int32_t>(first), static_cast<int32_t>(m - first), args.sequenceIndex[first],
                      static_cast<int32_t>(begin / kAttentionPart), partsIn(longest),
                      isSharable ? static_cast<int32_t>(shortest / kAttentionPart) : 0, longest - std::min(begin, longest)});
  }
}

void AttentionSchedule::emitTile(const Tile& tile, int32_t partBegin, int32_t partEnd) {
  const int32_t firstRow = static_cast<int32_t>(rows_.size());
  for (int32_t i = 0; i < tile.numRows; i++) rows_.push_back(tile.firstRow + i);
  tasks_.push_back({firstRow, tile.numRows, partBegin, partEnd, partBegin == tile.partBegin});
}

void AttentionSchedule::emitShared(const PagedAttentionArgs& args) {
  const auto tableOf = [&](const Tile* tile) { return args.blockTables + tile->sequence * args.tableStride; };
  // Blocks that lie wholly within the sharable parts; a block that reaches beyond them is compared too.
  const auto numBlocks = [&](const Tile* tile) { return (tile->numSharable * kAttentionPart + args.kv.blockSize - 1) / args.kv.blockSize; };
  order_.clear();
  for (const Tile& tile : tiles_) {
    if (tile.numSharable > 0) order_.push_back(&tile);
  }
  if (order_.empty()) return;
  std::sort(order_.begin(), order_.end(), [&](const Tile* a, const Tile* b) {
    const int32_t* left = tableOf(a);
    const int32_t* right = tableOf(b);
    const auto [l, r] = std::mismatch(left, left + numBlocks(a), right, right + numBlocks(b));
    if (l != left + numBlocks(a) && r != right + numBlocks(b)) return *l < *r;
    if (numBlocks(a) != numBlocks(b)) return numBlocks(a) < numBlocks(b);
    return a->firstRow < b->firstRow;
  });
  common_.clear();
  for (size_t i = 0; i + 1 < order_.size(); i++) {
    const int32_t* left = tableOf(order_[i]);
    const int32_t* right = tableOf(order_[i + 1]);
    const auto [l, r] = std::mismatch(left, left + numBlocks(order_[i]), right, right + numBlocks(order_[i + 1]));
    const int64_t numCommon = (l - left) * args.kv.blockSize / kAttentionPart;
    common_.push_back(static_cast<int32_t>(std::min<int64_t>({numCommon, order_[i]->numSharable, order_[i + 1]->numSharable})));
  }
  emitRun(args, 0, order_.size(), 0);
}

void AttentionSchedule::emitRun(const PagedAttentionArgs& args, size_t lo, size_t hi, int32_t from) {
  if (hi - lo == 1) {
    if (from < order_[lo]->partEnd) emitTile(*order_[lo], from, order_[lo]->partEnd);
    return;
  }
  const int32_t common = *std::min_element(common_.begin() + static_cast<int64_t>(lo), common_.begin() + static_cast<int64_t>(hi) - 1);
  if (common > from) {
    const int64_t maxRows = attentionTaskRows(args.kv);
    for (size_t i = lo; i < hi;) {
      AttentionTask task{static_cast<int32_t>(rows_.size()), 0, from, common, from == 0};
      for (; i < hi && (task.numRows == 0 || task.numRows + order_[i]->numRows <= maxRows); i++) {
        for (int32_t row = 0; row < order_[i]->numRows; row++) rows_.push_back(order_[i]->firstRow + row);
        task.numRows += order_[i]->numRows;
      }
      tasks_.push_back(task);
    }
  }
  for (size_t first = lo, i = lo; i < hi; i++) {
    if (i + 1 < hi && common_[i] > common) continue;
    emitRun(args, first, i + 1, common);
    first = i + 1;
  }
}

int64_t AttentionSchedule::splitTasks(const PagedAttentionArgs& args, int numThreads) {
  double total = 0;
  for (const AttentionTask& task : tasks_) total += nanosOf(args, task);
  nanos_ = total * static_cast<double>(args.kv.numKvHeads);
  if (numThreads > 1) {
    const double fair = std::max(nanos_ / static_cast<double>(kBundlesPerThread * numThreads), kMinBundleNanos);
    pieces_.clear();
    for (const AttentionTask& task : tasks_) {
      const int64_t numParts = task.partEnd - task.partBegin;
      const int64_t numPieces = std::min(std::max<int64_t>(numParts, 1), static_cast<int64_t>(nanosOf(args, task) / fair) + 1);
      for (int64_t i = 0; i < numPieces; i++) {
        AttentionTask piece = task;
        piece.partBegin = task.partBegin + static_cast<int32_t>(numParts * i / numPieces);
        piece.partEnd = task.partBegin + static_cast<int32_t>(numParts * (i + 1) / numPieces);
        piece.isFirst = task.isFirst != 0 && i == 0;
        pieces_.push_back(piece);
      }
    }
    tasks_.swap(pieces_);
  }
  return assignSlots(args.numRows);
}

int64_t AttentionSchedule::assignSlots(int64_t numRows) {
  const size_t count = static_cast<size_t>(numRows);
  numTasksOfRow_.assign(count, 0);
  firstEndOfRow_.assign(count, 0);
  endOfRow_.assign(count, 0);
  splitOfRow_.assign(count, -1);
  splits_.clear();
  for (const AttentionTask& task : tasks_) {
    for (int32_t i = task.firstRow; i < task.firstRow + task.numRows; i++) {
      const size_t row = static_cast<size_t>(rows_[static_cast<size_t>(i)]);
      numTasksOfRow_[row]++;
      endOfRow_[row] = std::max(endOfRow_[row], task.partEnd);
      if (task.isFirst != 0) firstEndOfRow_[row] = task.partEnd;
    }
  }
  int64_t numSlots = 0;
  for (size_t row = 0; row < count; row++) {
    if (numTasksOfRow_[row] < 2) continue;
    splitOfRow_[row] = static_cast<int32_t>(splits_.size());
    const int32_t numOwn = 1 + endOfRow_[row] - firstEndOfRow_[row];
    splits_.push_back({numTasksOfRow_[row], firstEndOfRow_[row], numOwn, static_cast<int32_t>(numSlots)});
    numSlots += numOwn;
  }
  return numSlots;
}

void AttentionSchedule::bundle(const PagedAttentionArgs& args, int numThreads) {
  pending_.clear();
  for (const AttentionSplit& split : splits_) pending_.insert(pending_.end(), static_cast<size_t>(args.kv.numKvHeads), split.numTasks);
  const double wanted = std::max(nanos_ / static_cast<double>(kBundlesPerThread * numThreads), kMinBundleNanos);
  bundleEnds_.clear();
  double nanos = 0;
  const int64_t numTasks = static_cast<int64_t>(tasks_.size());
  for (int64_t i = 0; i < numTasks * args.kv.numKvHeads; i++) {
    const double own = nanosOf(args, tasks_[static_cast<size_t>(i % numTasks)]);
    // Ends where that is closer to the wanted cost than going on would be.
    if (nanos > 0 && nanos + own / 2 > wanted) {
      bundleEnds_.push_back(i);
      nanos = 0;
    }
    nanos += own;
  }
  if (numTasks > 0) bundleEnds_.push_back(numTasks * args.kv.numKvHeads);
}

int64_t AttentionSchedule::entriesOf(const PagedAttentionArgs& args, const AttentionTask& task) const {
  int64_t begin = INT64_MAX;
  int64_t end = 0;
  for (int32_t i = task.firstRow; i < task.firstRow + task.numRows; i++) {
    const int32_t m = rows_[static_cast<size_t>(i)];
    begin = std::min(begin, attentionBegin(args, m));
    end = std::max<int64_t>(end, args.kvLengths[m]);
  }
  begin = std::max<int64_t>(begin, task.partBegin * kAttentionPart);
  end = std::min<int64_t>(end, task.partEnd * kAttentionPart);
  return std::max<int64_t>(end - begin, 0);
}

double AttentionSchedule::nanosOf(const PagedAttentionArgs& args, const AttentionTask& task) const {
  const double numEntries = static_cast<double>(entriesOf(args, task));
  const double macsPerEntry = static_cast<double>((args.kv.headDim + args.valueDim()) * (args.kv.numHeads / args.kv.numKvHeads) * task.numRows);
  const double bytesPerEntry = static_cast<double>(args.bytesPerEntry());
  return 200 + numEntries * (macsPerEntry * kNanosPerMac + bytesPerEntry * kNanosPerByte);
}

}  // namespace millrace
