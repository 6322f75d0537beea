// The arguments of `sample`: its decoded operands, and the memory that its parts and rows need.
#pragma once
#include <cstdint>

#include "op_table.h"

namespace millrace {

// `sample` looks at the vocabulary in parts of this many logits: a unit is one part of one row, and sums are merged
// part by part.
constexpr int64_t kSamplePart = 4096;
// Within a part the largest of every so many logits is noted, so that later steps skip what cannot matter.
constexpr int64_t kSampleChunk = 128;

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

constexpr int64_t maskWords(int64_t vocabSize) { return (vocabSize + 31) / 32; }
constexpr int64_t sampleParts(int64_t vocabSize) { return (vocabSize + kSamplePart - 1) / kSamplePart; }
constexpr int64_t sampleChunks(int64_t vocabSize) { return (vocabSize + kSampleChunk - 1) / kSampleChunk; }
// Size of the results of one scan of a row, by parts and chunks; a multiple of 8.
constexpr int64_t sampleScanBytes(int64_t vocabSize) {
  return sampleParts(vocabSize) * 16 + (sampleParts(vocabSize) + sampleChunks(vocabSize) + 1) / 2 * 8;
}
// One count per row of the parts that are done.
constexpr int64_t sampleCounterBytes(int64_t numRows) { return (numRows * 4 + 63) / 64 * 64; }
// Candidates of a row: one for each token, and one that is written and not kept.
constexpr int64_t sampleCandidates(int64_t vocabSize) { return vocabSize + 1; }
constexpr int64_t sampleScratchBytes(int64_t vocabSize) {
  return sampleScanBytes(vocabSize) + sampleCandidates(vocabSize) * 16 + vocabSize * (4 + 4) + sampleChunks(vocabSize) * 4;
}

}  // namespace millrace
