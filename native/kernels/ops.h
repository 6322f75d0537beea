// The operations: their opcodes, decoded operands and how the thread pool may cut them. src/backend/program.ts says what each computes.
// Operands are raw pointers that runtime/decode*.cc has checked; kernels trust them.
#pragma once
#include <cstddef>
#include <cstdint>

#include "packed.h"
#include "tensor_type.h"

namespace millrace {

// Order is the opcode and equals OP_NAMES in src/backend/program.ts.
#define MILLRACE_OPS(X) \
  X(embed)              \
  X(rmsNorm)            \
  X(quantize)           \
  X(linear)             \
  X(add)                \
  X(gatedLinear)        \
  X(ropeTable)          \
  X(ropeAndWriteKv)     \
  X(pagedAttention)     \
  X(gatherRows)         \
  X(sample)             \
  X(pack)

enum class OpCode : uint32_t {
#define MILLRACE_OP(name) name,
  MILLRACE_OPS(MILLRACE_OP)
#undef MILLRACE_OP
};

constexpr const char* kOpNames[] = {
#define MILLRACE_OP(name) #name,
    MILLRACE_OPS(MILLRACE_OP)
#undef MILLRACE_OP
};
constexpr int kNumOps = sizeof(kOpNames) / sizeof(kOpNames[0]);

// Attention splits the KV range at multiples of this many positions; equals ATTENTION_PART in program.ts.
constexpr int64_t kAttentionPart = 256;
// A unit of `linear` and `gatedLinear` is this many weight rows.
constexpr int64_t kLinearRows = 16;
// Tokens that `linear` carries through one pass over the weights; bounds its scratch.
constexpr int64_t kLinearPassTokens = 512;
// Weights are dequantised this many columns at a time; a multiple of every block.
constexpr int64_t kLinearBlockCols = 512;
// `sample` looks at the vocabulary in parts of this many logits: a unit is one part of one row, and sums are merged part by part.
constexpr int64_t kSamplePart = 4096;
// Within a part the largest of every so many logits is noted, so that later steps skip what cannot matter.
constexpr int64_t kSampleChunk = 128;
// A unit of `add` is this many values.
constexpr int64_t kElementwiseUnit = 1024;

struct WeightRef {
  const uint8_t* data;  // rows · rowBytes bytes, any alignment
  int64_t rows;
  int64_t cols;
  int64_t rowBytes;
  TensorType type;
  bool isPacked;  // packed.h's layout: rowBytes means nothing
};

struct EmbedArgs {
  float* out;          // [numRows, cols]
  const int32_t* ids;  // [numRows], in [0, weight.rows)
  WeightRef weight;
  float scale;
};

struct RmsNormArgs {
  float* out;         // [numRows, width]; may be x
  const float* x;     // [numRows, width]
  const float* gain;  // [width]
  int64_t width;
  double eps;
};

struct QuantizeArgs {
  uint8_t* out;    // [M] rows of activationRowBytes(format, width)
  const float* x;  // [M, width]
  int64_t width;
  ActivationFormat format;
};

struct LinearArgs {
  float* out;         // [M, N]
  const float* x;     // [M, K]; with a packed weight, rows of its activation format
  const float* bias;  // [N] or null
  int64_t numRows;    // M
  WeightRef weight;   // [N, K]
  bool accumulate;
};

struct AddArgs {
  float* out;
  const float* x;
  int64_t numValues;
};

// gate.out = activation(gate) · up; up.out is room that only the operation itself uses.
struct GatedLinearArgs {
  LinearArgs gate;
  LinearArgs up;
  bool isGelu;  // else SiLU
};

struct RopeTableArgs {
  float* out;  // [M, half, 2]: cos, sin
  const int32_t* positions;
  const float* invFreq;
  int64_t half;
  double magnitude;
};

// Order is the operand `kvType` and equals KV_TYPE_CODE in program.ts.
enum class KvType { f16, f32, int8 };

// Entries of a block are stored eight by eight; a block is a whole number of octets.
constexpr int64_t kKvOctet = 8;

// Caches are [numBlocks, numKvHeads, blockSize / 8, octet]. An octet of keys is [headDim, 8], so that eight entries' scores are eight lanes;
// an octet of values is [8, headDim]. Of int8, an octet's eight f32 scales follow, one per entry: a value is its byte times the scale.
struct KvGeometry {
  int64_t numHeads;
  int64_t numKvHeads;
  int64_t headDim;
  int64_t blockSize;
  KvType type;

