// Weights of tokens, and the fronts of tokens in an order that weigh enough: what top-p and typical sampling need.
#pragma once
#include <algorithm>

#include "candidates.h"
#include "kernel.h"
#include "math.h"

namespace millrace::MILLRACE_ISA {

// Weights relative to the most likely token's.
class Weigher {
 public:
  Weigher(double maximum, double temperature) : maximum_(maximum), inverse_(1.0 / temperature) {}

  // How far below the maximum, in nats; never negative.
  double depthOf(const Candidate& token) const { return (maximum_ - token.value) * inverse_; }

  // Calls use(i, weight) for all candidates in order.
  template <typename Use>
  void forEach(const Candidate* tokens, int64_t numTokens, Use use) const {
    constexpr int64_t kBlock = 256;
    double block[kBlock];
    for (int64_t i = 0; i < numTokens; i += kBlock) {
      const int64_t numValues = minOf(kBlock, numTokens - i);
      for (int64_t j = 0; j < numValues; j++) block[j] = -depthOf(tokens[i + j]);
      for (int64_t j = 0; j < numValues; j++) block[j] = expDouble(block[j]);
      for (int64_t j = 0; j < numValues; j++) use(i + j, block[j]);
    }
  }

  double sum(const Candidate* tokens, int64_t numTokens) const {
    double total = 0.0;
    forEach(tokens, numTokens, [&](int64_t, double weight) { total += weight; });
    return total;
  }

 private:
  double maximum_;
  double inverse_;
};

// The smallest front of sorted tokens whose weight reaches the target; at least one.
static inline int64_t frontOf(const Candidate* tokens, int64_t numTokens, const Weigher& weigher, double reached, double target) {
  int64_t numKept = 0;
  weigher.forEach(tokens, numTokens, [&](int64_t i, double weight) {
    if (i > 0 && reached >= target) return;
    reached += weight;
    numKept = i + 1;
  });
  return numKept;
}

// Orders tokens by how far below the most likely one they are.
class ByDepth {
 public:
  explicit ByDepth(const Weigher& weigher) : weigher_(weigher) {}
  double keyOf(const Candidate& token) const { return weigher_.depthOf(token); }
  bool operator()(const Candidate& a, const Candidate& b) const { return ByValueThenId()(a, b); }

 private:
  const Weigher& weigher_;
};

// The weight of tokens by classes of an order's key, 1/16 nat wide.
template <typename Order>
class Classes {
 public:
  Classes(const Candidate* tokens, int64_t numTokens, const Weigher& weigher, const Order& order) : weigher_(weigher), order_(order) {
    weigher.forEach(tokens, numTokens, [&](int64_t i, double weight) { mass_[classOf(tokens[i])] += weight; });
    for (double mass : mass_) total_ += mass;
  }

  double total() const { return total_; }

  // As frontOf for these tokens put in order: only the class where the cut falls is sorted.
  int64_t frontOfUnsorted(Candidate* tokens, int64_t numTokens, double target) const {
    int64_t cut = 0;
    double before = 0.0;
    while (cut < kClasses - 1 && before + mass_[cut] < target) before += mass_[cut++];
    Candidate* first = std::partition(tokens, tokens + numTokens, [&](const Candidate& token) { return classOf(token) < cut; });
    Candidate* end = std::partition(first, tokens + numTokens, [&](const Candidate& token) { return classOf(token) == cut; });
    std::sort(first, end, order_);
    return first - tokens + frontOf(first, end - first, weigher_, before, target);
  }

 private:
  static constexpr int64_t kClasses = 1024;

  int64_t classOf(const Candidate& token) const {
    const double place = order_.keyOf(token) * 16.0;
    return place < kClasses - 1 ? static_cast<int64_t>(place) : kClasses - 1;
  }

  const Weigher& weigher_;
  const Order& order_;
  double mass_[kClasses] = {};
  double total_ = 0.0;
};

}  // namespace millrace::MILLRACE_ISA
