// countAttention: how much attention each stored entry gets, as integers. A unit is one row's query heads of one KV
// head. Rows and heads add to the same counts, in any order.
#include <algorithm>

#include "attention_tiles.h"
#include "kernel.h"
#include "math.h"

namespace millrace {

namespace {
// Entries whose keys are widened at once, on any instruction set, and query heads scored together.
constexpr int64_t kMostEntries = 64;
constexpr int64_t kMostQueries = 4;
constexpr float kEntropyUnit = 256.0f;

struct CountAttentionArgs {
  int32_t* counts;     // [*, countStride]
  int32_t* entropies;  // [*]
  const float* q;      // [*, numHeads, headDim]
  const uint8_t* keyCache;
  const int32_t* rows;           // [M]
  const int32_t* kvLengths;      // [*]
  const int32_t* sequenceIndex;  // [*]
  const int32_t* blockTables;    // [*, tableStride]
  const float* sinks;            // [numHeads] or null
  int64_t tableStride;
  int64_t countStride;
  KvGeometry kv;
  float scale;
  float cap;  // 0 = none
  float unit;
};

int64_t paddedLength(int64_t length) { return (length + kMostEntries - 1) / kMostEntries * kMostEntries; }
}  // namespace

#ifdef MILLRACE_DECODES

Op decode(const Operands<ops::countAttention>& in, DecodeMemo&) {
  using ops::countAttention;
  CountAttentionArgs args{};
  const int64_t numRows = in.integer(countAttention::numRows);
  args.tableStride = in.integer(countAttention::tableStride, 1);
  args.countStride = in.integer(countAttention::countStride, 1);
  args.kv = readKvGeometry(in);
  args.scale = static_cast<float>(in.number(countAttention::scale));
  args.cap = static_cast<float>(in.number(countAttention::cap));
  if (!(args.cap >= 0)) in.refuse(countAttention::cap, "at least 0", args.cap);
  args.unit = static_cast<float>(in.number(countAttention::unit));
  if (!(args.unit >= 1 && args.unit <= 1073741824.0f)) in.refuse(countAttention::unit, "in [1, 2^30]", args.unit);
  int64_t numBlocks = INT64_MAX;
  int64_t numTableEntries, numLengths, numIndices, numValues, numCounts, numEntropies;
  args.keyCache = in.kvCache(countAttention::keyCache, args.kv, &numBlocks);
  args.counts = in.whole(countAttention::counts, &numCounts);
  args.entropies = in.whole(countAttention::entropies, &numEntropies);
  args.q = in.whole(countAttention::q, &numValues);
  args.kvLengths = in.whole(countAttention::kvLengths, &numLengths);
  args.sequenceIndex = in.whole(countAttention::sequenceIndex, &numIndices);
  args.blockTables = in.whole(countAttention::blockTables, &numTableEntries);
  args.sinks = in.optionalBuffer(countAttention::sinks, args.kv.numHeads);
  const int64_t numQueries = std::min({numLengths, numIndices, numValues / (args.kv.numHeads * args.kv.headDim)});
  args.rows = in.indices(countAttention::rows, numRows, 0, numQueries - 1);
  for (const operand::Place& written : {operand::Place(countAttention::counts), operand::Place(countAttention::entropies)}) {
    in.requireApart(written, countAttention::rows);
    in.requireApart(written, countAttention::q);
    in.requireApart(written, countAttention::kvLengths);
    in.requireApart(written, countAttention::sequenceIndex);
    in.requireApart(written, countAttention::blockTables);
    if (args.sinks != nullptr) in.requireApart(written, countAttention::sinks);
  }
  in.requireApart(countAttention::counts, countAttention::entropies);
  const int64_t numSequences = std::min({numTableEntries / args.tableStride, numCounts / args.countStride, numEntropies});
  const int64_t most = std::min(args.countStride, args.tableStride * args.kv.blockSize);
  int64_t longest = 0;
  for (int64_t i = 0; i < numRows; i++) {
    const int64_t length = args.kvLengths[args.rows[i]];
    const int64_t sequence = args.sequenceIndex[args.rows[i]];
    if (length < 0 || length > most) in.refuse(countAttention::kvLengths, "in [0, " + std::to_string(most) + "]", static_cast<double>(length));
    if (sequence < 0 || sequence >= numSequences) {
      in.refuse(countAttention::sequenceIndex, "in [0, " + std::to_string(numSequences) + ")", static_cast<double>(sequence));
    }
    const int32_t* table = args.blockTables + sequence * args.tableStride;
    for (int64_t block = 0; block * args.kv.blockSize < length; block++) {
      if (table[block] >= 0 && table[block] < numBlocks) continue;
      in.refuse(countAttention::blockTables, "blocks in [0, " + std::to_string(numBlocks) + ")", table[block]);
    }
    longest = std::max(longest, length);
  }
  const double nanos = static_cast<double>(longest * args.kv.headDim) * static_cast<double>(args.kv.numHeads / args.kv.numKvHeads) / 16 + 100;
  const int64_t numFloats = (kMostEntries + kMostQueries) * args.kv.headDim + kMostQueries * (kAttentionPart + 16 + paddedLength(longest));
  return makeOp(OpCode::countAttention, args, numRows * args.kv.numKvHeads, nanos, numFloats * 4);
}

#endif

}  // namespace millrace

