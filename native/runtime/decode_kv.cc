// Decoding of the operations on the paged cache. Slots and block tables are the same for every layer, so what was checked for one layer
// of a program is remembered for the next.
#include "operands.h"

namespace millrace {

Op decodeRopeAndWriteKv(const Operands& in, DecodeMemo& memo) {
  const int64_t numRows = in.integer(7, "numRows");
  RopeAndWriteKvArgs args{};
  args.kv = in.kvGeometry(8);
  args.half = in.integer(13, "half", 0, args.kv.headDim / 2);
  args.isNeox = in.integer(14, "isNeox", 0, 1) == 1;
  args.q = in.f32(0, "q", saturatedProduct(numRows, args.kv.numHeads, args.kv.headDim));
  args.k = in.f32(1, "k", saturatedProduct(numRows, args.kv.numKvHeads, args.kv.headDim));
  args.v = in.f32(2, "v", saturatedProduct(numRows, args.kv.numKvHeads, args.kv.headDim));
  args.table = in.f32(3, "table", saturatedProduct(numRows, args.half, 2));
  int64_t numBlocks = INT64_MAX;
  args.keyCache = in.kvCache(4, "keyCache", args.kv, &numBlocks);
  args.valueCache = in.kvCache(5, "valueCache", args.kv, &numBlocks);
  const int64_t numSlots = saturatedProduct(numBlocks, args.kv.blockSize);
  args.slots = in.i32(6, "slots", numRows);
  in.requireApart("q", args.q, "slots", args.slots);
  in.requireApart("k", args.k, "slots", args.slots);
  in.requireApart("keyCache", args.keyCache, "slots", args.slots);
  in.requireApart("valueCache", args.valueCache, "slots", args.slots);
  if (memo.slots != args.slots || memo.numSlotRows < numRows || memo.numSlots < 0 || numSlots < memo.numSlots) {
    in.indices(6, "slots", numRows, -1, numSlots - 1);
    memo.slots = args.slots;
    memo.numSlotRows = numRows;
    memo.numSlots = numSlots;
  }
  const double valuesPerRow = static_cast<double>((args.kv.numHeads + 2 * args.kv.numKvHeads) * args.kv.headDim);
  Op op = makeOp(OpCode::ropeAndWriteKv, numRows, valuesPerRow * 1.0 + 20);
  op.ropeAndWriteKv = args;
  return op;
}

// Every table entry that a visible position reads must be a block of the cache. Neighbouring rows of one sequence mostly see the same
// entries: only what a row adds to the range checked before it is looked at.
static void checkTables(const Operands& in, const PagedAttentionArgs& args, int64_t numSequences, int64_t numBlocks) {
  int64_t checkedSequence = -1;
  int64_t checkedFirst = 0;
  int64_t checkedEnd = 0;
  for (int64_t m = 0; m < args.numRows; m++) {
    const int64_t length = args.kvLengths[m];
    const int64_t sequence = args.sequenceIndex[m];
    if (length < 0 || length > args.tableStride * args.kv.blockSize) {
      in.refuse("kvLengths", "in [0, " + std::to_string(args.tableStride * args.kv.blockSize) + "] at row " + std::to_string(m), static_cast<double>(length));
    }
    if (sequence < 0 || sequence >= numSequences) {
      in.refuse("sequenceIndex", "in [0, " + std::to_string(numSequences) + ") at row " + std::to_string(m), static_cast<double>(sequence));
    }
    const int64_t start = args.window > 0 && length > args.window ? length - args.window : 0;
    const int64_t first = start / args.kv.blockSize;
    const int64_t end = (length + args.kv.blockSize - 1) / args.kv.blockSize;
    const bool isContinued = sequence == checkedSequence && first >= checkedFirst && first <= checkedEnd;
    const int32_t* table = args.blockTables + sequence * args.tableStride;
    for (int64_t i = isContinued ? checkedEnd : first; i < end; i++) {
      if (table[i] < 0 || table[i] >= numBlocks) {
        in.refuse("blockTables", "in [0, " + std::to_string(numBlocks) + ") at sequence " + std::to_string(sequence) + ", entry " + std::to_string(i), table[i]);
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
         a.numRows == b.numRows && a.window == b.window && a.kv.numHeads == b.kv.numHeads && a.kv.numKvHeads == b.kv.numKvHeads &&
         a.kv.headDim == b.kv.headDim && a.kv.blockSize == b.kv.blockSize && a.kv.type == b.kv.type;
}

// The schedule for `args`, whose tables are checked against caches of numBlocks blocks: an earlier layer's, or a new one.
static const AttentionSchedule& scheduleFor(const Operands& in, const PagedAttentionArgs& args, int64_t numSequences, int64_t numBlocks, DecodeMemo& memo) {
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

Op decodePagedAttention(const Operands& in, DecodeMemo& memo) {
  PagedAttentionArgs args{};
  args.tableStride = in.integer(7, "tableStride", 1);
  args.numRows = in.integer(8, "numRows");
  args.kv = in.kvGeometry(9);
  args.scale = static_cast<float>(in.number(14, "scale"));
  args.window = in.integer(15, "window");
  const int64_t numValues = saturatedProduct(args.numRows, args.kv.numHeads, args.kv.headDim);
  args.out = in.f32(0, "out", numValues);
  args.q = in.f32(1, "q", numValues);
  int64_t numBlocks = INT64_MAX;
  args.keyCache = in.kvCache(2, "keyCache", args.kv, &numBlocks);
  args.valueCache = in.kvCache(3, "valueCache", args.kv, &numBlocks);
  args.kvLengths = in.i32(4, "kvLengths", args.numRows);
  args.sequenceIndex = in.i32(5, "sequenceIndex", args.numRows);
  int64_t numTableEntries;
  args.blockTables = in.whole<int32_t>(6, "blockTables", &numTableEntries);
  in.requireApart("out", args.out, "kvLengths", args.kvLengths);
  in.requireApart("out", args.out, "sequenceIndex", args.sequenceIndex);
  in.requireApart("out", args.out, "blockTables", args.blockTables);
  const AttentionSchedule& schedule = scheduleFor(in, args, numTableEntries / args.tableStride, numBlocks, memo);
  memo.kvBytesRead += schedule.kvBytesRead();
  memo.kvBytesUnshared += schedule.kvBytesUnshared();
  args.work = schedule.work();
  const int64_t numUnits = schedule.numUnits();
  Op op = makeOp(OpCode::pagedAttention, numUnits, numUnits > 0 ? schedule.nanos() / static_cast<double>(numUnits) : 0, attentionScratchBytes(args.kv));
  op.pagedAttention = args;
  return op;
}

}  // namespace millrace
