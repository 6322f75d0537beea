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

static bool isCheckedAlready(const DecodeMemo& memo, const PagedAttentionArgs& args, int64_t numBlocks) {
  const PagedAttentionArgs& before = memo.attention;
  return memo.attentionBlocks >= 0 && numBlocks >= memo.attentionBlocks && before.kvLengths == args.kvLengths &&
         before.sequenceIndex == args.sequenceIndex && before.blockTables == args.blockTables && before.tableStride == args.tableStride &&
         before.numRows == args.numRows && before.kv.blockSize == args.kv.blockSize && before.window == args.window;
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
  if (!isCheckedAlready(memo, args, numBlocks)) {
    checkTables(in, args, numTableEntries / args.tableStride, numBlocks);
    memo.attention = args;
    memo.attentionBlocks = numBlocks;
  }
  double numVisible = 0;
  for (int64_t m = 0; m < args.numRows; m++) {
    const int64_t length = args.kvLengths[m];
    numVisible += static_cast<double>(args.window > 0 && length > args.window ? args.window : length);
  }
  const int64_t rowsPerUnit = attentionRowsPerUnit(args.numRows);
  const int64_t numUnits = (args.numRows + rowsPerUnit - 1) / rowsPerUnit * args.kv.numKvHeads;
  const double nanos = numVisible * static_cast<double>(args.kv.numHeads * args.kv.headDim) * 0.1 + 200.0 * static_cast<double>(numUnits);
  Op op = makeOp(OpCode::pagedAttention, numUnits, numUnits > 0 ? nanos / static_cast<double>(numUnits) : 0, attentionScratchBytes(args.kv, args.numRows));
  op.pagedAttention = args;
  return op;
}

}  // namespace millrace
