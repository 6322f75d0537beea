// Decoding of `pagedAttention`. Block tables are the same for every layer: those checked and cut for one layer of a
// program are remembered for the next.
#include "operands.h"

namespace millrace {

// Every table entry that a visible position reads must be a block of the cache. Neighbouring rows of one sequence
// mostly see the same entries: only what a row adds to the range checked before it is looked at.
static void checkTables(const Operands<ops::pagedAttention>& in, const PagedAttentionArgs& args, int64_t numSequences, int64_t numBlocks) {
  int64_t checkedSequence = -1;
  int64_t checkedFirst = 0;
  int64_t checkedEnd = 0;
  for (int64_t m = 0; m < args.numRows; m++) {
    const int64_t length = args.kvLengths[m];
    const int64_t sequence = args.sequenceIndex[m];
    if (length < 0 || length > args.tableStride * args.kv.blockSize) {
      in.refuse(ops::pagedAttention::kvLengths, "in [0, " + std::to_string(args.tableStride * args.kv.blockSize) + "] at row " + std::to_string(m), static_cast<double>(length));
    }
    if (sequence < 0 || sequence >= numSequences) {
      in.refuse(ops::pagedAttention::sequenceIndex, "in [0, " + std::to_string(numSequences) + ") at row " + std::to_string(m), static_cast<double>(sequence));
    }
    const int64_t start = attentionBegin(args, m);
    if (start < 0 || start > length) {
      in.refuse(ops::pagedAttention::begins, "in [0, " + std::to_string(length) + "] at row " + std::to_string(m), static_cast<double>(start));
    }
    const int64_t first = start / args.kv.blockSize;
    const int64_t end = (length + args.kv.blockSize - 1) / args.kv.blockSize;
    const bool isContinued = sequence == checkedSequence && first >= checkedFirst && first <= checkedEnd;
    const int32_t* table = args.blockTables + sequence * args.tableStride;
    for (int64_t i = isContinued ? checkedEnd : first; i < end; i++) {
      if (table[i] < 0 || table[i] >= numBlocks) {
        in.refuse(ops::pagedAttention::blockTables, "in [0, " + std::to_string(numBlocks) + ") at sequence " + std::to_string(sequence) + ", entry " + std::to_string(i), table[i]);
      }
    }
    if (!isContinued) {
      checkedFirst = first;
      checkedEnd = end;
    } else if (end > checkedEnd) {
      checkedEnd = end;
    }
    checkedSequence = sequence;
  }
}

// The same rows, tables and sizes: cut the same way.
static bool isSameWork(const PagedAttentionArgs& a, const PagedAttentionArgs& b) {
  return a.kvLengths == b.kvLengths && a.sequenceIndex == b.sequenceIndex && a.blockTables == b.blockTables && a.tableStride == b.tableStride &&
         a.numRows == b.numRows && a.window == b.window && a.begins == b.begins && a.kv.numHeads == b.kv.numHeads && a.kv.numKvHeads == b.kv.numKvHeads &&
         a.kv.headDim == b.kv.headDim && a.kv.blockSize == b.kv.blockSize && a.kv.type == b.kv.type && a.latentDim == b.latentDim;
}

// The schedule for `args`, whose tables are checked against caches of numBlocks blocks: an earlier layer's, or a new
// one.
static const AttentionSchedule& scheduleFor(const Operands<ops::pagedAttention>& in, const PagedAttentionArgs& args, int64_t numSequences, int64_t numBlocks, DecodeMemo& memo) {
  for (DecodeMemo::Attention& known : memo.attention) {
    if (!isSameWork(known.args, args)) continue;
    if (numBlocks < known.numBlocks) {
      checkTables(in, args, numSequences, numBlocks);
      known.numBlocks = numBlocks;
    }
    return *known.schedule;
  }
  checkTables(in, args, numSequences, numBlocks);
  AttentionSchedule& schedule = memo.plan.nextSchedule();
  schedule.build(args, memo.numThreads, memo.sharesKvReads);
  memo.attention.push_back({args, numBlocks, &schedule});
  return schedule;
}

Op decode(const Operands<ops::pagedAttention>& in, DecodeMemo& memo) {
  using ops::pagedAttention;
  PagedAttentionArgs args{};
  args.tableStride = in.integer(pagedAttention::tableStride, 1);
  args.numRows = in.integer(pagedAttention::numRows);
  args.kv = readKvGeometry(in);
  args.scale = static_cast<float>(in.number(pagedAttention::scale));
  args.window = in.integer(pagedAttention::window);
  args.cap = static_cast<float>(in.number(pagedAttention::cap));
  if (!(args.cap >= 0)) in.refuse(pagedAttention::cap, "at least 0", args.cap);
  args.latentDim = in.integer(pagedAttention::latentDim, 0, args.kv.headDim);
  args.out = in.buffer(pagedAttention::out, saturatedProduct(args.numRows, args.kv.numHeads, args.valueDim()));
  args.q = in.buffer(pagedAttention::q, saturatedProduct(args.numRows, args.kv.numHeads, args.kv.headDim));
  args.sinks = in.optionalBuffer(pagedAttention::sinks, args.kv.numHeads);
  int64_t numBlocks = INT64_MAX;
  args.keyCache = in.kvCache(pagedAttention::keyCache, args.kv, &numBlocks);
  args.valueCache = in.kvCache(pagedAttention::valueCache, args.kv, &numBlocks);
  args.kvLengths = in.buffer(pagedAttention::kvLengths, args.numRows);
  args.sequenceIndex = in.buffer(pagedAttention::sequenceIndex, args.numRows);
  int64_t numTableEntries;
  args.blockTables = in.whole(pagedAttention::blockTables, &numTableEntries);
  args.begins = in.optionalBuffer(pagedAttention::begins, args.numRows);
  in.requireApart(pagedAttention::out, pagedAttention::kvLengths);
  if (args.begins != nullptr) in.requireApart(pagedAttention::out, pagedAttention::begins);
  in.requireApart(pagedAttention::out, pagedAttention::sequenceIndex);
  in.requireApart(pagedAttention::out, pagedAttention::blockTables);
  if (args.sinks != nullptr) in.requireApart(pagedAttention::out, pagedAttention::sinks);
  const AttentionSchedule& schedule = scheduleFor(in, args, numTableEntries / args.tableStride, numBlocks, memo);
  memo.kvBytesRead += schedule.kvBytesRead();
  memo.kvBytesUnshared += schedule.kvBytesUnshared();
  args.work = schedule.work();
  const int64_t numUnits = schedule.numUnits();
  const double nanosPerUnit = numUnits > 0 ? schedule.nanos() / static_cast<double>(numUnits) : 0;
  return makeOp(OpCode::pagedAttention, args, numUnits, nanosPerUnit, attentionScratchBytes(args.kv));
}

}  // namespace millrace