namespace millrace::MILLRACE_ISA {
namespace {

static_assert(kChunkOctets * kKvOctet <= kMostEntries && kTileQueries <= kMostQueries && kScorePitch == kAttentionPart + 16);

// Adds a head's weights of entries [0, length). scores: [length], with room for a whole vector; they are overwritten.
void addWeights(const CountAttentionArgs& args, int64_t sequence, int64_t head, int64_t length, float* scores) {
  for (int64_t i = 0; args.cap > 0 && i < length; i += 8) {
    const int64_t count = minOf(length - i, 8);
    storePartial8(scores + i, capped8(loadPartial8(scores + i, count), args.cap), count);
  }
  const int64_t end = (length + kLanes - 1) / kLanes * kLanes;
  for (int64_t i = length; i < end; i++) scores[i] = -__builtin_inff();
  Floats maxima = loadFloats(scores);
  for (int64_t i = kLanes; i < end; i += kLanes) maxima = maxFloats(maxima, loadFloats(scores + i));
  const float maximum = max1(maxima);
  Floats sums{};
  Floats products{};
  for (int64_t i = 0; i < end; i += kLanes) {
    const Floats distance = maxFloats(splatFloats(-87.0f), loadFloats(scores + i) - splatFloats(maximum));
    const Floats weights = weightOf(distance);
    storeFloats(scores + i, weights);
    sums = sums + weights;
    products = mulAdd(weights, distance, products);
  }
  const float sum = sum1(sums);
  // NaN scores are not counted. The request fails when its logits are checked.
  if (!(sum >= 0.5f && sum <= static_cast<float>(end) + 1)) return;
  const double beside = args.sinks == nullptr ? 0 : expDouble(static_cast<double>(args.sinks[head]) - static_cast<double>(maximum));
  const float factor = static_cast<float>(static_cast<double>(args.unit) / (static_cast<double>(sum) + beside));
  int32_t* counts = args.counts + sequence * args.countStride;
  for (int64_t i = 0; i < length; i++) {
    const auto count = static_cast<int32_t>(scores[i] * factor + 0.5f);
    if (count != 0) __atomic_fetch_add(counts + i, count, __ATOMIC_RELAXED);
  }
  const double entropy = logDouble(static_cast<double>(sum)) - static_cast<double>(sum1(products)) / static_cast<double>(sum);
  __atomic_fetch_add(args.entropies + sequence, static_cast<int32_t>(entropy * static_cast<double>(kEntropyUnit) + 0.5), __ATOMIC_RELAXED);
}

void countHeads(const CountAttentionArgs& args, int64_t m, int64_t kvHead, float* scratch) {
  const KvGeometry& kv = args.kv;
  const int64_t length = args.kvLengths[m];
  if (length == 0) return;
  const int64_t sequence = args.sequenceIndex[m];
  const int32_t* table = args.blockTables + sequence * args.tableStride;
  float* widened = scratch;
  float* q = widened + kMostEntries * kv.headDim;
  float* tile = q + kMostQueries * kv.headDim;
  float* scores = tile + kMostQueries * kScorePitch;
  const int64_t pitch = paddedLength(length);
  const int64_t numOctets = (length + kKvOctet - 1) / kKvOctet;
  const int64_t octetsPerBlock = kv.blockSize / kKvOctet;
  const auto octetsAt = [&](int64_t first) {
    Octets octets;
    for (int64_t i = 0; i < kEights; i++) {
      const int64_t octet = minOf(first + i, numOctets - 1);
      octets.at[i] = args.keyCache + kv.octetOffset(table[octet / octetsPerBlock], kvHead, octet % octetsPerBlock);
    }
    return octets;
  };
  const int64_t perRow = kv.numHeads / kv.numKvHeads;
  for (int64_t first = 0; first < perRow; first += kTileQueries) {
    const int64_t size = minOf(kTileQueries, perRow - first);
    const int64_t head = kvHead * perRow + first;
    for (int64_t i = 0; i < size; i++) {
      for (int64_t d = 0; d < kv.headDim; d++) q[d * size + i] = args.q[(m * kv.numHeads + head + i) * kv.headDim + d] * args.scale;
    }
    for (int64_t octet = 0; octet < numOctets; octet += kChunkOctets) {
      const int64_t numVectors = minOf(kTileVectors, (numOctets - octet + kEights - 1) / kEights);
      for (int64_t v = 0; v < numVectors; v++) {
        const int64_t at = octet + v * kEights;
        withType(kv.type, [&](auto type) { widenKeys<type>(kv, octetsAt(at), octetsAt(at + kChunkOctets), widened + v * kLanes * kv.headDim); });
      }
      withSize<kTileQueries>(size, [&](auto count) { scoreVectors<count>(q, widened, kv.headDim, numVectors, tile); });
      for (int64_t i = 0; i < size; i++) {
        memcpy(scores + i * pitch + octet * kKvOctet, tile + i * kScorePitch, static_cast<size_t>(numVectors * kLanes) * 4);
      }
    }
    for (int64_t i = 0; i < size; i++) addWeights(args, sequence, head + i, length, scores + i * pitch);
  }
}

}  // namespace

void countAttentionKernel(const Op& op, int64_t begin, int64_t end, std::byte* scratch) {
  const CountAttentionArgs& args = op.args<CountAttentionArgs>();
  for (int64_t unit = begin; unit < end; unit++) {
    countHeads(args, args.rows[unit / args.kv.numKvHeads], unit % args.kv.numKvHeads, reinterpret_cast<float*>(scratch));
  }
}

}  // namespace millrace::MILLRACE_ISA
