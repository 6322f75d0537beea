// sample: one token per row of logits. A unit is a row. Arithmetic is double throughout and free of fused operations, so every
// instruction set chooses the same token.
//
// Where a sum's order could matter: the log-sum-exp and the top-p normaliser without top-k run in id order; with top-k the normaliser
// runs in sorted order; cumulative top-p sums always run in sorted order.
#include "candidates.h"
#include "kernel.h"
#include "noise.h"

namespace millrace::MILLRACE_ISA {
namespace {

constexpr double kMinusInfinity = -__builtin_inf();

// One row's operands and scratch.
struct Row {
  const SampleArgs& args;
  int64_t index;
  const double* params;
  const float* logits;
  int64_t vocabSize;
  double* values;   // [vocabSize] raw, then adjusted logits; never NaN once prepared
  double* weights;  // [vocabSize]
  int32_t* ids;     // [vocabSize]
  int32_t* counts;  // [vocabSize]

  int64_t integer(SampleParam column) const { return static_cast<int64_t>(params[column]); }
};

// a − b where equal infinities differ by nothing.
MILLRACE_INLINE double difference(double a, double b) { return a == b ? 0.0 : a - b; }

void loadLogits(Row& row) {
  for (int64_t i = 0; i < row.vocabSize; i++) {
    const double value = row.logits[i];
    row.values[i] = value == value ? value : kMinusInfinity;
  }
}

double maximumOf(const double* values, int64_t numValues) {
  double maximum = kMinusInfinity;
  for (int64_t i = 0; i < numValues; i++) maximum = values[i] > maximum ? values[i] : maximum;
  return maximum;
}

// ln Σ e^(value − maximum), in id order.
double logSum(const Row& row, double maximum) {
  constexpr int64_t kBlock = 256;
  double block[kBlock];
  double sum = 0.0;
  for (int64_t i = 0; i < row.vocabSize; i += kBlock) {
    const int64_t numValues = minOf(kBlock, row.vocabSize - i);
    for (int64_t j = 0; j < numValues; j++) block[j] = expDouble(difference(row.values[i + j], maximum));
    for (int64_t j = 0; j < numValues; j++) sum += block[j];
  }
  return logDouble(sum);
}

// Log-probability from the raw logits; −inf stays −inf even when every logit is.
MILLRACE_INLINE float logprobOf(double value, double maximum, double logSumExp) {
  if (value == kMinusInfinity) return static_cast<float>(kMinusInfinity);
  return static_cast<float>(difference(value, maximum) - logSumExp);
}

// The most likely tokens of the raw distribution; returns the log of its normaliser.
double reportTop(Row& row, double maximum) {
  const double logSumExp = logSum(row, maximum);
  const int64_t numTop = minOf(row.integer(kNumTop), row.vocabSize);
  if (numTop > 0) {
    selectTop(row.values, row.vocabSize, numTop, kMinusInfinity, row.ids);
    int32_t* topIds = row.args.topIds + row.index * row.args.topStride;
    float* topLogprobs = row.args.topLogprobs + row.index * row.args.topStride;
    for (int64_t i = 0; i < numTop; i++) {
      topIds[i] = row.ids[i];
      topLogprobs[i] = logprobOf(row.values[row.ids[i]], maximum, logSumExp);
    }
  }
  return logSumExp;
}

// The chosen token's raw log-probability and rank; reads the logits again because `values` may hold adjusted ones by now.
void reportChosen(Row& row, int32_t chosen, double maximum, double logSumExp) {
  const float raw = row.logits[chosen];
  const float chosenLogit = raw == raw ? raw : -__builtin_inff();
  int32_t rank = 1;
  for (int64_t i = 0; i < chosen; i++) rank += row.logits[i] >= chosenLogit || (row.logits[i] != row.logits[i] && chosenLogit == -__builtin_inff());
  for (int64_t i = chosen + 1; i < row.vocabSize; i++) rank += row.logits[i] > chosenLogit;
  row.args.outLogprobs[row.index] = logprobOf(chosenLogit, maximum, logSumExp);
  row.args.outRanks[row.index] = rank;
}

bool hasPenalties(const Row& row) {
  return row.params[kRepetitionPenalty] != 1.0 || row.params[kFrequencyPenalty] != 0.0 || row.params[kPresencePenalty] != 0.0;
}

// Each distinct token of the history once: repetition for all of it, frequency and presence for the output part.
void applyPenalties(Row& row) {
  const double repetition = row.params[kRepetitionPenalty];
  const double frequency = row.params[kFrequencyPenalty];
  const double presence = row.params[kPresencePenalty];
  const int32_t* history = row.args.history + row.integer(kHistoryStart);
  const int64_t numPrompt = row.integer(kNumPromptTokens);
  const int64_t numTokens = numPrompt + row.integer(kNumOutputTokens);
  // Bit 0: seen; the rest: how often in the output.
  memset(row.counts, 0, static_cast<size_t>(row.vocabSize) * 4);
  for (int64_t i = 0; i < numPrompt; i++) row.counts[history[i]] = 1;
  for (int64_t i = numPrompt; i < numTokens; i++) row.counts[history[i]] = (row.counts[history[i]] | 1) + 2;
  for (int64_t i = 0; i < numTokens; i++) {
    const int32_t id = history[i];
    if (row.counts[id] == 0) continue;
    const int32_t numOutputs = row.counts[id] >> 1;
    row.counts[id] = 0;
    double value = row.values[id];
    value = value > 0.0 ? value / repetition : value * repetition;
    value -= frequency * numOutputs;
    if (numOutputs > 0) value -= presence;
    row.values[id] = value;
  }
}

bool isAdjusted(const Row& row) { return row.params[kNumBiases] > 0 || row.params[kNumBanned] > 0 || hasPenalties(row); }

void adjust(Row& row) {
  const int64_t biasStart = row.integer(kBiasStart);
  for (int64_t i = biasStart; i < biasStart + row.integer(kNumBiases); i++) {
    row.values[row.args.biasIds[i]] += static_cast<double>(row.args.biasValues[i]);
  }
  const int64_t banStart = row.integer(kBanStart);
  for (int64_t i = banStart; i < banStart + row.integer(kNumBanned); i++) row.values[row.args.bannedIds[i]] = kMinusInfinity;
  if (hasPenalties(row)) applyPenalties(row);
  for (int64_t i = 0; i < row.vocabSize; i++) {
    if (row.values[i] != row.values[i]) row.values[i] = kMinusInfinity;
  }
}

int32_t argMax(const double* values, int64_t numValues) {
  int64_t best = 0;
  for (int64_t i = 1; i < numValues; i++) best = values[i] > values[best] ? i : best;
  return static_cast<int32_t>(best);
}

// Greedy over untouched logits: no copy of them is made.
int32_t argMaxOfLogits(const float* logits, int64_t numValues) {
  float maximum = -__builtin_inff();
  for (int64_t i = 0; i < numValues; i++) maximum = logits[i] > maximum ? logits[i] : maximum;
  // NaN counts as −∞, so a row of nothing else is one tie.
  if (maximum == -__builtin_inff()) return 0;
  for (int64_t i = 0; i < numValues; i++) {
    if (logits[i] == maximum) return static_cast<int32_t>(i);
  }
  return 0;
}

// The smallest front of the sorted candidates whose weight reaches topP of the whole; at least one. Candidates are sorted on return only
// as far as needed: a histogram over the logits (1/16 wide) first finds which of them can matter.
int64_t keepTopP(Row& row, int64_t numIds, bool isSorted, double topP, double maximum) {
  constexpr int64_t kBuckets = 1024;
  double mass[kBuckets] = {};
  double total = 0.0;
  const auto bucketOf = [&](int32_t id) {
    const double depth = difference(maximum, row.values[id]) * 16.0;
    return depth < kBuckets - 1 ? static_cast<int64_t>(depth) : kBuckets - 1;
  };
  for (int64_t i = 0; i < numIds; i++) {
    const int32_t id = row.ids[i];
    total += row.weights[id];
    if (!isSorted) mass[bucketOf(id)] += row.weights[id];
  }
  const double target = topP * total;
  if (!isSorted) {
    int64_t deepest = 0;
    double reached = mass[0];
    while (deepest < kBuckets - 1 && reached < target + 1e-9 * total) reached += mass[++deepest];
    int32_t* end = std::partition(row.ids, row.ids + numIds, [&](int32_t id) { return bucketOf(id) <= deepest; });
    numIds = end - row.ids;
    sortFront(row.ids, numIds, numIds, row.values);
  }
  double reached = 0.0;
  for (int64_t i = 0; i < numIds; i++) {
    reached += row.weights[row.ids[i]];
    if (reached >= target) return i + 1;
  }
  return numIds;
}

// min-p, then top-k, then top-p; leaves the survivors in row.ids.
int64_t filter(Row& row, double maximum) {
  const double minP = row.params[kMinP];
  const double topP = row.params[kTopP];
  const int64_t topK = row.integer(kTopK);
  if (minP > 0.0 || topP < 1.0) {
    for (int64_t i = 0; i < row.vocabSize; i++) row.weights[i] = expDouble(difference(row.values[i], maximum));
  }
  if (minP > 0.0) {
    for (int64_t i = 0; i < row.vocabSize; i++) {
      if (!(row.weights[i] >= minP)) row.values[i] = kMinusInfinity;
    }
  }
  const bool hasTopK = topK > 0 && topK < row.vocabSize;
  int64_t numIds = 0;
  if (hasTopK) {
    numIds = selectTop(row.values, row.vocabSize, topK, -1.7976931348623157e308, row.ids);
  } else {
    for (int64_t i = 0; i < row.vocabSize; i++) {
      if (row.values[i] > kMinusInfinity) row.ids[numIds++] = static_cast<int32_t>(i);
    }
  }
  return topP < 1.0 ? keepTopP(row, numIds, hasTopK, topP, maximum) : numIds;
}

// Arg-max of value + noise over `ids` (all tokens when null). Tokens that even the largest noise could not lift are not drawn.
int32_t argMaxWithNoise(const Row& row, const int32_t* ids, int64_t numIds, int32_t mostLikely) {
  const uint64_t seed = static_cast<uint64_t>(row.params[kSeedHigh]) << 32 | static_cast<uint64_t>(row.params[kSeedLow]);
  const NoiseSource noise(seed, static_cast<uint64_t>(row.params[kPosition]));
  int32_t best = mostLikely;
  double bestScore = row.values[best] + noise.of(best);
  for (int64_t i = 0; i < numIds; i++) {
    const int32_t id = ids == nullptr ? static_cast<int32_t>(i) : ids[i];
    if (row.values[id] + kMaxNoise < bestScore) continue;
    const double score = row.values[id] + noise.of(id);
    if (score > bestScore || (score == bestScore && id < best)) {
      best = id;
      bestScore = score;
    }
  }
  return best;
}

// Chooses from row.values, which hold the adjusted logits.
int32_t choose(Row& row) {
  const double temperature = row.params[kTemperature];
  const int32_t mostLikely = argMax(row.values, row.vocabSize);
  if (temperature == 0.0 || row.values[mostLikely] == kMinusInfinity) return mostLikely;
  for (int64_t i = 0; i < row.vocabSize; i++) row.values[i] /= temperature;
  const int64_t topK = row.integer(kTopK);
  const bool isFiltered = row.params[kMinP] > 0.0 || row.params[kTopP] < 1.0 || (topK > 0 && topK < row.vocabSize);
  if (!isFiltered) return argMaxWithNoise(row, nullptr, row.vocabSize, mostLikely);
  const int64_t numIds = filter(row, row.values[mostLikely]);
  return argMaxWithNoise(row, row.ids, numIds, mostLikely);
}

void sampleRow(Row& row) {
  const bool isScoring = row.params[kMode] == 1.0;
  const bool hasLogprobs = row.params[kNumTop] >= 0.0;
  int32_t& chosen = row.args.outIds[row.index];
  if (isScoring) chosen = static_cast<int32_t>(row.params[kTarget]);
  const bool isPlainGreedy = row.params[kTemperature] == 0.0 && !isAdjusted(row);
  if (!isScoring && isPlainGreedy) chosen = argMaxOfLogits(row.logits, row.vocabSize);
  if ((isScoring || isPlainGreedy) && !hasLogprobs) return;

  loadLogits(row);
  double maximum = 0.0;
  double logSumExp = 0.0;
  if (hasLogprobs) {
    maximum = maximumOf(row.values, row.vocabSize);
    logSumExp = reportTop(row, maximum);
  }
  if (!isScoring && !isPlainGreedy) {
    if (isAdjusted(row)) adjust(row);
    chosen = choose(row);
  }
  if (hasLogprobs) reportChosen(row, chosen, maximum, logSumExp);
}

}  // namespace

void sampleKernel(const Op& op, int64_t begin, int64_t end, std::byte* scratch) {
  const SampleArgs& args = op.sample;
  double* values = reinterpret_cast<double*>(scratch);
  double* weights = values + args.vocabSize;
  int32_t* ids = reinterpret_cast<int32_t*>(weights + args.vocabSize);
  int32_t* counts = ids + args.vocabSize;
  for (int64_t r = begin; r < end; r++) {
    Row row = {args, r, args.params + r * kSampleParams, args.logits + r * args.vocabSize, args.vocabSize, values, weights, ids, counts};
    sampleRow(row);
  }
}

}  // namespace millrace::MILLRACE_ISA
