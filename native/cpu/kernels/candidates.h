// Tokens in the running and their one total order: value descending, id ascending.
#pragma once
#include <algorithm>
#include <cstdint>

#include "isa.h"

namespace millrace::MILLRACE_ISA {

struct Candidate {
  double value;  // adjusted logit, before the temperature; no NaN
  int32_t id;
  int32_t history;  // while penalties are counted. Bit 0: occurs; the rest: how often in the output
};

struct ByValueThenId {
  bool operator()(const Candidate& a, const Candidate& b) const { return a.value > b.value || (a.value == b.value && a.id < b.id); }
};

// Leaves the `k` best in order at the front, the others in any order; returns how many are at the front.
static inline int64_t sortFront(Candidate* candidates, int64_t numCandidates, int64_t k) {
  if (k < numCandidates) std::nth_element(candidates, candidates + k, candidates + numCandidates, ByValueThenId());
  else k = numCandidates;
  std::sort(candidates, candidates + k, ByValueThenId());
  return k;
}

}  // namespace millrace::MILLRACE_ISA
