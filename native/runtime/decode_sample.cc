// Decoding of `sample`: its parameters are numbers in a buffer, checked row by row.
#include <cmath>

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

struct ParamName {
  SampleParam column;
  const char* name;
  double min;
  double max;
};

constexpr double kMaxCount = INT32_MAX;
constexpr double kMaxWord = 4294967295.0;
constexpr double kMaxSafeInteger = 9007199254740991.0;

constexpr ParamName kIntegers[] = {
    {kMode, "params.mode", 0, 1},
    {kTopK, "params.topK", 0, kMaxCount},
    {kSeedHigh, "params.seedHigh", 0, kMaxWord},
    {kSeedLow, "params.seedLow", 0, kMaxWord},
    {kPosition, "params.position", 0, kMaxSafeInteger},
    {kHistoryStart, "params.historyStart", 0, kMaxCount},
    {kNumPromptTokens, "params.numPromptTokens", 0, kMaxCount},
    {kNumOutputTokens, "params.numOutputTokens", 0, kMaxCount},
    {kBiasStart, "params.biasStart", 0, kMaxCount},
    {kNumBiases, "params.numBiases", 0, kMaxCount},
    {kBanStart, "params.banStart", 0, kMaxCount},
    {kNumBanned, "params.numBanned", 0, kMaxCount},
    {kMaskStart, "params.maskStart", -1, kMaxCount},
};

constexpr double kMaxFloat = 3.4e38;
constexpr ParamName kNumbers[] = {
    {kTemperature, "params.temperature", 0, kMaxFloat},
    {kTopP, "params.topP", 0, kMaxFloat},
    {kMinP, "params.minP", 0, 1},
    {kPresencePenalty, "params.presencePenalty", -kMaxFloat, kMaxFloat},
    {kFrequencyPenalty, "params.frequencyPenalty", -kMaxFloat, kMaxFloat},
    {kRepetitionPenalty, "params.repetitionPenalty", 1e-30, kMaxFloat},
};

void checkRange(const Operands& in, const double* row, const ParamName& param, bool isInteger) {
  const double value = row[param.column];
  if (value >= param.min && value <= param.max && (!isInteger || std::floor(value) == value)) return;
  in.refuse(param.name, std::string(isInteger ? "an integer in [" : "in [") + std::to_string(param.min) + ", " + std::to_string(param.max) + "]", value);
}

// ids[start, start + count) lie in the buffer and in the vocabulary.
void checkIds(const Operands& in, const char* operand, const int32_t* ids, int64_t length, double start, double count, int64_t vocabSize) {
  if (start + count > static_cast<double>(length)) {
    in.refuse(operand, "at least " + std::to_string(static_cast<int64_t>(start + count)) + " values long", static_cast<double>(length));
  }
  for (int64_t i = 0; i < static_cast<int64_t>(count); i++) {
    const int32_t id = ids[static_cast<int64_t>(start) + i];
    if (id < 0 || id >= vocabSize) in.refuse(operand, "ids in [0, " + std::to_string(vocabSize) + ")", id);
  }
}

void checkRow(const Operands& in, const SampleArgs& args, const double* row, const Lists& lists) {
  for (const ParamName& param : kIntegers) checkRange(in, row, param, true);
  for (const ParamName& param : kNumbers) checkRange(in, row, param, false);
  checkRange(in, row, {kNumTop, "params.numTop", -1, static_cast<double>(args.topStride)}, true);
  if (row[kMode] == 1) checkRange(in, row, {kTarget, "params.target", 0, static_cast<double>(args.vocabSize - 1)}, true);
  checkIds(in, "history", args.history, lists.numHistory, row[kHistoryStart], row[kNumPromptTokens] + row[kNumOutputTokens], args.vocabSize);
  checkIds(in, "biasIds", args.biasIds, lists.numBiasIds, row[kBiasStart], row[kNumBiases], args.vocabSize);
  checkIds(in, "bannedIds", args.bannedIds, lists.numBannedIds, row[kBanStart], row[kNumBanned], args.vocabSize);
  const double maskEnd = row[kMaskStart] + static_cast<double>(maskWords(args.vocabSize));
  if (row[kMaskStart] >= 0 && maskEnd > static_cast<double>(lists.numMaskWords)) {
    in.refuse("masks", "at least " + std::to_string(static_cast<int64_t>(maskEnd)) + " values long", static_cast<double>(lists.numMaskWords));
  }
  if (row[kNumBiases] > 0 && row[kBiasStart] + row[kNumBiases] > static_cast<double>(lists.numBiasValues)) {
    in.refuse("biasValues", "as long as biasIds", static_cast<double>(lists.numBiasValues));
  }
}

}  // namespace

Op decodeSample(const Operands& in) {
  const int64_t numRows = in.integer(1, "numRows");
  const int64_t vocabSize = in.integer(2, "vocabSize", 1);
  SampleArgs args{};
  Lists lists{};
  args.vocabSize = vocabSize;
  args.topStride = in.integer(14, "topStride");
  args.logits = in.f32(0, "logits", saturatedProduct(numRows, vocabSize));
  args.params = in.f64(3, "params", saturatedProduct(numRows, kSampleParams));
  args.history = in.whole<int32_t>(4, "history", &lists.numHistory);
  args.biasIds = in.whole<int32_t>(5, "biasIds", &lists.numBiasIds);
  args.biasValues = in.whole<float>(6, "biasValues", &lists.numBiasValues);
  args.bannedIds = in.whole<int32_t>(7, "bannedIds", &lists.numBannedIds);
  args.masks = in.whole<int32_t>(8, "masks", &lists.numMaskWords);
  args.outIds = in.i32(9, "outIds", numRows);
  args.outLogprobs = in.f32(10, "outLogprobs", numRows);
  args.outRanks = in.i32(11, "outRanks", numRows);
  args.topIds = in.i32(12, "topIds", saturatedProduct(numRows, args.topStride));
  args.topLogprobs = in.f32(13, "topLogprobs", saturatedProduct(numRows, args.topStride));
  for (int64_t r = 0; r < numRows; r++) checkRow(in, args, args.params + r * kSampleParams, lists);
  // A row's tokens are more than its parts, so this cannot overflow where the logits fit in memory.
  const int64_t numParts = numRows == 0 ? 0 : sampleParts(vocabSize);
  Op op = makeOp(OpCode::sample, numRows * numParts, static_cast<double>(vocabSize < kSamplePart ? vocabSize : kSamplePart) * 0.5 + 100, sampleScratchBytes(vocabSize));
  if (numRows > 0) op.workspaceBytes = sampleCounterBytes(numRows) + numRows * sampleScanBytes(vocabSize);
  op.clearedBytes = sampleCounterBytes(numRows);
  op.sample = args;
  return op;
}

}  // namespace millrace
