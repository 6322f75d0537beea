// The arguments of `pagedAttention`: its decoded operands, and the work that runtime/attention_schedule.cc cuts them
// into.
#pragma once
#include <cstdint>

#include "kv_cache.h"

namespace millrace {

// Rows that read the same stored entries in parts [partBegin, partEnd).
struct AttentionTask {
  int32_t firstRow;  // numRows entries of AttentionWork::rows from here
  int32_t numRows;
  int32_t partBegin;
  int32_t partEnd;
  int32_t isFirst;  // begins with its rows' first part
};

// A row whose parts several tasks compute. Its results lie in `slots`: the first task's parts merged, then every later
// part apart.
struct AttentionSplit {
  int32_t numTasks;
  int32_t firstTaskEnd;  // the first task's partEnd
  int32_t numSlots;
  int32_t firstSlot;
};

// How a step's attention is cut (runtime/attention_schedule.h); decides threads and order, never results.
struct AttentionWork {
  const AttentionTask* tasks;
  int64_t numTasks;
  const int32_t* rows;
  const int64_t* bundleEnds;    // [numBundles]: a unit of work is the (head, task) pairs up to here, as kvHead · numTasks + task
  const int32_t* splitOfRow;    // [M] index into splits, or −1 where one task does all
  const AttentionSplit* splits;
  float* slots;                 // [numSlots, numHeads, slotFloats]
  int64_t slotFloats;
  int32_t* pending;             // [numSplits, numKvHeads] tasks left; the thread that brings it to 0 merges, and resets it
};

struct PagedAttentionArgs {
  float* out;      // [M, numHeads, valueDim()]
  const float* q;  // [M, numHeads, headDim]
  const uint8_t* keyCache;
  const uint8_t* valueCache;
  const int32_t* kvLengths;      // [M]
  const int32_t* sequenceIndex;  // [M]
  const int32_t* blockTables;    // [*, tableStride]
  int64_t tableStride;
  int64_t numRows;  // M
  KvGeometry kv;
  float scale;
  float cap;       // of scores; 0 = none
  const float* sinks;  // [numHeads] or null
  int64_t window;  // 0 = unlimited
  const int32_t* begins;  // [M] first visible entries; null: as the window says
  int64_t latentDim;  // values are the last numbers of keys; 0: they have a cache of their own
  const AttentionWork* work;

  bool isLatent() const { return latentDim > 0; }
  int64_t valueDim() const { return isLatent() ? latentDim : kv.headDim; }
  // Stored bytes of one entry's key and value of one head.
  int64_t bytesPerEntry() const { return (isLatent() ? 1 : 2) * kv.entryBytes(); }
};

// The first entry that row m sees.
inline int64_t attentionBegin(const PagedAttentionArgs& args, int64_t m) {
  if (args.begins != nullptr) return args.begins[m];
  const int64_t length = args.kvLengths[m];
  return args.window > 0 && length > args.window ? length - args.window : 0;
}

// Rows of one attention task at most: their queries share each widened key and value, and their scores stay in the
// second-level cache.
constexpr int64_t attentionTaskRows(const KvGeometry& kv) {
  const int64_t group = kv.numHeads / kv.numKvHeads;
  return group >= 64 ? 1 : 64 / group;
}
// In whole vectors of any instruction set.
constexpr int64_t attentionPaddedDim(const KvGeometry& kv) { return (kv.headDim + 15) / 16 * 16; }
// Per query: scores, q, the part's output, the output so far and bookkeeping; and one chunk of widened keys or values.
constexpr int64_t attentionScratchBytes(const KvGeometry& kv) {
  const int64_t numQueries = kv.numHeads / kv.numKvHeads * attentionTaskRows(kv);
  return 4 * (numQueries * (kAttentionPart + 16 + 3 * attentionPaddedDim(kv) + 32) + 64 * attentionPaddedDim(kv));
}

}  // namespace millrace
