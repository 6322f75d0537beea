// pagedAttention: online softmax over fixed parts of the KV range, a task's rows side by side (AttentionWork says
// which).
//
// The result of a query depends on its own q, visible range and stored K and V only: a score is one chain of
// multiply-adds over the head dimension; within a part (entries [256 i, 256 (i+1)) that are visible) the maximum and
// the sum are taken lane by lane, lane = position modulo kLanes, and V is accumulated entry by entry; parts are merged
// left to right. Doing several queries side by side, finding entries in blocks of another size or in another sequence's
// table, or computing parts apart and merging them later changes no bit.
//
// size: one algorithm, whose steps share a task's workspace.
#include "attention_tiles.h"
#include "kernel.h"
#include "math.h"
#include "paged_attention.h"

namespace millrace::MILLRACE_ISA {
namespace {

constexpr float kMinusInfinity = -__builtin_inff();
constexpr int64_t kPartOctets = kAttentionPart / kKvOctet;

// A softmax state: of one part, or of all parts merged so far.
struct State {
  float maximum;
  float sum;
};
constexpr State kEmpty = {kMinusInfinity, 0.0f};

struct Query {
  int64_t begin;  // visible entries
  int64_t end;
  // The current part's first and last visible position, and its softmax.
  int64_t first;
  int64_t last;
  State part;
  State state;
};

// Neighbouring queries that share register tiles, with the union of their positions in the current part.
struct Group {
  int64_t firstQuery;
  int64_t size;
  int64_t first;
  int64_t last;
};

// Where the stored octets of a part lie.
struct Part {
  int64_t base;
  int64_t first;  // positions that some query sees
  int64_t last;
  const uint8_t* keys[kPartOctets];
  const uint8_t* values[kPartOctets];

