// Ordering and selection of tokens by (value descending, id ascending), the sampler's one total order.
#pragma once
#include <algorithm>
#include <cstdint>

#include "isa.h"

namespace millrace::MILLRACE_ISA {

struct ByValueThenId {
  const double* values;  // no NaN
  bool operator()(int32_t a, int32_t b) const {
    return values[a] > values[b] || (values[a] == values[b] && a < b);
  }
};

// Leaves the first `k` of `ids` in sorted order at the front; the rest follow in any order.
static inline void sortFront(int32_t* ids, int64_t numIds, int64_t k, const double* values) {
  const ByValueThenId order{values};
  if (k < numIds) std::nth_element(ids, ids + k, ids + numIds, order);
  std::sort(ids, ids + (k < numIds ? k : numIds), order);
}

// Gathers the `k` best of ids [0, numValues) with values[id] >= floor into `ids` (room for numValues), sorted; returns how many.
// A running threshold drops most tokens at one comparison each, so that a small k costs one pass.
static inline int64_t selectTop(const double* values, int64_t numValues, int64_t k, double floor, int32_t* ids) {
  const ByValueThenId order{values};
  const int64_t room = 2 * k + 256 < numValues ? 2 * k + 256 : numValues;
  int64_t numIds = 0;
  double threshold = floor;
  for (int64_t id = 0; id < numValues; id++) {
    if (!(values[id] >= threshold)) continue;
    ids[numIds++] = static_cast<int32_t>(id);
    if (numIds == room && numIds > k) {
      std::nth_element(ids, ids + (k - 1), ids + numIds, order);
      numIds = k;
      threshold = values[ids[k - 1]];
    }
  }
  const int64_t numKept = numIds < k ? numIds : k;
  sortFront(ids, numIds, numKept, values);
  return numKept;
}

}  // namespace millrace::MILLRACE_ISA
