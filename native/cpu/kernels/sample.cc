// sample: one token per row of logits. A unit is one part of one row: the scan of that part. The thread that scans a
// row's last part then chooses the row's token from the scans' results in the operation's workspace.
//
// No operation here is fused and choices are made in double, so every instruction set chooses the same token. Where a
// sum's order could matter: normalisers over the whole vocabulary are sums by parts of f32 exponentials, merged in
// order; with top-k the normaliser runs in sorted order; cumulative top-p sums run from the most likely token down, in
// classes of logits 1/16 apart and in sorted order where the cut is.
#include <cmath>

#include "candidates.h"
#include "kernel.h"
#include "noise.h"
#include "reshape.h"
#include "sample.h"
#include "vocabulary_scan.h"
#include "weights.h"

namespace millrace::MILLRACE_ISA {
namespace {

constexpr double kMinusInfinity = -__builtin_inf();
// A row without a token to choose: all of its logits are NaN or −∞.
constexpr int32_t kNoToken = -1;

// One row's operands, its scan of the raw logits and the thread's scratch.
struct Row {
  const SampleArgs& args;
  int64_t index;
  const double* params;
  VocabularyScan raw;
  VocabularyScan adjusted;  // of `logits`, where adjusted tokens are −∞
  Candidate* candidates;    // [sampleCandidates(vocabSize)]
  float* logits;            // [vocabSize]
  int32_t* slots;           // [vocabSize]
  float* maxima;            // [chunks]