  int64_t firstOctet() const { return first / kKvOctet; }
  int64_t endOctet() const { return (last + kKvOctet - 1) / kKvOctet; }
};

// Everything a task keeps in scratch; lengths are in floats.
struct Workspace {
  const KvGeometry* kv;
  int64_t numQueries;
  int64_t numGroups;
  int64_t paddedDim;  // of a value
  int64_t latentDim;  // as PagedAttentionArgs has it
  bool isDirect;   // K and V are widened in registers, not through scratch
  Query* queries;  // [numQueries], row by row, then head by head
  Group* groups;   // [numGroups]
  float* q;        // per group [headDim, size], times the scale
  float* scores;   // [numQueries, kScorePitch], by position in the part; then the weights
  float* partOut;  // [numQueries, paddedDim]
  float* out;      // [numQueries, paddedDim]
  float* widened;  // a chunk's keys or values
};

// A dimension in whole vectors.
int64_t padded(int64_t dim) { return (dim + kLanes - 1) / kLanes * kLanes; }

// Rows of scratch are as long as a padded key, and at most attentionPaddedDim, the size of the buffers.
Workspace layOut(const PagedAttentionArgs& args, std::byte* scratch) {
  const KvGeometry& kv = args.kv;
  const int64_t maxQueries = kv.numHeads / kv.numKvHeads * attentionTaskRows(kv);
  const int64_t keyDim = padded(kv.headDim);
  Workspace work;
  work.kv = &kv;
  work.paddedDim = padded(args.valueDim());
  work.latentDim = args.latentDim;
  work.widened = reinterpret_cast<float*>(scratch);
  work.scores = work.widened + kChunkOctets * kKvOctet * keyDim;
  work.partOut = work.scores + maxQueries * kScorePitch;
  work.out = work.partOut + maxQueries * keyDim;
  work.q = work.out + maxQueries * keyDim;
  work.queries = reinterpret_cast<Query*>(work.q + maxQueries * keyDim);
  work.groups = reinterpret_cast<Group*>(work.queries + maxQueries);
  static_assert(sizeof(Query) + sizeof(Group) <= 32 * 4);
  return work;
}

// As few groups as there can be, of nearly equal sizes.
void formGroups(Workspace& work) {
  // Keys that one tile of queries reads once need not be kept; a remainder of the head dimension is padded there.
  const int64_t step = work.kv->type == KvType::fp4 ? kFp4Group : kLanes;
  work.isDirect = work.numQueries <= kDirectQueries && work.kv->headDim % step == 0 && work.latentDim == 0;
  work.numGroups = work.isDirect ? 1 : (work.numQueries + kTileQueries - 1) / kTileQueries;
  int64_t query = 0;
  for (int64_t g = 0; g < work.numGroups; g++) {
    const int64_t groupsLeft = work.numGroups - g;
    const int64_t size = (work.numQueries - query + groupsLeft - 1) / groupsLeft;
    work.groups[g] = {query, size, 0, 0};
    query += size;
  }
}

// Copies kQueries queries' vectors, times the scale, so that their values of one dimension lie together.
template <int kQueries>
void packQueries(const float* const* q, int64_t headDim, float scale, float* packed) {
  for (int64_t d = 0; d < headDim; d++) {
    MILLRACE_UNROLL
    for (int i = 0; i < kQueries; i++) packed[d * kQueries + i] = q[i][d] * scale;
  }
}

void loadQueries(const PagedAttentionArgs& args, const int32_t* rows, int64_t kvHead, Workspace& work) {
  const KvGeometry& kv = args.kv;
  const int64_t perRow = kv.numHeads / kv.numKvHeads;
  for (int64_t g = 0; g < work.numGroups; g++) {
    const Group& group = work.groups[g];
    const float* q[kDirectQueries];
    for (int64_t i = 0; i < group.size; i++) {
      const int64_t query = group.firstQuery + i;
      const int64_t m = rows[query / perRow];
      q[i] = args.q + (m * kv.numHeads + kvHead * perRow + query % perRow) * kv.headDim;
      work.queries[query] = {attentionBegin(args, m), args.kvLengths[m], 0, 0, kEmpty, kEmpty};
    }
    float* packed = work.q + group.firstQuery * kv.headDim;
    withSize<kDirectQueries>(group.size, [&](auto size) { packQueries<size>(q, kv.headDim, args.scale, packed); });
  }
}

// Finds the octets of part `index` that the task's queries see.
void locate(const PagedAttentionArgs& args, int64_t sequence, int64_t kvHead, int64_t index, const Workspace& work, Part& part) {
  const KvGeometry& kv = args.kv;
  part.base = index * kAttentionPart;
  part.first = kAttentionPart;
  part.last = 0;
  for (int64_t i = 0; i < work.numQueries; i++) {
    const int64_t first = maxOf(work.queries[i].begin - part.base, 0);
    const int64_t last = minOf(work.queries[i].end - part.base, kAttentionPart);
    if (first >= last) continue;
    part.first = minOf(part.first, first);
    part.last = maxOf(part.last, last);
  }
  if (part.first >= part.last) return;
  const int32_t* table = args.blockTables + sequence * args.tableStride;
  const int64_t octetsPerBlock = kv.blockSize / kKvOctet;
  const int64_t octetBytes = kv.octetBytes();
  const int64_t firstOctet = index * kPartOctets + part.firstOctet();
  int64_t block = firstOctet / octetsPerBlock;
  int64_t inBlock = firstOctet % octetsPerBlock;
  const int64_t endOctet = part.endOctet();
  for (int64_t o = part.firstOctet(); o < endOctet; block++, inBlock = 0) {
    const int64_t offset = kv.octetOffset(table[block], kvHead, inBlock);
    const int64_t end = minOf(endOctet, o + octetsPerBlock - inBlock);
    for (int64_t at = offset; o < end; o++, at += octetBytes) {
      part.keys[o] = args.keyCache + at;
      part.values[o] = args.isLatent() ? part.keys[o] : args.valueCache + at;
    }
  }
}

// The queries' and groups' positions in the part.
void enterPart(Workspace& work, const Part& part) {
  for (int64_t g = 0; g < work.numGroups; g++) {
    Group& group = work.groups[g];
    group.first = kAttentionPart;
    group.last = 0;
    for (int64_t i = group.firstQuery; i < group.firstQuery + group.size; i++) {
      Query& query = work.queries[i];
      query.first = minOf(maxOf(query.begin - part.base, 0), kAttentionPart);
      query.last = maxOf(minOf(query.end - part.base, kAttentionPart), query.first);
      query.part = kEmpty;
      if (query.first == query.last) continue;
      group.first = minOf(group.first, query.first);
      group.last = maxOf(group.last, query.last);
    }
  }
}

// The octets from `octet` on that are widened together.
Octets octetsAt(const uint8_t* const* octets, int64_t octet, const Part& part) {
  Octets all;
  for (int64_t i = 0; i < kEights; i++) all.at[i] = octets[minOf(octet + i, part.endOctet() - 1)];
  return all;
}

// The octets that are widened one chunk after `octet`: of `octets`, then of `then`, which `thenPart` locates; null at
// the end.
Octets upcoming(const uint8_t* const* octets, int64_t octet, const Part& part, const uint8_t* const* then, const Part* thenPart) {
  Octets all;
  for (int64_t i = 0; i < kEights; i++) {
    const int64_t ahead = octet + i + kChunkOctets;
    const int64_t index = thenPart == nullptr ? 0 : thenPart->firstOctet() + ahead - part.endOctet();
    const bool isNext = thenPart != nullptr && index < thenPart->endOctet();
    all.at[i] = ahead < part.endOctet() ? octets[ahead] : isNext ? then[index] : nullptr;
  }
  return all;
}

// The group's scores of vectors [begin, end) of the chunk that begins at octet `from`, of stored keys.
template <KvType kType, int kQueries>
void scoreStored(const Workspace& work, const Part& part, int64_t from, int64_t begin, int64_t end, const float* q, float* scores) {
  inTiles<tileVectors(kQueries)>(begin, end, [&](auto vectors, int64_t v) {
    Octets keys[vectors], next[vectors];
    for (int64_t i = 0; i < vectors; i++) {
      keys[i] = octetsAt(part.keys, from + (v + i) * kEights, part);
      next[i] = upcoming(part.keys, from + (v + i) * kEights, part, part.values, &part);
    }
    scoreStoredTile<kType, kQueries, vectors>(*work.kv, q, keys, next, scores + v * kLanes);
  });
}

// Scores of the group in the chunk of octets [from, to), which work.widened holds unless keys are read as they are
// stored.
void scoreGroup(const Workspace& work, const Group& group, const Part& part, int64_t from, int64_t to) {
  const KvGeometry& kv = *work.kv;
  // Vectors of the chunk; some of their scores may be outside every query's view.
  const int64_t begin = maxOf(0, group.first / kKvOctet - from) / kEights;
  const int64_t end = (minOf(to * kKvOctet, group.last) - from * kKvOctet + kLanes - 1) / kLanes;
  if (begin >= end) return;
  const float* q = work.q + group.firstQuery * kv.headDim;
  float* scores = work.scores + group.firstQuery * kScorePitch + from * kKvOctet;
  if (work.isDirect) {
    withType(kv.type, [&](auto type) {
      withSize<kDirectQueries>(group.size, [&](auto size) { scoreStored<type, size>(work, part, from, begin, end, q, scores); });
    });
    return;
  }
  const float* keys = work.widened + begin * kLanes * kv.headDim;
  withSize<kTileQueries>(group.size, [&](auto size) { scoreVectors<size>(q, keys, kv.headDim, end - begin, scores + begin * kLanes); });
}

void scorePart(const Workspace& work, const Part& part) {
  const KvGeometry& kv = *work.kv;
  for (int64_t from = part.firstOctet(); from < part.endOctet(); from += kChunkOctets) {
    const int64_t to = minOf(from + kChunkOctets, part.endOctet());
    for (int64_t o = from; o < to && !work.isDirect; o += kEights) {
      const Octets next = upcoming(part.keys, o, part, part.values, &part);
      float* widened = work.widened + (o - from) * kKvOctet * kv.headDim;
      withType(kv.type, [&](auto type) { widenKeys<type>(kv, octetsAt(part.keys, o, part), next, widened); });
    }
    for (int64_t g = 0; g < work.numGroups; g++) scoreGroup(work, work.groups[g], part, from, to);
  }
}

// Turns a query's scores of its visible positions into weights: exp(score − maximum).
void weigh(Query& query, float* scores, float cap) {
  if (query.first == query.last) return;
  const int64_t firstLane = query.first / kLanes * kLanes;
  const int64_t endLane = (query.last + kLanes - 1) / kLanes * kLanes;
  for (int64_t i = query.first; cap > 0 && i < query.last; i += 8) {
    const int64_t count = minOf(query.last - i, 8);
    storePartial8(scores + i, capped8(loadPartial8(scores + i, count), cap), count);
  }
  for (int64_t i = firstLane; i < query.first; i++) scores[i] = kMinusInfinity;
  for (int64_t i = query.last; i < endLane; i++) scores[i] = kMinusInfinity;
  Floats maxima = loadFloats(scores + firstLane);
  for (int64_t i = firstLane + kLanes; i < endLane; i += kLanes) maxima = maxFloats(maxima, loadFloats(scores + i));
  const float maximum = max1(maxima);
  if (maximum == kMinusInfinity) {
    // A maximum passes over scores that are no numbers, but the result must not: an empty part would give zeros.
    for (int64_t i = query.first; i < query.last; i++) {
      if (scores[i] != scores[i]) query.part = {0.0f, scores[i]};
    }
    return;
  }
  Floats sums{};
  for (int64_t i = firstLane; i < endLane; i += kLanes) {
    const Floats weights = weightOf(loadFloats(scores + i) - splatFloats(maximum));
    storeFloats(scores + i, weights);
    sums = sums + weights;
  }
  query.part = {maximum, sum1(sums)};
}

// A group over part positions [from, to): what all its queries see is done side by side, the ends that only some see
// one by one, always in position order. entries(count, weights, begin, end, out) does so for `count` queries, a
// constant.
template <int kQueries, class Entries>
void valueGroup(const Workspace& work, const Group& group, int64_t from, int64_t to, Entries entries) {
  int64_t first[kQueries], last[kQueries];
  int64_t commonFirst = from;
  int64_t commonLast = to;
  for (int i = 0; i < kQueries; i++) {
    const Query& query = work.queries[group.firstQuery + i];
    first[i] = minOf(maxOf(query.first, from), to);
    last[i] = query.part.maximum == kMinusInfinity ? first[i] : minOf(maxOf(query.last, first[i]), to);
    commonFirst = maxOf(commonFirst, first[i]);
    commonLast = minOf(commonLast, last[i]);
  }
  const bool hasCommon = commonFirst < commonLast;
  const float* weights = work.scores + group.firstQuery * kScorePitch;
  float* out = work.partOut + group.firstQuery * work.paddedDim;
  const auto alone = [&](int i, int64_t begin, int64_t end) {
    if (begin < end) entries(std::integral_constant<int, 1>{}, weights + i * kScorePitch, begin, end, out + i * work.paddedDim);
  };
  for (int i = 0; i < kQueries; i++) alone(i, first[i], hasCommon ? commonFirst : last[i]);
  if (!hasCommon) return;
  entries(std::integral_constant<int, kQueries>{}, weights, commonFirst, commonLast, out);
  for (int i = 0; i < kQueries; i++) alone(i, commonLast, last[i]);
}

// valueGroup of values as they are stored.
template <KvType kType, int kQueries>
void valueStored(const Workspace& work, const Part& part, const Part* nextPart, int64_t from, int64_t to) {
  const KvGeometry& kv = *work.kv;
  const uint8_t* next[kChunkOctets];
  for (int64_t o = from; o < to; o += kEights) {
    const Octets octets = upcoming(part.values, o, part, nextPart == nullptr ? nullptr : nextPart->keys, nextPart);
    for (int64_t i = 0; i < kEights && o + i < to; i++) next[o + i - from] = octets.at[i];
  }
  const int64_t base = from * kKvOctet;
  const auto entries = [&](auto count, const float* weights, int64_t begin, int64_t end, float* out) {
    inTiles<tileVectors(count)>(0, kv.headDim / kLanes, [&](auto vectors, int64_t v) {
      const int64_t d = v * kLanes;
      valueStoredTile<kType, count, vectors>(kv, weights + base, part.values + from, next, begin - base, end - base, d, out + d);
    });
  };
  valueGroup<kQueries>(work, work.groups[0], base, to * kKvOctet, entries);
}

template <int kQueries>
void valueWidened(const Workspace& work, const Group& group, int64_t from, int64_t to) {
  const float* values = work.widened - from * work.paddedDim;
  valueGroup<kQueries>(work, group, from, to, [&](auto count, const float* weights, int64_t begin, int64_t end, float* out) {
    valueEntries<count>(weights + begin, values + begin * work.paddedDim, end - begin, work.paddedDim, out);
  });
}

void valuePart(const Workspace& work, const Part& part, const Part* nextPart) {
  const KvGeometry& kv = *work.kv;
  for (int64_t from = part.firstOctet(); from < part.endOctet(); from += kChunkOctets) {
    const int64_t to = minOf(from + kChunkOctets, part.endOctet());
    if (work.isDirect) {
      withType(kv.type, [&](auto type) {
        withSize<kDirectQueries>(work.numQueries, [&](auto size) { valueStored<type, size>(work, part, nextPart, from, to); });
      });
      continue;
    }
    for (int64_t o = from; o < to; o += kEights) {
      const Octets next = upcoming(part.values, o, part, nextPart == nullptr ? nullptr : nextPart->keys, nextPart);
      float* widened = work.widened + (o - from) * kKvOctet * work.paddedDim;
      withType(kv.type, [&](auto type) {
        const Octets octets = octetsAt(part.values, o, part);
        if (work.latentDim > 0) widenLatent<type>(kv, octets, next, work.latentDim, widened, work.paddedDim);
        else widenValues<type>(kv, octets, next, widened, work.paddedDim);
      });
    }
    for (int64_t g = 0; g < work.numGroups; g++) {
      const Group& group = work.groups[g];
      if (group.first >= to * kKvOctet || group.last <= from * kKvOctet) continue;
      withSize<kTileQueries>(group.size, [&](auto size) { valueWidened<size>(work, group, from * kKvOctet, to * kKvOctet); });
    }
  }
}

// Folds a part's softmax and output into what is merged so far.
void mergePart(State& state, float* out, const State& part, const float* partOut, int64_t paddedDim) {
  if (part.maximum == kMinusInfinity) return;
  if (state.maximum == kMinusInfinity) {
    state = part;
    memcpy(out, partOut, static_cast<size_t>(paddedDim) * 4);
    return;
  }
  const float maximum = state.maximum > part.maximum ? state.maximum : part.maximum;
  const f32x8 factors = exp8(f32x8{state.maximum - maximum, part.maximum - maximum});
  const f32x8 oldFactor = splat8(factors[0]);
  const f32x8 partFactor = splat8(factors[1]);
  for (int64_t d = 0; d < paddedDim; d += 8) {
    store8(out + d, fma8(load8(partOut + d), partFactor, load8(out + d) * oldFactor));
  }
  state.sum = state.sum * factors[0] + part.sum * factors[1];
  state.maximum = maximum;
}

// Row m's result for a head, once all parts are merged. A sink is one more score, which has no value: it is counted
// here, for every row once, however its parts were cut. A sink far above all scores makes the result zero.
void finish(const PagedAttentionArgs& args, const State& state, const float* merged, int64_t m, int64_t head) {
  const int64_t valueDim = args.valueDim();
  float* out = args.out + (m * args.kv.numHeads + head) * valueDim;
  const bool isEmpty = state.maximum == kMinusInfinity;
  float sum = state.sum;
  if (args.sinks != nullptr && !isEmpty) {
    const double distance = static_cast<double>(args.sinks[head]) - static_cast<double>(state.maximum);
    sum = static_cast<float>(static_cast<double>(sum) + expDouble(distance));
  }
  for (int64_t d = 0; d < valueDim; d++) out[d] = isEmpty ? 0.0f : merged[d] / sum;
}

// The place of one head's result in a slot: maximum, sum, then the output from the eighth float on.
float* slotOf(const AttentionWork& cut, const KvGeometry& kv, int64_t slot, int64_t head) {
  return cut.slots + (slot * kv.numHeads + head) * cut.slotFloats;
}

void keep(float* slot, const State& state, const float* out, int64_t paddedDim) {
  slot[0] = state.maximum;
  slot[1] = state.sum;
  memcpy(slot + 8, out, static_cast<size_t>(paddedDim) * 4);
}

// All of a split row's tasks are done: merges its slots for the heads of kvHead.
void mergeSlots(const PagedAttentionArgs& args, const AttentionSplit& split, int64_t m, int64_t kvHead) {
  const KvGeometry& kv = args.kv;
  const int64_t paddedDim = padded(args.valueDim());
  const int64_t perRow = kv.numHeads / kv.numKvHeads;
  for (int64_t head = kvHead * perRow; head < (kvHead + 1) * perRow; head++) {
    float* merged = slotOf(*args.work, kv, split.firstSlot, head);
    State state = {merged[0], merged[1]};
    for (int64_t slot = split.firstSlot + 1; slot < split.firstSlot + split.numSlots; slot++) {
      const float* part = slotOf(*args.work, kv, slot, head);
      mergePart(state, merged + 8, {part[0], part[1]}, part + 8, paddedDim);
    }
    finish(args, state, merged + 8, m, head);
  }
}

// Folds the part into each query's state, or keeps it apart in its slot.
void handIn(const PagedAttentionArgs& args, const AttentionTask& task, const int32_t* rows, int64_t kvHead, int64_t part, Workspace& work) {
  const KvGeometry& kv = args.kv;
  const int64_t perRow = kv.numHeads / kv.numKvHeads;
  for (int64_t i = 0; i < work.numQueries; i++) {
    Query& query = work.queries[i];
    const float* partOut = work.partOut + i * work.paddedDim;
    if (task.isFirst) {
      mergePart(query.state, work.out + i * work.paddedDim, query.part, partOut, work.paddedDim);
      continue;
    }
    const AttentionSplit& split = args.work->splits[args.work->splitOfRow[rows[i / perRow]]];
    const int64_t slot = split.firstSlot + 1 + part - split.firstTaskEnd;
    keep(slotOf(*args.work, kv, slot, kvHead * perRow + i % perRow), query.part, partOut, work.paddedDim);
  }
}

// The task's rows for one KV head.
void attend(const PagedAttentionArgs& args, const AttentionTask& task, int64_t kvHead, Workspace& work) {
  const KvGeometry& kv = args.kv;
  const AttentionWork& cut = *args.work;
  const int32_t* rows = cut.rows + task.firstRow;
  const int64_t perRow = kv.numHeads / kv.numKvHeads;
  const int64_t sequence = args.sequenceIndex[rows[0]];
  work.numQueries = task.numRows * perRow;
  formGroups(work);
  loadQueries(args, rows, kvHead, work);

  Part parts[2];
  if (task.partBegin < task.partEnd) locate(args, sequence, kvHead, task.partBegin, work, parts[task.partBegin % 2]);
  for (int64_t index = task.partBegin; index < task.partEnd; index++) {
    const Part& part = parts[index % 2];
    Part* next = index + 1 < task.partEnd ? &parts[(index + 1) % 2] : nullptr;
    if (next != nullptr) locate(args, sequence, kvHead, index + 1, work, *next);
    enterPart(work, part);
    if (part.first < part.last) {
      scorePart(work, part);
      for (int64_t i = 0; i < work.numQueries; i++) weigh(work.queries[i], work.scores + i * kScorePitch, args.cap);
      memset(work.partOut, 0, static_cast<size_t>(work.numQueries * work.paddedDim) * 4);
      valuePart(work, part, next);
    }
    handIn(args, task, rows, kvHead, index, work);
  }

  for (int64_t i = 0; i < work.numQueries && task.isFirst; i++) {
    const int64_t m = rows[i / perRow];
    const int64_t head = kvHead * perRow + i % perRow;
    const float* merged = work.out + i * work.paddedDim;
    const State& state = work.queries[i].state;
    if (cut.splitOfRow[m] < 0) finish(args, state, merged, m, head);
    else keep(slotOf(cut, kv, cut.splits[cut.splitOfRow[m]].firstSlot, head), state, merged, work.paddedDim);
  }
  for (int64_t i = 0; i < task.numRows; i++) {
    const int32_t index = cut.splitOfRow[rows[i]];
    if (index < 0) continue;
    int32_t* pending = cut.pending + index * kv.numKvHeads + kvHead;
    if (__atomic_sub_fetch(pending, 1, __ATOMIC_ACQ_REL) != 0) continue;
    mergeSlots(args, cut.splits[index], rows[i], kvHead);
    __atomic_store_n(pending, cut.splits[index].numTasks, __ATOMIC_RELAXED);
  }
}

}  // namespace

void pagedAttentionKernel(const Op& op, int64_t begin, int64_t end, std::byte* scratch) {
  const PagedAttentionArgs& args = op.args<PagedAttentionArgs>();
  const AttentionWork& cut = *args.work;
  if (begin == end) return;  // no rows
  Workspace work = layOut(args, scratch);
  for (int64_t i = begin == 0 ? 0 : cut.bundleEnds[begin - 1]; i < cut.bundleEnds[end - 1]; i++) {
    attend(args, cut.tasks[i % cut.numTasks], i / cut.numTasks, work);
  }
}

}  // namespace millrace::MILLRACE_ISA
