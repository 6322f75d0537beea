// Decoding of `sample`: its parameters are numbers in a buffer, checked row by row.
#include <cmath>

#include "../kernels/sample.h"
#include "failure.h"
#include "operands.h"

namespace millrace {

namespace {

// The whole-buffer operands that rows index into.
struct Lists {
  int64_t numHistory;
  int64_t numBiasIds;
  int64_t numBiasValues;
  int64_t numBannedIds;
  int64_t numMaskWords;
};

struct ParamRange {
  SampleParam column;
  double min;
  double max;
};

constexpr double kMaxCount = INT32_MAX;
constexpr double kMaxWord = 4294967295.0;
constexpr double kMaxSafeInteger = 9007199254740991.0;

constexpr ParamRange kIntegers[] = {
    {kMode, 0, 1},
    {kTopK, 0, kMaxCount},
    {kSeedHigh, 0, kMaxWord},
    {kSeedLow, 0, kMaxWord},
    {kPosition, 0, kMaxSafeInteger},
    {kHistoryStart, 0, kMaxCount},
    {kNumPromptTokens, 0, kMaxCount},
    {kNumOutputTokens, 0, kMaxCount},
    {kBiasStart, 0, kMaxCount},
    {kNumBiases, 0, kMaxCount},
    {kBanStart, 0, kMaxCount},
    {kNumBanned, 0, kMaxCount},
    {kMaskStart, -1, kMaxCount},
    {kLateBiasStart, 0, kMaxCount},
    {kNumLateBiases, 0, kMaxCount},
};

constexpr double kMaxFloat = 3.4e38;
constexpr ParamRange kNumbers[] = {
    {kTemperature, 0, kMaxFloat},
    {kTopP, 0, kMaxFloat},
    {kMinP, 0, 1},
    {kPresencePenalty, -kMaxFloat, kMaxFloat},
    {kFrequencyPenalty, -kMaxFloat, kMaxFloat},
    {kRepetitionPenalty, 1e-30, kMaxFloat},
    {kTopNSigma, 0, kMaxFloat},
    {kTypicalP, 0, kMaxFloat},
    {kXtcProbability, 0, 1},
    {kXtcThreshold, 0, 1},
    {kDynatempRange, 0, kMaxFloat},
    {kDynatempExponent, 0, kMaxFloat},
};

void checkRange(const Operands<ops::sample>& in, const double* row, const ParamRange& param, bool isInteger) {
  const double value = row[param.column];
  if (value >= param.min && value <= param.max && (!isInteger || std::floor(value) == value)) return;
  const std::string range = "[" + std::to_string(param.min) + ", " + std::to_string(param.max) + "]";
  in.refuseNamed(kSampleParamNames[param.column], (isInteger ? "an integer in " : "in ") + range, formatNumber(value));
}

// ids[start, start + count) lie in the buffer and in the vocabulary.
void checkIds(const Operands<ops::sample>& in, operand::Place at, const int32_t* ids, int64_t length, double start, double count, int64_t vocabSize) {
  if (start + count > static_cast<double>(length)) {
    in.refuse(at, "at least " + std::to_string(static_cast<int64_t>(start + count)) + " values long", static_cast<double>(length));
  }
  for (int64_t i = 0; i < static_cast<int64_t>(count); i++) {
    const int32_t id = ids[static_cast<int64_t>(start) + i];
    if (id < 0 || id >= vocabSize) in.refuse(at, "ids in [0, " + std::to_string(vocabSize) + ")", id);
  }
}

// biasIds and biasValues have a row's biases from `start` on.
void checkBiases(const Operands<ops::sample>& in, const SampleArgs& args, double start, double count, const Lists& lists) {
  checkIds(in, ops::sample::biasIds, args.biasIds, lists.numBiasIds, start, count, args.vocabSize);
  if (count > 0 && start + count > static_cast<double>(lists.numBiasValues)) {
    in.refuse(ops::sample::biasValues, "as long as biasIds", static_cast<double>(lists.numBiasValues));
  }
}

void checkRow(const Operands<ops::sample>& in, const SampleArgs& args, const double* row, const Lists& lists) {
  for (const ParamRange& param : kIntegers) checkRange(in, row, param, true);
  for (const ParamRange& param : kNumbers) checkRange(in, row, param, false);
  checkRange(in, row, {kNumTop, -1, static_cast<double>(args.topStride)}, true);
  if (row[kMode] == 1) checkRange(in, row, {kTarget, 0, static_cast<double>(args.vocabSize - 1)}, true);
  checkIds(in, ops::sample::history, args.history, lists.numHistory, row[kHistoryStart], row[kNumPromptTokens] + row[kNumOutputTokens], args.vocabSize);
  checkBiases(in, args, row[kBiasStart], row[kNumBiases], lists);
  checkBiases(in, args, row[kLateBiasStart], row[kNumLateBiases], lists);
  checkIds(in, ops::sample::bannedIds, args.bannedIds, lists.numBannedIds, row[kBanStart], row[kNumBanned], args.vocabSize);
  const double maskEnd = row[kMaskStart] + static_cast<double>(maskWords(args.vocabSize));
  if (row[kMaskStart] >= 0 && maskEnd > static_cast<double>(lists.numMaskWords)) {
    in.refuse(ops::sample::masks, "at least " + std::to_string(static_cast<int64_t>(maskEnd)) + " values long", static_cast<double>(lists.numMaskWords));
  }
}

}  // namespace

Op decode(const Operands<ops::sample>& in, DecodeMemo&) {
  using ops::sample;
  const int64_t numRows = in.integer(sample::numRows);
  const int64_t vocabSize = in.integer(sample::vocabSize, 1);
  SampleArgs args{};
  Lists lists{};
  args.vocabSize = vocabSize;
  args.topStride = in.integer(sample::topStride);
  args.logits = in.buffer(sample::logits, saturatedProduct(numRows, vocabSize));
  args.params = in.buffer(sample::params, saturatedProduct(numRows, kSampleParams));
  args.history = in.whole(sample::history, &lists.numHistory);
  args.biasIds = in.whole(sample::biasIds, &lists.numBiasIds);
  args.biasValues = in.whole(sample::biasValues, &lists.numBiasValues);
  args.bannedIds = in.whole(sample::bannedIds, &lists.numBannedIds);
  args.masks = in.whole(sample::masks, &lists.numMaskWords);
  args.outIds = in.buffer(sample::outIds, numRows);
  args.outLogprobs = in.buffer(sample::outLogprobs, numRows);
  args.outRanks = in.buffer(sample::outRanks, numRows);
  args.topIds = in.buffer(sample::topIds, saturatedProduct(numRows, args.topStride));
  args.topLogprobs = in.buffer(sample::topLogprobs, saturatedProduct(numRows, args.topStride));
  for (int64_t r = 0; r < numRows; r++) checkRow(in, args, args.params + r * kSampleParams, lists);
  // A row's tokens are more than its parts, so this cannot overflow where the logits fit in memory.
  const int64_t numParts = numRows == 0 ? 0 : sampleParts(vocabSize);
  const double nanosPerUnit = static_cast<double>(vocabSize < kSamplePart ? vocabSize : kSamplePart) * 0.5 + 100;
  Op op = makeOp(OpCode::sample, args, numRows * numParts, nanosPerUnit, sampleScratchBytes(vocabSize));
  if (numRows > 0) op.workspaceBytes = sampleCounterBytes(numRows) + numRows * sampleScanBytes(vocabSize);
  op.clearedBytes = sampleCounterBytes(numRows);
  return op;
}

}  // namespace millrace