  int64_t integer(SampleParam column) const { return static_cast<int64_t>(params[column]); }
};

bool isScoring(const double* params) { return params[kMode] == 1.0; }
bool hasLogprobs(const double* params) { return params[kNumTop] >= 0.0; }

bool hasPenalties(const double* params) {
  return params[kRepetitionPenalty] != 1.0 || params[kFrequencyPenalty] != 0.0 || params[kPresencePenalty] != 0.0;
}
bool hasBiases(const double* params) { return params[kNumBiases] > 0 || params[kNumLateBiases] > 0; }
bool isAdjusted(const double* params) { return hasBiases(params) || params[kNumBanned] > 0 || params[kMaskStart] >= 0 || hasPenalties(params); }

bool hasTopK(const double* params, int64_t vocabSize) { return params[kTopK] > 0.0 && params[kTopK] < static_cast<double>(vocabSize); }

// The temperature of the probabilities that min-p and top-p see. Where the likeliest token is not simply taken at
// temperature 0, they see those of the model.
double filterTemperature(const double* params) { return params[kTemperature] == 0.0 && isReshaped(params) ? 1.0 : params[kTemperature]; }

// Top-p alone chooses among all tokens.
bool isWholeTopP(const double* params, int64_t vocabSize) {
  return params[kTopP] < 1.0 && params[kMinP] == 0.0 && params[kTopNSigma] == 0.0 && !hasTopK(params, vocabSize);
}

// The temperature of the sums that top-p needs over the whole vocabulary; 0 when it needs none.
double temperatureOfSums(const double* params, int64_t vocabSize) { return isWholeTopP(params, vocabSize) ? filterTemperature(params) : 0.0; }

// Log-probability from the raw logits; −inf stays −inf even when every logit is.
MILLRACE_INLINE float logprobOf(double value, double maximum, double logSumExp) {
  if (!(value > kMinusInfinity)) return kLowest;
  return static_cast<float>(difference(value, maximum) - logSumExp);
}

// The most likely tokens of the raw distribution.
void reportTop(Row& row, double maximum, double logSumExp) {
  const int64_t numTop = minOf(row.integer(kNumTop), row.args.vocabSize);
  if (numTop == 0) return;
  const int64_t numFound = gather(row.raw, reachedByTop(row.raw, numTop, kLowest, row.maxima), row.candidates);
  sortFront(row.candidates, numFound, numTop);
  int32_t* topIds = row.args.topIds + row.index * row.args.topStride;
  float* topLogprobs = row.args.topLogprobs + row.index * row.args.topStride;
  for (int64_t i = 0; i < numTop; i++) {
    topIds[i] = row.candidates[i].id;
    topLogprobs[i] = logprobOf(row.candidates[i].value, maximum, logSumExp);
  }
}

// Null when every token may come.
const int32_t* maskOf(const Row& row) { return row.params[kMaskStart] < 0 ? nullptr : row.args.masks + row.integer(kMaskStart); }

// The candidate of a token that is to be adjusted, made when first asked for.
Candidate& adjustedToken(Row& row, int32_t id, int64_t* numAdjusted) {
  if (row.slots[id] == 0) {
    const double logit = row.raw.logits[id];
    row.candidates[*numAdjusted] = {logit == logit && mayCome(maskOf(row), id) ? logit : kMinusInfinity, id, 0};
    row.slots[id] = static_cast<int32_t>(++*numAdjusted);
  }
  return row.candidates[row.slots[id] - 1];
}

// Each distinct token of the history once: repetition for all of it, frequency and presence for the output part.
void applyPenalties(Row& row, int64_t* numAdjusted) {
  const int32_t* history = row.args.history + row.integer(kHistoryStart);
  const int64_t numPrompt = row.integer(kNumPromptTokens);
  const int64_t numTokens = numPrompt + row.integer(kNumOutputTokens);
  for (int64_t i = 0; i < numPrompt; i++) adjustedToken(row, history[i], numAdjusted).history |= 1;
  for (int64_t i = numPrompt; i < numTokens; i++) {
    int32_t& seen = adjustedToken(row, history[i], numAdjusted).history;
    seen = (seen | 1) + 2;
  }
  for (int64_t i = 0; i < *numAdjusted; i++) {
    Candidate& token = row.candidates[i];
    if (token.history == 0) continue;
    const int32_t numOutputs = token.history >> 1;
    token.value = token.value > 0.0 ? token.value / row.params[kRepetitionPenalty] : token.value * row.params[kRepetitionPenalty];
    token.value -= row.params[kFrequencyPenalty] * numOutputs;
    if (numOutputs > 0) token.value -= row.params[kPresencePenalty];
  }
}

void addBiases(Row& row, SampleParam startColumn, SampleParam countColumn, int64_t* numAdjusted) {
  const int64_t start = row.integer(startColumn);
  for (int64_t i = start; i < start + row.integer(countColumn); i++) {
    adjustedToken(row, row.args.biasIds[i], numAdjusted).value += static_cast<double>(row.args.biasValues[i]);
  }
}

// Leaves the adjusted tokens at the front of row.candidates, without those of −∞, and scans the others; returns how
// many are adjusted.
int64_t adjust(Row& row) {
  memset(row.slots, 0, static_cast<size_t>(row.args.vocabSize) * 4);
  int64_t numAdjusted = 0;
  addBiases(row, kBiasStart, kNumBiases, &numAdjusted);
  const int64_t banStart = row.integer(kBanStart);
  for (int64_t i = banStart; i < banStart + row.integer(kNumBanned); i++) {
    adjustedToken(row, row.args.bannedIds[i], &numAdjusted).value = kMinusInfinity;
  }
  if (hasPenalties(row.params)) applyPenalties(row, &numAdjusted);
  addBiases(row, kLateBiasStart, kNumLateBiases, &numAdjusted);

  copyMasked(row.raw.logits, maskOf(row), row.args.vocabSize, row.logits);
  for (int64_t i = 0; i < numAdjusted; i++) row.logits[row.candidates[i].id] = kLowest;
  const double temperature = temperatureOfSums(row.params, row.args.vocabSize);
  for (int64_t part = 0; part < sampleParts(row.args.vocabSize); part++) scanPart(row.adjusted, part, false, temperature);
  // NaN is −∞ too.
  Candidate* end = std::remove_if(row.candidates, row.candidates + numAdjusted, [](const Candidate& token) { return !(token.value > kMinusInfinity); });
  return end - row.candidates;
}

// Input of the filters and the draw: a scanned row and, at the front of row.candidates, the tokens that are adjusted.
struct Pool {
  const VocabularyScan& scan;
  int64_t numAdjusted;
  Candidate best;
};

Candidate mostLikely(const Row& row, const VocabularyScan& scan, int64_t numAdjusted) {
  Candidate best = {maximumOf(scan), argMax(scan), 0};
  for (int64_t i = 0; i < numAdjusted; i++) {
    if (ByValueThenId()(row.candidates[i], best)) best = row.candidates[i];
  }
  return best;
}

// A float no larger than the value.
float floatBelow(double value) {
  const double slack = value < 0.0 ? value * 1.0000002 : value * 0.9999998;
  return slack < -FLT_MAX ? -FLT_MAX : static_cast<float>(slack - 1e-40);
}

// Top-p of the whole vocabulary: gathers ever deeper until the gathered weigh enough, then cuts.
int64_t keepTopP(const Row& row, const Pool& pool, const Weigher& weigher) {
  const double temperature = filterTemperature(row.params);
  const double topP = row.params[kTopP];
  const double vocabSize = static_cast<double>(row.args.vocabSize);
  const double total = mergedSum(pool.scan, pool.scan.scaledSums, pool.best.value, temperature) + weigher.sum(row.candidates, pool.numAdjusted);
  const double target = topP * total;
  // Tokens deeper than this weigh less than (1 − p) · total together, however many they are.
  const double enough = logDouble(vocabSize / ((1.0 - topP) * total) + 1.0);
  for (double depth = enough / 4; ; depth *= 2) {
    const bool isAll = depth > 2 * enough;
    const float threshold = isAll ? -FLT_MAX : floatBelow(pool.best.value - depth * temperature);
    const int64_t numTokens = pool.numAdjusted + gather(pool.scan, threshold, row.candidates + pool.numAdjusted);
    const ByDepth order(weigher);
    const Classes<ByDepth> classes(row.candidates, numTokens, weigher, order);
    if (isAll || classes.total() >= target * (1.0 + 1e-9)) return classes.frontOfUnsorted(row.candidates, numTokens, target);
  }
}

// The lowest value that top-n-sigma keeps: n standard deviations of all values below the highest. −∞ where it is off.
double leastOfSigma(const Row& row, const Pool& pool) {
  const double n = row.params[kTopNSigma];
  if (n == 0.0) return kMinusInfinity;
  const auto forEach = [&](auto use) {
    for (int64_t i = 0; i < pool.numAdjusted; i++) use(row.candidates[i].value);
    for (int64_t id = 0; id < row.args.vocabSize; id++) {
      if (pool.scan.logits[id] > kLowest) use(static_cast<double>(pool.scan.logits[id]));
    }
  };
  double count = 0.0;
  double sum = 0.0;
  forEach([&](double value) {
    count += 1.0;
    sum += value;
  });
  const double mean = sum / count;
  double squares = 0.0;
  forEach([&](double value) { squares += (value - mean) * (value - mean); });
  return pool.best.value - n * std::sqrt(squares / count);
}

// top-n-sigma, then min-p, then top-k, then top-p; leaves the survivors at the front of row.candidates.
int64_t filter(const Row& row, const Pool& pool) {
  const double minP = row.params[kMinP];
  const double topP = row.params[kTopP];
  const double temperature = filterTemperature(row.params);
  const Weigher weigher(pool.best.value, temperature);
  const bool isTopK = hasTopK(row.params, row.args.vocabSize);
  if (isWholeTopP(row.params, row.args.vocabSize)) return keepTopP(row, pool, weigher);

  float threshold = isTopK ? reachedByTop(pool.scan, row.integer(kTopK), -FLT_MAX, row.maxima) : -FLT_MAX;
  const double least = leastOfSigma(row, pool);
  if (least > kMinusInfinity) threshold = std::max(threshold, floatBelow(least));
  if (minP > 1e-300) threshold = std::max(threshold, floatBelow(pool.best.value + temperature * logDouble(minP) * 1.000001));
  int64_t numTokens = pool.numAdjusted + gather(pool.scan, threshold, row.candidates + pool.numAdjusted);
  if (least > kMinusInfinity) {
    numTokens = std::remove_if(row.candidates, row.candidates + numTokens, [&](const Candidate& token) { return token.value < least; }) - row.candidates;
  }
  if (minP > 0.0) {
    int64_t numKept = 0;
    weigher.forEach(row.candidates, numTokens, [&](int64_t i, double weight) {
      if (weight >= minP) row.candidates[numKept++] = row.candidates[i];
    });
    numTokens = numKept;
  }
  if (isTopK) numTokens = sortFront(row.candidates, numTokens, row.integer(kTopK));
  if (topP >= 1.0) return numTokens;
  if (isTopK) return frontOf(row.candidates, numTokens, weigher, 0.0, topP * weigher.sum(row.candidates, numTokens));
  const ByDepth order(weigher);
  const Classes<ByDepth> classes(row.candidates, numTokens, weigher, order);
  return classes.frontOfUnsorted(row.candidates, numTokens, topP * classes.total());
}

NoiseSource noiseOf(const Row& row) {
  const uint64_t seed = static_cast<uint64_t>(row.params[kSeedHigh]) << 32 | static_cast<uint64_t>(row.params[kSeedLow]);
  return NoiseSource(seed, static_cast<uint64_t>(row.params[kPosition]));
}

// Arg-max of value / temperature + noise. Noise is computed only where it could win.
class Draw {
 public:
  Draw(const Row& row, const Candidate& first, double temperature)
      : noise_(noiseOf(row)),
        temperature_(temperature),
        inverse_(1.0 / temperature_),
        best_(first.id),
        bestScore_(first.value / temperature_ + noise_.of(first.id)) {}

