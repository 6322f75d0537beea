// pagedAttention: online softmax over fixed parts of the KV range. A unit is attentionRowsPerUnit rows for one KV head.
//
// What one query computes depends on its own q, visible range and stored K and V only: a score is one eight-lane walk over the head
// dimension; within a part (entries [256 i, 256 (i+1)) that are visible) the maximum and the sum are taken lane by lane, lane = position
// modulo 8, and V is accumulated entry by entry; parts are merged left to right. Doing several queries side by side, or finding entries
// in blocks of another size, changes no bit.
#include "kernel.h"
#include "math.h"

namespace millrace::MILLRACE_ISA {
namespace {

constexpr float kMinusInfinity = -__builtin_inff();
// Entries whose K or V stays in the first-level cache while all queries pass over them.
constexpr int64_t kEntryChunk = 64;

// A query's visible range and its softmax state so far.
struct Query {
  int64_t begin;
  int64_t end;
  float maximum;
  float sum;
  // Of the current part:
  float partMaximum;
  float partSum;
  bool isEmpty;  // no part contributed yet
};

// Everything a unit keeps in scratch; strides are in floats.
struct Work {
  int64_t numQueries;
  int64_t headDim;
  int64_t paddedDim;
  Query* queries;  // [numQueries]
  float* q;        // [numQueries, paddedDim], padded with zeros
  float* scores;   // [numQueries, kAttentionPart], by position in the part
  float* partOut;  // [numQueries, paddedDim]
  float* out;      // [numQueries, paddedDim]
  const uint8_t* keys[kAttentionPart];
  const uint8_t* values[kAttentionPart];
};

template <bool kIsHalf>
MILLRACE_INLINE f32x8 loadKv(const uint8_t* row, int64_t index) {
  return kIsHalf ? loadHalf8(row + 2 * index) : load8(reinterpret_cast<const float*>(row + 4 * index));
}

template <bool kIsHalf>
MILLRACE_INLINE f32x8 loadKvTail(const uint8_t* row, int64_t index, int64_t count) {
  if (!kIsHalf) return loadPartial8(reinterpret_cast<const float*>(row + 4 * index), count);
  uint8_t padded[16] = {};
  memcpy(padded, row + 2 * index, static_cast<size_t>(2 * count));
  return loadHalf8(padded);
}

// Scores of kQueries queries from `query` on against kEntries entries from part position `entry` on.
template <bool kIsHalf, int kQueries, int kEntries>
MILLRACE_INLINE void scoreTile(const Work& work, int64_t query, int64_t entry, float scale) {
  const float* q = work.q + query * work.paddedDim;
  f32x8 acc[kQueries][kEntries];
  MILLRACE_UNROLL
  for (int i = 0; i < kQueries; i++) {
    MILLRACE_UNROLL
    for (int e = 0; e < kEntries; e++) acc[i][e] = zero8();
  }
  int64_t d = 0;
  for (; d + 8 <= work.headDim; d += 8) {
    f32x8 qs[kQueries];
    MILLRACE_UNROLL
    for (int i = 0; i < kQueries; i++) qs[i] = load8(q + i * work.paddedDim + d);
    MILLRACE_UNROLL
    for (int e = 0; e < kEntries; e++) {
      const f32x8 k = loadKv<kIsHalf>(work.keys[entry + e], d);
      MILLRACE_UNROLL
      for (int i = 0; i < kQueries; i++) acc[i][e] = fma8(qs[i], k, acc[i][e]);
    }
  }
  if (d < work.headDim) {
    MILLRACE_UNROLL
    for (int e = 0; e < kEntries; e++) {
      const f32x8 k = loadKvTail<kIsHalf>(work.keys[entry + e], d, work.headDim - d);
      MILLRACE_UNROLL
      for (int i = 0; i < kQueries; i++) acc[i][e] = fma8(load8(q + i * work.paddedDim + d), k, acc[i][e]);
    }
  }
  MILLRACE_UNROLL
  for (int i = 0; i < kQueries; i++) {
    float* scores = work.scores + (query + i) * kAttentionPart + entry;
    MILLRACE_UNROLL
    for (int e = 0; e < kEntries; e += 4) {
      if (kEntries - e >= 4) {
        const f32x4 sums = sum4(acc[i][e], acc[i][(e + 1) % kEntries], acc[i][(e + 2) % kEntries], acc[i][(e + 3) % kEntries]);
        store4(scores + e, sums * f32x4{scale, scale, scale, scale});
      } else {
        MILLRACE_UNROLL
        for (int j = e; j < kEntries; j++) scores[j] = sum1(acc[i][j]) * scale;
      }
    }
  }
}

template <bool kIsHalf, int kQueries>
void scoreQueries(const Work& work, int64_t query, int64_t first, int64_t last, float scale) {
  constexpr int kEntries = 4;
  int64_t entry = first;
  for (; entry + kEntries <= last; entry += kEntries) scoreTile<kIsHalf, kQueries, kEntries>(work, query, entry, scale);
  for (; entry < last; entry++) scoreTile<kIsHalf, kQueries, 1>(work, query, entry, scale);
}

// Calls body(query, count) for groups of neighbouring queries: threes as far as they go, but four as two pairs.
template <typename Body>
MILLRACE_INLINE void forQueryGroups(int64_t numQueries, Body body) {
  for (int64_t query = 0; query < numQueries;) {
    const int64_t left = numQueries - query;
    const int64_t count = left == 4 ? 2 : minOf(left, 3);
    body(query, count);
    query += count;
  }
}

// Asks for stored rows [first, last) ahead of their use: blocks lie scattered, which hardware prefetchers do not follow.
void prefetchRows(const Work& work, const uint8_t* const* rows, int64_t first, int64_t last, bool isHalf) {
  const int64_t rowBytes = work.headDim * (isHalf ? 2 : 4);
  if (rowBytes < 64) return;  // a line holds several rows: the cost would exceed the gain
  for (int64_t j = first; j < last; j++) {
    for (int64_t offset = 0; offset < rowBytes; offset += 64) __builtin_prefetch(rows[j] + offset);
  }
}

template <bool kIsHalf>
void scorePart(const Work& work, int64_t first, int64_t last, float scale) {
  for (int64_t from = first; from < last; from += kEntryChunk) {
    const int64_t to = minOf(from + kEntryChunk, last);
    if (to < last) prefetchRows(work, work.keys, to, minOf(to + kEntryChunk, last), kIsHalf);
    else prefetchRows(work, work.values, first, minOf(first + kEntryChunk, last), kIsHalf);
    forQueryGroups(work.numQueries, [&](int64_t query, int64_t count) {
      if (count == 3) scoreQueries<kIsHalf, 3>(work, query, from, to, scale);
      else if (count == 2) scoreQueries<kIsHalf, 2>(work, query, from, to, scale);
      else scoreQueries<kIsHalf, 1>(work, query, from, to, scale);
    });
  }
}

// Turns a query's scores of visible positions [first, last) into weights: exp(score − maximum); positions around them become 0.
void weighPart(Query& query, float* scores, int64_t first, int64_t last) {
  const int64_t firstLane = first / 8 * 8;
  const int64_t lastLane = (last + 7) / 8 * 8;
  for (int64_t i = firstLane; i < first; i++) scores[i] = kMinusInfinity;
  for (int64_t i = last; i < lastLane; i++) scores[i] = kMinusInfinity;
  f32x8 maxima = splat8(kMinusInfinity);
  for (int64_t i = firstLane; i < lastLane; i += 8) maxima = max8(maxima, load8(scores + i));
  float maximum = maxima[0];
  for (int lane = 1; lane < 8; lane++) maximum = maximum > maxima[lane] ? maximum : maxima[lane];
  query.partMaximum = maximum;
  query.partSum = 0.0f;
  if (maximum == kMinusInfinity) return;
  f32x8 sums = zero8();
  for (int64_t i = firstLane; i < lastLane; i += 8) {
    const f32x8 weights = exp8(load8(scores + i) - splat8(maximum));
    store8(scores + i, weights);
    sums = sums + weights;
  }
  query.partSum = sum1(sums);
}

// Adds weight · V of positions [first, last) to kVectors vectors of the part's output, from head dimension d on, for kQueries queries.
template <bool kIsHalf, int kQueries, int kVectors>
MILLRACE_INLINE void valueTile(const Work& work, int64_t query, int64_t d, int64_t first, int64_t last) {
  f32x8 acc[kQueries][kVectors];
  float* out = work.partOut + query * work.paddedDim + d;
  const float* weights = work.scores + query * kAttentionPart;
  MILLRACE_UNROLL
  for (int i = 0; i < kQueries; i++) {
    MILLRACE_UNROLL
    for (int v = 0; v < kVectors; v++) acc[i][v] = load8(out + i * work.paddedDim + 8 * v);
  }
  for (int64_t j = first; j < last; j++) {
    const uint8_t* row = work.values[j];
    f32x8 weight[kQueries];
    MILLRACE_UNROLL
    for (int i = 0; i < kQueries; i++) weight[i] = splat8(weights[i * kAttentionPart + j]);
    MILLRACE_UNROLL
    for (int v = 0; v < kVectors; v++) {
      const f32x8 value = loadKv<kIsHalf>(row, d + 8 * v);
      MILLRACE_UNROLL
      for (int i = 0; i < kQueries; i++) acc[i][v] = fma8(weight[i], value, acc[i][v]);
    }
  }
  MILLRACE_UNROLL
  for (int i = 0; i < kQueries; i++) {
    MILLRACE_UNROLL
    for (int v = 0; v < kVectors; v++) store8(out + i * work.paddedDim + 8 * v, acc[i][v]);
  }
}

template <bool kIsHalf, int kQueries>
void valueQueries(const Work& work, int64_t query, int64_t first, int64_t last) {
  if (first >= last) return;
  constexpr int kVectors = 4;
  int64_t d = 0;
  for (; d + 8 * kVectors <= work.headDim; d += 8 * kVectors) valueTile<kIsHalf, kQueries, kVectors>(work, query, d, first, last);
  for (; d + 8 <= work.headDim; d += 8) valueTile<kIsHalf, kQueries, 1>(work, query, d, first, last);
  const int64_t tail = work.headDim - d;
  if (tail == 0) return;
  MILLRACE_UNROLL
  for (int i = 0; i < kQueries; i++) {
    float* out = work.partOut + (query + i) * work.paddedDim + d;
    f32x8 acc = load8(out);
    for (int64_t j = first; j < last; j++) {
      acc = fma8(splat8(work.scores[(query + i) * kAttentionPart + j]), loadKvTail<kIsHalf>(work.values[j], d, tail), acc);
    }
    store8(out, acc);
  }
}

// kQueries neighbours over part positions [from, to): what they all see is done side by side, the ends that only some see one by one,
// always in position order.
template <bool kIsHalf, int kQueries>
void valueGroup(const Work& work, int64_t query, int64_t base, int64_t from, int64_t to) {
  int64_t first[kQueries], last[kQueries];
  int64_t commonFirst = from;
  int64_t commonLast = to;
  for (int i = 0; i < kQueries; i++) {
    const Query& one = work.queries[query + i];
    first[i] = minOf(maxOf(one.begin - base, from), to);
    last[i] = minOf(maxOf(one.end - base, first[i]), to);
    if (one.partMaximum == kMinusInfinity) last[i] = first[i];
    commonFirst = maxOf(commonFirst, first[i]);
    commonLast = minOf(commonLast, last[i]);
  }
  const bool hasCommon = commonFirst < commonLast;
  for (int i = 0; i < kQueries; i++) {
    valueQueries<kIsHalf, 1>(work, query + i, first[i], hasCommon ? commonFirst : last[i]);
  }
  if (!hasCommon) return;
  valueQueries<kIsHalf, kQueries>(work, query, commonFirst, commonLast);
  for (int i = 0; i < kQueries; i++) valueQueries<kIsHalf, 1>(work, query + i, commonLast, last[i]);
}

template <bool kIsHalf>
void valuePart(const Work& work, int64_t base, int64_t first, int64_t last) {
  for (int64_t from = first; from < last; from += kEntryChunk) {
    const int64_t to = minOf(from + kEntryChunk, last);
    prefetchRows(work, work.values, to, minOf(to + kEntryChunk, last), kIsHalf);
    forQueryGroups(work.numQueries, [&](int64_t query, int64_t count) {
      if (count == 3) valueGroup<kIsHalf, 3>(work, query, base, from, to);
      else if (count == 2) valueGroup<kIsHalf, 2>(work, query, base, from, to);
      else valueGroup<kIsHalf, 1>(work, query, base, from, to);
    });
  }
}

// Folds the part's (maximum, sum, output) into the query's.
void mergePart(Query& query, const float* partOut, float* out, int64_t paddedDim) {
  if (query.partMaximum == kMinusInfinity) return;
  if (query.isEmpty) {
    query.isEmpty = false;
    query.maximum = query.partMaximum;
    query.sum = query.partSum;
    memcpy(out, partOut, static_cast<size_t>(paddedDim) * 4);
    return;
  }
  const float maximum = query.maximum > query.partMaximum ? query.maximum : query.partMaximum;
  const f32x8 factors = exp8(f32x8{query.maximum - maximum, query.partMaximum - maximum});
  const f32x8 oldFactor = splat8(factors[0]);
  const f32x8 partFactor = splat8(factors[1]);
  for (int64_t d = 0; d < paddedDim; d += 8) {
    store8(out + d, fma8(load8(partOut + d), partFactor, load8(out + d) * oldFactor));
  }
  query.sum = query.sum * factors[0] + query.partSum * factors[1];
  query.maximum = maximum;
}

// Finds the stored rows of positions [first, last) of the part that starts at `base`.
void locate(const PagedAttentionArgs& args, int64_t sequence, int64_t kvHead, int64_t base, int64_t first, int64_t last, Work& work) {
  const int32_t* table = args.blockTables + sequence * args.tableStride;
  const int64_t entryBytes = args.kv.headDim * args.kv.valueBytes();
  int64_t block = (base + first) / args.kv.blockSize;
  int64_t inBlock = (base + first) % args.kv.blockSize;
  for (int64_t j = first; j < last; block++, inBlock = 0) {
    const int64_t offset = args.kv.entryOffset(table[block], kvHead, inBlock);
    const int64_t end = minOf(last, j + args.kv.blockSize - inBlock);
    const uint8_t* key = args.keyCache + offset;
    const uint8_t* value = args.valueCache + offset;
    for (; j < end; j++, key += entryBytes, value += entryBytes) {
      work.keys[j] = key;
      work.values[j] = value;
    }
  }
}

template <bool kIsHalf>
void attendPart(const PagedAttentionArgs& args, Work& work, int64_t sequence, int64_t kvHead, int64_t base) {
  int64_t first = kAttentionPart;
  int64_t last = 0;
  for (int64_t i = 0; i < work.numQueries; i++) {
    first = minOf(first, maxOf(work.queries[i].begin - base, 0));
    last = maxOf(last, minOf(work.queries[i].end - base, kAttentionPart));
  }
  if (first >= last) return;
  locate(args, sequence, kvHead, base, first, last, work);
  scorePart<kIsHalf>(work, first, last, args.scale);
  for (int64_t i = 0; i < work.numQueries; i++) {
    Query& query = work.queries[i];
    const int64_t from = maxOf(query.begin - base, 0);
    const int64_t to = minOf(query.end - base, kAttentionPart);
    query.partMaximum = kMinusInfinity;
    if (from < to) weighPart(query, work.scores + i * kAttentionPart, from, to);
  }
  memset(work.partOut, 0, static_cast<size_t>(work.numQueries * work.paddedDim) * 4);
  valuePart<kIsHalf>(work, base, first, last);
  for (int64_t i = 0; i < work.numQueries; i++) {
    mergePart(work.queries[i], work.partOut + i * work.paddedDim, work.out + i * work.paddedDim, work.paddedDim);
  }
}

// Rows [m0, m1), all of one sequence, for one KV head.
void attendRows(const PagedAttentionArgs& args, int64_t m0, int64_t m1, int64_t kvHead, Work& work) {
  const KvGeometry& kv = args.kv;
  const int64_t group = kv.numHeads / kv.numKvHeads;
  work.numQueries = (m1 - m0) * group;
  memset(work.q, 0, static_cast<size_t>(work.numQueries * work.paddedDim) * 4);
  memset(work.out, 0, static_cast<size_t>(work.numQueries * work.paddedDim) * 4);
  int64_t begin = INT64_MAX;
  int64_t end = 0;
  for (int64_t i = 0; i < work.numQueries; i++) {
    const int64_t m = m0 + i / group;
    const int64_t length = args.kvLengths[m];
    const int64_t start = args.window > 0 ? maxOf(0, length - args.window) : 0;
    work.queries[i] = {start, length, kMinusInfinity, 0.0f, kMinusInfinity, 0.0f, true};
    begin = minOf(begin, start);
    end = maxOf(end, length);
    const float* q = args.q + (m * kv.numHeads + kvHead * group + i % group) * kv.headDim;
    memcpy(work.q + i * work.paddedDim, q, static_cast<size_t>(kv.headDim) * 4);
  }
  const int64_t sequence = args.sequenceIndex[m0];
  for (int64_t base = begin / kAttentionPart * kAttentionPart; base < end; base += kAttentionPart) {
    if (kv.isHalf) attendPart<true>(args, work, sequence, kvHead, base);
    else attendPart<false>(args, work, sequence, kvHead, base);
  }
  for (int64_t i = 0; i < work.numQueries; i++) {
    const Query& query = work.queries[i];
    float* out = args.out + ((m0 + i / group) * kv.numHeads + kvHead * group + i % group) * kv.headDim;
    for (int64_t d = 0; d < kv.headDim; d++) out[d] = query.isEmpty ? 0.0f : work.out[i * work.paddedDim + d] / query.sum;
  }
}

}  // namespace

void pagedAttentionKernel(const Op& op, int64_t begin, int64_t end, std::byte* scratch) {
  const PagedAttentionArgs& args = op.pagedAttention;
  const KvGeometry& kv = args.kv;
  const int64_t rowsPerUnit = attentionRowsPerUnit(args.numRows);
  const int64_t numRowBlocks = (args.numRows + rowsPerUnit - 1) / rowsPerUnit;
  const int64_t maxQueries = kv.numHeads / kv.numKvHeads * rowsPerUnit;
  Work work;
  work.headDim = kv.headDim;
  work.paddedDim = (kv.headDim + 7) / 8 * 8;
  work.scores = reinterpret_cast<float*>(scratch);
  work.q = work.scores + maxQueries * kAttentionPart;
  work.partOut = work.q + maxQueries * work.paddedDim;
  work.out = work.partOut + maxQueries * work.paddedDim;
  work.queries = reinterpret_cast<Query*>(work.out + maxQueries * work.paddedDim);
  for (int64_t unit = begin; unit < end; unit++) {
    // Row blocks of one head follow each other, so that a prompt's K and V of that head stay cached.
    const int64_t kvHead = unit / numRowBlocks;
    const int64_t first = unit % numRowBlocks * rowsPerUnit;
    const int64_t last = minOf(first + rowsPerUnit, args.numRows);
    for (int64_t m0 = first; m0 < last;) {
      int64_t m1 = m0 + 1;
      while (m1 < last && args.sequenceIndex[m1] == args.sequenceIndex[m0]) m1++;
      attendRows(args, m0, m1, kvHead, work);
      m0 = m1;
    }
  }
}

}  // namespace millrace::MILLRACE_ISA