  constexpr int64_t valueBytes() const { return type == KvType::f16 ? 2 : type == KvType::f32 ? 4 : 1; }
  // Stored bytes of one entry's key (or value) of one head.
  constexpr int64_t entryBytes() const { return headDim * valueBytes() + (type == KvType::int8 ? 4 : 0); }
  // Bytes from an octet's start to its scales.
  constexpr int64_t scalesOffset() const { return kKvOctet * headDim; }
  constexpr int64_t octetBytes() const { return kKvOctet * entryBytes(); }
  // Bytes from the cache's start to an octet of (block, kvHead).
  constexpr int64_t octetOffset(int64_t block, int64_t kvHead, int64_t octet) const {
    return ((block * numKvHeads + kvHead) * (blockSize / kKvOctet) + octet) * octetBytes();
  }
};

struct RopeAndWriteKvArgs {
  float* q;            // [M, numHeads, headDim]
  float* k;            // [M, numKvHeads, headDim]
  const float* v;      // [M, numKvHeads, headDim]
  const float* table;  // [M, half, 2]
  uint8_t* keyCache;
  uint8_t* valueCache;
  const int32_t* slots;  // [M]; −1 stores nothing
  KvGeometry kv;
  int64_t half;
  bool isNeox;
};

// Rows that read the same stored entries in parts [partBegin, partEnd).
struct AttentionTask {
  int32_t firstRow;  // numRows entries of AttentionWork::rows from here
  int32_t numRows;
  int32_t partBegin;
  int32_t partEnd;
  int32_t isFirst;  // begins with its rows' first part
};

// A row whose parts several tasks compute. Its results lie in `slots`: the first task's parts merged, then every later part apart.
struct AttentionSplit {
  int32_t numTasks;
  int32_t firstTaskEnd;  // the first task's partEnd
  int32_t numSlots;
  int32_t firstSlot;
};

// How a step's attention is cut (runtime/attention_schedule.h); says who computes what and in which order, never what is computed.
struct AttentionWork {
  const AttentionTask* tasks;
  int64_t numTasks;
  const int32_t* rows;
  const int64_t* bundleEnds;    // [numBundles]: a unit of work is the (head, task) pairs up to here, as kvHead · numTasks + task
  const int32_t* splitOfRow;    // [M] index into splits, or −1 where one task does all
  const AttentionSplit* splits;
  float* slots;                 // [numSlots, numHeads, slotFloats]
  int64_t slotFloats;
  int32_t* pending;             // [numSplits, numKvHeads] tasks to go; whoever brings it to 0 merges, and sets it back
};

struct PagedAttentionArgs {
  float* out;      // [M, numHeads, headDim]
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
  int64_t window;  // 0 = unlimited
  const AttentionWork* work;
};

struct GatherRowsArgs {
  float* out;           // [R, width]
  const float* x;       // [*, width]
  const int32_t* rows;  // [R]
  int64_t width;
};

struct SampleArgs {
  const float* logits;    // [R, vocabSize]
  const double* params;   // [R, kSampleParams]
  const int32_t* history;
  const int32_t* biasIds;
  const float* biasValues;
  const int32_t* bannedIds;
  const int32_t* masks;
  int32_t* outIds;
  float* outLogprobs;
  int32_t* outRanks;
  int32_t* topIds;     // [R, topStride]
  float* topLogprobs;  // [R, topStride]
  int64_t vocabSize;
  int64_t topStride;
};

// Columns of SampleArgs::params; SAMPLE_PARAM in program.ts.
enum SampleParam {
  kMode, kTarget, kTemperature, kTopK, kTopP, kMinP, kPresencePenalty, kFrequencyPenalty, kRepetitionPenalty, kSeedHigh,
  kSeedLow, kPosition, kNumTop, kHistoryStart, kNumPromptTokens, kNumOutputTokens, kBiasStart, kNumBiases, kBanStart, kNumBanned,
  kMaskStart,
};
constexpr int64_t kSampleParams = 24;
constexpr int64_t maskWords(int64_t vocabSize) { return (vocabSize + 31) / 32; }

struct PackArgs {
  uint8_t* out;  // packedBytes(weight)
  WeightRef weight;
};

struct Op {
  OpCode code;
  bool isConcurrent;      // no barrier after this operation
  int64_t numUnits;       // independent pieces of output, in the operation's own unit
  double nanosPerUnit;    // rough cost, for cutting only: never changes a result
  int64_t scratchBytes;   // per thread
  // Memory that all units of the operation share, 64-byte aligned; its first clearedBytes are zero when the program starts.
  int64_t workspaceBytes;
  int64_t clearedBytes;
  std::byte* workspace;  // filled in by the scheduler
  // Filled in by the scheduler: units per chunk and the op's first chunk within its stage.
  int64_t unitsPerChunk;
  int64_t firstChunk;
  union {
    EmbedArgs embed;
    RmsNormArgs rmsNorm;
    QuantizeArgs quantize;
    LinearArgs linear;
    AddArgs add;
    GatedLinearArgs gatedLinear;
    RopeTableArgs ropeTable;
    RopeAndWriteKvArgs ropeAndWriteKv;
    PagedAttentionArgs pagedAttention;
    GatherRowsArgs gatherRows;
    SampleArgs sample;
    PackArgs pack;
  };
};

// Computes units [begin, end) of an operation. `scratch` is the thread's own, 64-byte aligned, at least op.scratchBytes.
using KernelFn = void (*)(const Op& op, int64_t begin, int64_t end, std::byte* scratch);

struct KernelTable {
  const char* isa;
  KernelFn run[kNumOps];
};

const KernelTable& portableKernels();
#if defined(__x86_64__)
const KernelTable& avx2Kernels();
const KernelTable& avx512Kernels();
const KernelTable& avx512vnniKernels();
#elif defined(__aarch64__)
const KernelTable& neonKernels();
const KernelTable& neondotKernels();
#endif

// Scratch of one operation, in bytes; used by decoding and by the kernels' own layout.
constexpr int64_t linearScratchBytes(int64_t numTokens) {
  const int64_t passTokens = numTokens < kLinearPassTokens ? numTokens : kLinearPassTokens;
  return kLinearRows * kLinearBlockCols * 4 + kLinearRows * passTokens * 16 * 4;
}
// Rows of one attention task at most: their queries share each widened key and value, and their scores stay in the second-level cache.
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
constexpr int64_t sampleParts(int64_t vocabSize) { return (vocabSize + kSamplePart - 1) / kSamplePart; }
constexpr int64_t sampleChunks(int64_t vocabSize) { return (vocabSize + kSampleChunk - 1) / kSampleChunk; }
// What one scan of a row leaves, by parts and chunks; a multiple of 8.
constexpr int64_t sampleScanBytes(int64_t vocabSize) {
  return sampleParts(vocabSize) * 16 + (sampleParts(vocabSize) + sampleChunks(vocabSize) + 1) / 2 * 8;
}
// One count per row of the parts that are done.
constexpr int64_t sampleCounterBytes(int64_t numRows) { return (numRows * 4 + 63) / 64 * 64; }
constexpr int64_t sampleScratchBytes(int64_t vocabSize) {
  return sampleScanBytes(vocabSize) + vocabSize * (16 + 4 + 4) + sampleChunks(vocabSize) * 4;
}

}  // namespace millrace