  int32_t best() const { return best_; }

  void consider(double value, int32_t id) {
    // The margin is for the roundings of the bound.
    if (value * inverse_ + noise_.boundOf(id) < bestScore_ - kMargin) return;
    const double score = value / temperature_ + noise_.of(id);
    if (score > bestScore_ || (score == bestScore_ && id < best_)) {
      best_ = id;
      bestScore_ = score;
    }
  }

  // A chunk of logits, all finite or −∞, none above `top` by more than a rounding.
  void considerChunk(const float* x, int64_t firstId, float top) {
    // Eight tokens at a time against a bound of their noise.
    const f32x8 needed = splat8(static_cast<float>(bestScore_ - top * inverse_ - kMargin));
    const f32x8 factor = splat8(inverseOf(temperature_));
    for (int i = 0; i < kSampleChunk; i += 8) {
      const f32x8 bounds = (load8(x + i) - splat8(top)) * factor + noise_.bounds8(firstId + i);
      for (int lanes = moveMask8(bounds >= needed); lanes != 0; lanes &= lanes - 1) {
        const int lane = __builtin_ctz(static_cast<unsigned>(lanes));
        consider(x[i + lane], static_cast<int32_t>(firstId + i + lane));
      }
    }
  }

  bool isBeyond(double value) const { return value * inverse_ + kMaxNoise < bestScore_; }

