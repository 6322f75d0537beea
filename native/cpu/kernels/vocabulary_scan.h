// Passes over a row of logits that later steps build on: the largest value of every chunk, by which whole chunks are
// skipped, and sums of exponentials by fixed parts, which any thread may compute and which are merged in order. NaN
// counts as −∞ throughout. No operation here is fused: every instruction set gives the same bits.
#pragma once
#include <algorithm>
#include <cfloat>

#include "candidates.h"
#include "kernel.h"
#include "math.h"
#include "sample.h"

namespace millrace::MILLRACE_ISA {

constexpr float kLowest = -__builtin_inff();

struct VocabularyScan {
  const float* logits;  // [vocabSize]
  int64_t vocabSize;
  double* sums;        // [parts] Σ e^(logit − part's maximum)
  double* scaledSums;  // [parts] Σ e^((logit − part's maximum) / temperature)
  float* partMaxima;   // [parts]
  float* chunkMaxima;  // [chunks]
};

// Over `memory` of sampleScanBytes(vocabSize), aligned for doubles.
static inline VocabularyScan scanAt(std::byte* memory, const float* logits, int64_t vocabSize) {
  double* sums = reinterpret_cast<double*>(memory);
  double* scaledSums = sums + sampleParts(vocabSize);
  float* partMaxima = reinterpret_cast<float*>(scaledSums + sampleParts(vocabSize));
  return {logits, vocabSize, sums, scaledSums, partMaxima, partMaxima + sampleParts(vocabSize)};
}

// a − b where equal infinities differ by nothing.
MILLRACE_INLINE double difference(double a, double b) { return a == b ? 0.0 : a - b; }

// kSampleChunk logits from chunk · kSampleChunk; the last, short chunk is copied to `padded` and filled with −∞.
MILLRACE_INLINE const float* chunkAt(const VocabularyScan& scan, int64_t chunk, float* padded) {
  const float* x = scan.logits + chunk * kSampleChunk;
  const int64_t numValues = scan.vocabSize - chunk * kSampleChunk;
  if (numValues >= kSampleChunk) return x;
  std::fill(std::copy(x, x + numValues, padded), padded + kSampleChunk, kLowest);
  return padded;
}

// Whether the mask's bit of a token is set; without a mask every token may come.
MILLRACE_INLINE bool mayCome(const int32_t* mask, int64_t id) {
  return mask == nullptr || (static_cast<uint32_t>(mask[id / 32]) >> (id % 32) & 1) != 0;
}

// Logits with −∞ where the mask has no bit: 32 at a time, most of which a grammar allows all or none of.
static inline void copyMasked(const float* logits, const int32_t* mask, int64_t vocabSize, float* out) {
  if (mask == nullptr) {
    std::copy(logits, logits + vocabSize, out);
    return;
  }
  for (int64_t first = 0; first < vocabSize; first += 32) {
    const int64_t end = minOf(first + 32, vocabSize);
    const int32_t word = mask[first / 32];
    if (word == 0) std::fill(out + first, out + end, kLowest);
    else if (word == -1) std::copy(logits + first, logits + end, out + first);
    else for (int64_t id = first; id < end; id++) out[id] = mayCome(mask, id) ? logits[id] : kLowest;
  }
}

MILLRACE_INLINE float maximumOfChunk(const float* x) {
  // In this order of operands a NaN loses.
  f32x8 maxima[4] = {splat8(kLowest), splat8(kLowest), splat8(kLowest), splat8(kLowest)};
  for (int i = 0; i < kSampleChunk; i += 32) {
    for (int j = 0; j < 4; j++) maxima[j] = max8(load8(x + i + 8 * j), maxima[j]);
  }
  const f32x8 both = max8(max8(maxima[0], maxima[1]), max8(maxima[2], maxima[3]));
  float maximum = both[0];
  for (int lane = 1; lane < 8; lane++) maximum = both[lane] > maximum ? both[lane] : maximum;
  return maximum;
}

// 2^x for each of four vectors of x ≤ 0, to 2^−22, added up lane by lane; 2^−124 for anything below −124 and NaN. Four
// at once, step by step, so that one's latencies are hidden behind the others. The polynomial is 1 + f q(f), q fitted
// for the least largest relative error over |f| ≤ ½.
MILLRACE_INLINE f32x8 sumOfPowers(f32x8 (&x)[4]) {
  f32x8 n[4], square[4], q[4], rest[4];
  // Adding 1.5 · 2^23 rounds to an integer, which is then in the low bits.
  const f32x8 shifter = splat8(12582912.0f);
  for (int j = 0; j < 4; j++) x[j] = max8(x[j], splat8(-124.0f));
  for (int j = 0; j < 4; j++) n[j] = x[j] + shifter;
  for (int j = 0; j < 4; j++) x[j] = x[j] - (n[j] - shifter);
  for (int j = 0; j < 4; j++) square[j] = x[j] * x[j];
  for (int j = 0; j < 4; j++) q[j] = splat8(0.055507346987724304f) + x[j] * splat8(0.00967157632112503f) + square[j] * splat8(0.001326464582234621f);
  for (int j = 0; j < 4; j++) rest[j] = splat8(0.6931470036506653f) + x[j] * splat8(0.24022240936756134f);
  for (int j = 0; j < 4; j++) q[j] = rest[j] + square[j] * q[j];
  for (int j = 0; j < 4; j++) q[j] = splat8(1.0f) + x[j] * q[j];
  // · 2^n: n ≥ −124 and q ≥ 0.7, so the result is normal.
  for (int j = 0; j < 4; j++) {
    u32x8 bits, exponent;
    memcpy(&bits, &q[j], 32);
    memcpy(&exponent, &n[j], 32);
    bits += exponent << 23;
    memcpy(&q[j], &bits, 32);
  }
  return (q[0] + q[1]) + (q[2] + q[3]);
}

// Σ e^((logit − maximum) · inverseTemperature) over the chunks [begin, end): eight vectors at a time in f32, then in
// double lanes.
static inline double sumOfExponentials(const VocabularyScan& scan, int64_t begin, int64_t end, float maximum, float inverseTemperature) {
  const f32x8 top = splat8(maximum);
  const float log2e = 1.44269504f * inverseTemperature;
  const f32x8 factor = splat8(log2e < FLT_MAX ? log2e : FLT_MAX);
  float padded[kSampleChunk];
  f64x4 low = {}, high = {};
  for (int64_t chunk = begin; chunk < end; chunk++) {
    const float* x = chunkAt(scan, chunk, padded);
    for (int i = 0; i < kSampleChunk; i += 64) {
      f32x8 first[4], second[4];
      for (int j = 0; j < 4; j++) first[j] = (load8(x + i + 8 * j) - top) * factor;
      for (int j = 0; j < 4; j++) second[j] = (load8(x + i + 32 + 8 * j) - top) * factor;
      const f32x8 sum = sumOfPowers(first) + sumOfPowers(second);
      f64x4 lowSum, highSum;
      toDouble4(sum, &lowSum, &highSum);
      low += lowSum;
      high += highSum;
    }
  }
  return ((low[0] + low[1]) + (low[2] + low[3])) + ((high[0] + high[1]) + (high[2] + high[3]));
}

// As above where the maximum may be infinite: +∞ has the weight 1 and everything else none, a part of −∞ none at all.
static inline double sumOfPart(const VocabularyScan& scan, int64_t first, int64_t end, float maximum, float inverseTemperature) {
  if (maximum == kLowest) return 0.0;
  if (maximum < -kLowest) return sumOfExponentials(scan, first, end, maximum, inverseTemperature);
  const float* x = scan.logits;
  return static_cast<double>(std::count(x + first * kSampleChunk, x + minOf(end * kSampleChunk, scan.vocabSize), maximum));
}

MILLRACE_INLINE float inverseOf(double temperature) {
  const double inverse = 1.0 / temperature;
  return inverse < FLT_MAX ? static_cast<float>(inverse) : FLT_MAX;
}

// One part: its maxima and, where wanted, its sums. Without `temperature` (0) there are no scaled sums.
static inline void scanPart(const VocabularyScan& scan, int64_t part, bool hasSum, double temperature) {
  constexpr int64_t kChunksPerPart = kSamplePart / kSampleChunk;
  const int64_t first = part * kChunksPerPart;
  const int64_t end = minOf(first + kChunksPerPart, sampleChunks(scan.vocabSize));
  float padded[kSampleChunk];
  float maximum = kLowest;
  for (int64_t chunk = first; chunk < end; chunk++) {
    scan.chunkMaxima[chunk] = maximumOfChunk(chunkAt(scan, chunk, padded));
    maximum = scan.chunkMaxima[chunk] > maximum ? scan.chunkMaxima[chunk] : maximum;
  }
  scan.partMaxima[part] = maximum;
  if (hasSum) scan.sums[part] = sumOfPart(scan, first, end, maximum, 1.0f);
  if (temperature > 0.0) scan.scaledSums[part] = sumOfPart(scan, first, end, maximum, inverseOf(temperature));
}

static inline float maximumOf(const VocabularyScan& scan) {
  return *std::max_element(scan.partMaxima, scan.partMaxima + sampleParts(scan.vocabSize));
}

// Σ e^((logit − maximum) / temperature) over all parts, in order; `sums` are those of that temperature.
static inline double mergedSum(const VocabularyScan& scan, const double* sums, double maximum, double temperature) {
  double total = 0.0;
  for (int64_t part = 0; part < sampleParts(scan.vocabSize); part++) {
    total += sums[part] * expDouble(difference(scan.partMaxima[part], maximum) / temperature);
  }
  return total;
}

// The lowest id with the largest logit; 0 when all are −∞.
static inline int32_t argMax(const VocabularyScan& scan) {
  const float maximum = maximumOf(scan);
  if (maximum == kLowest) return 0;
  const float* chunk = std::find(scan.chunkMaxima, scan.chunkMaxima + sampleChunks(scan.vocabSize), maximum);
  const float* first = scan.logits + (chunk - scan.chunkMaxima) * kSampleChunk;
  return static_cast<int32_t>(std::find(first, scan.logits + scan.vocabSize, maximum) - scan.logits);
}

// The place of `id` by (logit descending, id ascending), from 1.
static inline int32_t rankOf(const VocabularyScan& scan, int32_t id) {
  const float* x = scan.logits;
  const float logit = x[id] == x[id] ? x[id] : kLowest;
  int32_t rank = 1;
  for (int64_t chunk = 0; chunk < sampleChunks(scan.vocabSize); chunk++) {
    if (scan.chunkMaxima[chunk] < logit) continue;
    const int64_t first = chunk * kSampleChunk;
    const int64_t end = minOf(first + kSampleChunk, scan.vocabSize);
    const int64_t middle = maxOf(first, minOf(end, id));
    // Ties before it come first; every NaN ties with −∞.
    if (logit == kLowest) rank += static_cast<int32_t>(middle - first);
    else for (int64_t i = first; i < middle; i++) rank += x[i] >= logit;
    for (int64_t i = middle; i < end; i++) rank += x[i] > logit;
  }
  return rank;
}

// A logit that at least k tokens reach (the k-th largest of the chunks' maxima), but not below `floor`. `scratch`:
// [chunks].
static inline float reachedByTop(const VocabularyScan& scan, int64_t k, float floor, float* scratch) {
  const int64_t numChunks = sampleChunks(scan.vocabSize);
  if (k > numChunks) return floor;
  std::copy(scan.chunkMaxima, scan.chunkMaxima + numChunks, scratch);
  std::nth_element(scratch, scratch + (k - 1), scratch + numChunks, [](float a, float b) { return a > b; });
  return scratch[k - 1] > floor ? scratch[k - 1] : floor;
}

// Tokens whose logit is at least `threshold`, in id order; returns how many. A threshold of −∞ takes all.
static inline int64_t gather(const VocabularyScan& scan, float threshold, Candidate* out) {
  int64_t numFound = 0;
  for (int64_t chunk = 0; chunk < sampleChunks(scan.vocabSize); chunk++) {
    if (scan.chunkMaxima[chunk] < threshold) continue;
    const int64_t first = chunk * kSampleChunk;
    const int64_t end = minOf(first + kSampleChunk, scan.vocabSize);
    for (int64_t i = first; i < end; i++) {
      const float logit = scan.logits[i] > kLowest ? scan.logits[i] : kLowest;
      // Without a branch: written always, kept or overwritten. `out` has one place more than there are tokens to keep.
      out[numFound] = {logit, static_cast<int32_t>(i), 0};
      numFound += logit >= threshold;
    }
  }
  return numFound;
}

}  // namespace millrace::MILLRACE_ISA
