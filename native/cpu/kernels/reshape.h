// Samplers that look at the shape of the distribution of the tokens that the filters leave, at temperature 1: locally
// typical sampling (Meister et al., arXiv 2202.00666), XTC ("exclude top choices") and dynamic temperature, in
// llama.cpp's order.
#pragma once
#include <algorithm>
#include <cmath>

#include "op_table.h"
#include "weights.h"

namespace millrace::MILLRACE_ISA {

// Below this temperature the likeliest token is taken: dividing by it would overflow.
constexpr double kGreedyTemperature = 1e-5;

MILLRACE_INLINE bool isReshaped(const double* params) {
  return params[kTypicalP] < 1.0 || params[kXtcProbability] > 0.0 || params[kDynatempRange] > 0.0;
}

// Of tokens' weights: their sum, and the mean of the depths.
struct Moments {
  Moments(const Candidate* tokens, int64_t numTokens, const Weigher& weigher) {
    double depths = 0.0;
    weigher.forEach(tokens, numTokens, [&](int64_t i, double weight) {
      total += weight;
      depths += weight * weigher.depthOf(tokens[i]);
    });
    meanDepth = depths / total;
  }

  // In nats: −Σ p ln p, where ln p = −depth − ln total.
  double entropy() const { return logDouble(total) + meanDepth; }

  double total = 0.0;
  double meanDepth;
};

// Orders tokens by how far their −ln p is from the entropy, which is how far their depth is from the mean.
class ByDeviation {
 public:
  ByDeviation(const Weigher& weigher, double meanDepth) : weigher_(weigher), meanDepth_(meanDepth) {}
  double keyOf(const Candidate& token) const { return std::fabs(weigher_.depthOf(token) - meanDepth_); }
  bool operator()(const Candidate& a, const Candidate& b) const {
    const double first = keyOf(a);
    const double second = keyOf(b);
    return first < second || (first == second && ByValueThenId()(a, b));
  }

 private:
  const Weigher& weigher_;
  double meanDepth_;
};

// The most typical tokens that together have more than the probability p; at least one.
static inline int64_t keepTypical(double p, Candidate* tokens, int64_t numTokens, const Weigher& weigher) {
  const Moments moments(tokens, numTokens, weigher);
  const ByDeviation order(weigher, moments.meanDepth);
  const Classes<ByDeviation> classes(tokens, numTokens, weigher, order);
  return classes.frontOfUnsorted(tokens, numTokens, std::nextafter(p * classes.total(), HUGE_VAL));
}

// Removes all tokens that reach the threshold but the least likely of them.
static inline int64_t excludeTopChoices(double threshold, Candidate* tokens, int64_t numTokens, const Weigher& weigher) {
  const double target = threshold * weigher.sum(tokens, numTokens);
  int64_t last = -1;
  weigher.forEach(tokens, numTokens, [&](int64_t i, double weight) {
    if (weight >= target && (last < 0 || ByValueThenId()(tokens[last], tokens[i]))) last = i;
  });
  if (last < 0) return numTokens;
  const Candidate kept = tokens[last];
  return std::remove_if(tokens, tokens + numTokens, [&](const Candidate& token) { return ByValueThenId()(token, kept); }) - tokens;
}

// Between temperature − range and temperature + range: the more even the distribution, the higher.
static inline double dynamicTemperature(const double* params, const Candidate* tokens, int64_t numTokens, const Weigher& weigher) {
  const double range = params[kDynatempRange];
  const double temperature = params[kTemperature];
  if (range == 0.0 || numTokens == 1) return temperature;
  const double lowest = std::max(0.0, temperature - range);
  const double evenness = Moments(tokens, numTokens, weigher).entropy() / logDouble(static_cast<double>(numTokens));
  const double exponent = params[kDynatempExponent];
  // logDouble takes normal numbers only.
  const double share = exponent == 0.0 ? 1.0 : evenness < 1e-300 ? 0.0 : expDouble(exponent * logDouble(evenness));
  return lowest + (temperature + range - lowest) * share;
}

struct Reshaped {
  int64_t numTokens;  // at the front
  Candidate best;
  double temperature;
};

// @param maximum the likeliest token's value  @param uniform of this position, between 0 and 1
static inline Reshaped reshape(const double* params, Candidate* tokens, int64_t numTokens, double maximum, double uniform) {
  const Weigher weigher(maximum, 1.0);
  if (params[kTypicalP] < 1.0) numTokens = keepTypical(params[kTypicalP], tokens, numTokens, weigher);
  if (uniform <= params[kXtcProbability]) numTokens = excludeTopChoices(params[kXtcThreshold], tokens, numTokens, weigher);
  const Candidate best = *std::min_element(tokens, tokens + numTokens, ByValueThenId());
  return {numTokens, best, dynamicTemperature(params, tokens, numTokens, Weigher(best.value, 1.0))};
}

}  // namespace millrace::MILLRACE_ISA