 private:
  static constexpr double kMargin = 1e-3;

  NoiseSource noise_;
  double temperature_;
  double inverse_;
  int32_t best_;
  double bestScore_;
};

int32_t drawFromAll(const Row& row, const Pool& pool) {
  Draw draw(row, pool.best, row.params[kTemperature]);
  float padded[kSampleChunk];
  for (int64_t i = 0; i < pool.numAdjusted; i++) draw.consider(row.candidates[i].value, row.candidates[i].id);
  for (int64_t chunk = 0; chunk < sampleChunks(row.args.vocabSize); chunk++) {
    if (draw.isBeyond(pool.scan.chunkMaxima[chunk])) continue;
    draw.considerChunk(chunkAt(pool.scan, chunk, padded), chunk * kSampleChunk, static_cast<float>(pool.best.value));
  }
  return draw.best();
}

bool isFiltered(const Row& row) {
  const double* params = row.params;
  return params[kMinP] > 0.0 || params[kTopP] < 1.0 || params[kTopNSigma] > 0.0 || hasTopK(params, row.args.vocabSize);
}

int32_t choose(Row& row) {
  const bool hasAdjusted = isAdjusted(row.params);
  const int64_t numAdjusted = hasAdjusted ? adjust(row) : 0;
  const VocabularyScan& scan = hasAdjusted ? row.adjusted : row.raw;
  const Pool pool = {scan, numAdjusted, mostLikely(row, scan, numAdjusted)};
  if (pool.best.value == kMinusInfinity) return kNoToken;
  // An infinite logit leaves no other token a chance.
  if (std::isinf(pool.best.value)) return pool.best.id;
  const bool hasShape = isReshaped(row.params);
  double temperature = row.params[kTemperature];
  if (temperature == 0.0 && !hasShape) return pool.best.id;
  if (!hasShape && !isFiltered(row)) return drawFromAll(row, pool);
  int64_t numTokens = filter(row, pool);
  Candidate first = pool.best;
  if (hasShape) {
    const Reshaped reshaped = reshape(row.params, row.candidates, numTokens, pool.best.value, noiseOf(row).uniform());
    numTokens = reshaped.numTokens;
    temperature = reshaped.temperature;
    first = reshaped.best;
    if (temperature < kGreedyTemperature) return first.id;
  }
  Draw draw(row, first, temperature);
  for (int64_t i = 0; i < numTokens; i++) {
    if (!draw.isBeyond(row.candidates[i].value)) draw.consider(row.candidates[i].value, row.candidates[i].id);
  }
  return draw.best();
}

bool needsRawScan(const double* params) { return hasLogprobs(params) || !(isScoring(params) || isAdjusted(params)); }

void finishRow(Row& row) {
  double maximum = 0.0;
  double logSumExp = 0.0;
  if (hasLogprobs(row.params)) {
    maximum = maximumOf(row.raw);
    logSumExp = logDouble(mergedSum(row.raw, row.raw.sums, maximum, 1.0));
    reportTop(row, maximum, logSumExp);
  }
  const int32_t chosen = isScoring(row.params) ? static_cast<int32_t>(row.params[kTarget]) : choose(row);
  row.args.outIds[row.index] = chosen;
  if (!hasLogprobs(row.params) || chosen == kNoToken) return;
  row.args.outLogprobs[row.index] = logprobOf(row.raw.logits[chosen], maximum, logSumExp);
  row.args.outRanks[row.index] = rankOf(row.raw, chosen);
}

}  // namespace

void sampleKernel(const Op& op, int64_t begin, int64_t end, std::byte* scratch) {
  const SampleArgs& args = op.args<SampleArgs>();
  const int64_t vocabSize = args.vocabSize;
  const int64_t numParts = sampleParts(vocabSize);
  int32_t* numDone = reinterpret_cast<int32_t*>(op.workspace);
  std::byte* scans = op.workspace + sampleCounterBytes(op.numUnits / numParts);
  Candidate* candidates = reinterpret_cast<Candidate*>(scratch + sampleScanBytes(vocabSize));
  float* logits = reinterpret_cast<float*>(candidates + sampleCandidates(vocabSize));
  int32_t* slots = reinterpret_cast<int32_t*>(logits + vocabSize);
  float* maxima = reinterpret_cast<float*>(slots + vocabSize);
  for (int64_t unit = begin; unit < end; unit++) {
    const int64_t r = unit / numParts;
    const double* params = args.params + r * kSampleParams;
    const VocabularyScan raw = scanAt(scans + r * sampleScanBytes(vocabSize), args.logits + r * vocabSize, vocabSize);
    const double temperature = isScoring(params) || isAdjusted(params) ? 0.0 : temperatureOfSums(params, vocabSize);
    if (needsRawScan(params)) scanPart(raw, unit % numParts, hasLogprobs(params), temperature);
    // The thread that counts the last part sees the results that the others wrote before they counted theirs.
    if (__atomic_add_fetch(&numDone[r], 1, __ATOMIC_ACQ_REL) < numParts) continue;
    Row row = {args, r, params, raw, scanAt(scratch, logits, vocabSize), candidates, logits, slots, maxima};
    finishRow(row);
  }
}

}  // namespace millrace::MILLRACE_ISA
