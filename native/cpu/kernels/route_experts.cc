// routeExperts, groupExperts, dispatchRows and combineExperts: which experts compute which rows, and the ways there and
// back.
//
// Each writes indices that another reads in the same program, so they cannot be checked before the program runs:
// kernels skip indices that are out of range.
#include <cstring>

#include "math.h"
#include "quantize.h"

namespace millrace {

namespace {

struct RouteExpertsArgs {
  int32_t* experts;     // [M, k]
  float* weights;       // [M, k]
  const float* logits;  // [M, E]
  const float* bias;    // [E] or null; of scores alone
  const float* factors;  // [E] or null; of weights alone
  int64_t numExperts;
  int64_t numChosen;
  int64_t numGroups;
  int64_t numUsedGroups;
  double scale;
  Scoring scoring;
  bool normalises;
};

struct GroupExpertsArgs {
  int32_t* groups;         // [E, 3]: expert, first place, number of places
  int32_t* places;         // [M, k]
  const int32_t* experts;  // [M, k]
  int64_t numSlots;
  int64_t numExperts;
};

struct DispatchRowsArgs {
  QuantizeArgs rows;      // out: [M · k] rows
  const int32_t* places;  // [M, k]
  int64_t numSlots;
  int64_t numChosen;
};

struct CombineExpertsArgs {
  float* out;             // [M, width]
  const float* x;         // [M · k, width]
  const int32_t* places;  // [M, k]
  const float* weights;   // [M, k]
  const float* bias;      // [width] or null
  int64_t numSlots;
  int64_t numChosen;
  int64_t width;
};

}  // namespace

#ifdef MILLRACE_DECODES

namespace {
// Sizes that `routeExperts` and `groupExperts` share.
struct Choice {
  int64_t numRows;
  int64_t numExperts;
  int64_t numChosen;
  int64_t numSlots;
};

template <typename Name>
Choice readChoice(const Operands<Name>& in) {
  Choice choice;
  choice.numRows = in.integer(Name::numRows);
  choice.numExperts = in.integer(Name::numExperts, 1);
  choice.numChosen = in.integer(Name::numChosen, 1, choice.numExperts);
  choice.numSlots = saturatedProduct(choice.numRows, choice.numChosen);
  if (choice.numSlots > INT32_MAX) in.refuse(Name::numRows, "few enough for 2^31 slots", static_cast<double>(choice.numRows));
  return choice;
}
}  // namespace

Op decode(const Operands<ops::routeExperts>& in, DecodeMemo&) {
  using ops::routeExperts;
  const Choice choice = readChoice(in);
  RouteExpertsArgs args{};
  args.numExperts = choice.numExperts;
  args.numChosen = choice.numChosen;
  args.experts = in.buffer(routeExperts::experts, choice.numSlots);
  args.weights = in.buffer(routeExperts::weights, choice.numSlots);
  args.logits = in.buffer(routeExperts::logits, saturatedProduct(choice.numRows, choice.numExperts));
  args.normalises = in.flag(routeExperts::normalises);
  args.scoring = in.code(routeExperts::scoring);
  args.scale = in.number(routeExperts::scale);
  args.numGroups = in.integer(routeExperts::numGroups, 1, choice.numExperts);
  args.numUsedGroups = in.integer(routeExperts::numUsedGroups, 1, args.numGroups);
  args.bias = in.optionalBuffer(routeExperts::bias, choice.numExperts);
  args.factors = in.optionalBuffer(routeExperts::factors, choice.numExperts);
  const int64_t perGroup = choice.numExperts / args.numGroups;
  if (args.numGroups > 1 && (choice.numExperts % args.numGroups != 0 || perGroup < 2)) {
    in.refuse(routeExperts::numGroups, "such that " + std::to_string(choice.numExperts) + " experts make whole groups of two or more", static_cast<double>(args.numGroups));
  }
  if (perGroup * args.numUsedGroups < choice.numChosen) {
    in.refuse(routeExperts::numUsedGroups, "enough for " + std::to_string(choice.numChosen) + " experts", static_cast<double>(args.numUsedGroups));
  }
  const bool isPlain = args.scoring == Scoring::softmax && args.normalises && args.bias == nullptr;
  const double nanos = static_cast<double>(choice.numExperts) * (isPlain ? 1.5 : 6) + static_cast<double>(choice.numChosen) * 30;
  const int64_t scratchBytes = (choice.numExperts + 2 * args.numGroups) * static_cast<int64_t>(sizeof(float));
  return makeOp(OpCode::routeExperts, args, choice.numRows, nanos, scratchBytes);
}

Op decode(const Operands<ops::groupExperts>& in, DecodeMemo&) {
  using ops::groupExperts;
  const Choice choice = readChoice(in);
  GroupExpertsArgs args{};
  args.numExperts = choice.numExperts;
  args.numSlots = choice.numSlots;
  args.groups = in.buffer(groupExperts::groups, saturatedProduct(choice.numExperts, 3));
  args.places = in.buffer(groupExperts::places, choice.numSlots);
  args.experts = in.buffer(groupExperts::experts, choice.numSlots);
  const double nanos = static_cast<double>(choice.numExperts + choice.numSlots) * 2;
  return makeOp(OpCode::groupExperts, args, 1, nanos, choice.numExperts * 2 * static_cast<int64_t>(sizeof(int32_t)));
}

Op decode(const Operands<ops::dispatchRows>& in, DecodeMemo&) {
  using ops::dispatchRows;
  const int64_t numRows = in.integer(dispatchRows::numRows);
  DispatchRowsArgs args{};
  args.numChosen = in.integer(dispatchRows::numChosen, 1);
  args.numSlots = saturatedProduct(numRows, args.numChosen);
  args.rows.width = in.integer(dispatchRows::width, 1);
  args.rows.format = in.code(dispatchRows::format);
  requireWholeBlocks(in, dispatchRows::width, args.rows.width, args.rows.format);
  args.rows.out = in.buffer(dispatchRows::out, saturatedProduct(args.numSlots, activationRowBytes(args.rows.format, args.rows.width)));
  args.rows.x = in.buffer(dispatchRows::x, saturatedProduct(numRows, args.rows.width));
  args.places = in.buffer(dispatchRows::places, args.numSlots);
  const double nanos = static_cast<double>(args.rows.width) * (0.4 + 0.05 * static_cast<double>(args.numChosen)) + 20;
  return makeOp(OpCode::dispatchRows, args, numRows, nanos);
}

Op decode(const Operands<ops::combineExperts>& in, DecodeMemo&) {
  using ops::combineExperts;
  const int64_t numRows = in.integer(combineExperts::numRows);
  CombineExpertsArgs args{};
  args.numChosen = in.integer(combineExperts::numChosen, 1);
  args.numSlots = saturatedProduct(numRows, args.numChosen);
  args.width = in.integer(combineExperts::width, 1);
  args.out = in.buffer(combineExperts::out, saturatedProduct(numRows, args.width));
  args.x = in.buffer(combineExperts::x, saturatedProduct(args.numSlots, args.width));
  args.places = in.buffer(combineExperts::places, args.numSlots);
  args.weights = in.buffer(combineExperts::weights, args.numSlots);
  args.bias = in.optionalBuffer(combineExperts::bias, args.width);
  return makeOp(OpCode::combineExperts, args, numRows, static_cast<double>(args.width * args.numChosen) * 0.1 + 20);
}

#endif

}  // namespace millrace

namespace millrace::MILLRACE_ISA {

// The k largest are kept in order, in the row's own results, while the logits go by.
static void chooseLargest(const float* logits, int64_t numExperts, int64_t numChosen, int32_t* experts, float* values) {
  int64_t numKept = 0;
  for (int64_t e = 0; e < numExperts; e++) {
    const float value = logits[e] == logits[e] ? logits[e] : -__builtin_inff();
    int64_t at = numKept;
    if (numKept == numChosen && !(value > values[numKept - 1])) continue;
    if (numKept == numChosen) at--;
    else numKept++;
    for (; at > 0 && value > values[at - 1]; at--) {
      values[at] = values[at - 1];
      experts[at] = experts[at - 1];
    }
    values[at] = value;
    experts[at] = static_cast<int32_t>(e);
  }
}

// The value of a chosen expert; 0 where the results overlap so that the choice is no expert any more.
static float valueOf(const RouteExpertsArgs& args, const float* values, int32_t expert) {
  return expert >= 0 && expert < args.numExperts ? values[expert] : 0.0f;
}

static double sigmoidDouble(float logit) { return logit == logit ? 1.0 / (1.0 + expDouble(-static_cast<double>(logit))) : 0.0; }

// Keeps the scores of the best groups, by their two largest scores together or, without sigmoid, by the largest, and
// puts minus infinity in place of all other scores. sums: [numGroups] and as many indices.
static void keepBestGroups(const RouteExpertsArgs& args, float* scores, float* sums) {
  const int64_t perGroup = args.numExperts / args.numGroups;
  int32_t* best = reinterpret_cast<int32_t*>(sums + args.numGroups);
  for (int64_t g = 0; g < args.numGroups; g++) {
    float first = -__builtin_inff();
    float second = first;
    for (int64_t e = g * perGroup; e < (g + 1) * perGroup; e++) {
      if (scores[e] > first) {
        second = first;
        first = scores[e];
      } else if (scores[e] > second) {
        second = scores[e];
      }
    }
    sums[g] = args.scoring == Scoring::sigmoid ? first + second : first;
  }
  for (int64_t kept = 0; kept < args.numUsedGroups; kept++) {
    int64_t largest = -1;
    for (int64_t g = 0; g < args.numGroups; g++) {
      bool isKept = false;
      for (int64_t i = 0; i < kept; i++) isKept = isKept || best[i] == g;
      if (!isKept && (largest < 0 || sums[g] > sums[largest])) largest = g;
    }
    best[kept] = static_cast<int32_t>(largest);
  }
  for (int64_t g = 0; g < args.numGroups; g++) {
    bool isKept = false;
    for (int64_t i = 0; i < args.numUsedGroups; i++) isKept = isKept || best[i] == g;
    for (int64_t e = g * perGroup; e < (g + 1) * perGroup && !isKept; e++) scores[e] = -__builtin_inff();
  }
}

static float largestOf(const float* values, int64_t count) {
  float largest = -__builtin_inff();
  for (int64_t i = 0; i < count; i++) largest = values[i] > largest ? values[i] : largest;
  return largest;
}

// scores[e] = the softmax of the row's logits, rounded to float.
static void scoreBySoftmax(const float* logits, int64_t numExperts, float* scores) {
  const double largest = static_cast<double>(largestOf(logits, numExperts));
  const auto power = [&](float logit) { return logit == logit ? expDouble(static_cast<double>(logit) - largest) : 0.0; };
  double sum = 0;
  for (int64_t e = 0; e < numExperts; e++) sum += power(logits[e]);
  for (int64_t e = 0; e < numExperts; e++) scores[e] = static_cast<float>(power(logits[e]) / sum);
}

// Chooses a row's experts. Scores are rounded to float before they are compared, so that every instruction set chooses
// alike.
static void chooseExperts(const RouteExpertsArgs& args, const float* logits, float* scratch, int32_t* experts, float* values) {
  const bool isSigmoid = args.scoring == Scoring::sigmoid;
  if (!isSigmoid && args.bias == nullptr && args.numUsedGroups == args.numGroups) {
    return chooseLargest(logits, args.numExperts, args.numChosen, experts, values);
  }
  if (!isSigmoid && args.bias != nullptr) scoreBySoftmax(logits, args.numExperts, scratch);
  for (int64_t e = 0; e < args.numExperts; e++) {
    const float bias = args.bias == nullptr ? 0.0f : args.bias[e];
    const float softmax = args.bias == nullptr ? logits[e] : scratch[e] + bias;
    const float score = isSigmoid ? static_cast<float>(sigmoidDouble(logits[e])) + bias : softmax;
    scratch[e] = logits[e] == logits[e] && score == score ? score : -__builtin_inff();
  }
  if (args.numUsedGroups < args.numGroups) keepBestGroups(args, scratch, scratch + args.numExperts);
  chooseLargest(scratch, args.numExperts, args.numChosen, experts, values);
}

static void weighBySigmoid(const RouteExpertsArgs& args, const float* logits, const int32_t* experts, float* weights) {
  double sum = 0;
  for (int64_t s = 0; s < args.numChosen; s++) sum += sigmoidDouble(valueOf(args, logits, experts[s]));
  // 1e-20 keeps weights finite where all sigmoids are zero.
  const double divisor = args.normalises ? sum + 1e-20 : 1.0;
  for (int64_t s = 0; s < args.numChosen; s++) weights[s] = static_cast<float>(sigmoidDouble(valueOf(args, logits, experts[s])) / divisor * args.scale);
}

// weights: the logits of the chosen experts, which become their weights.
static void weighBySoftmax(const RouteExpertsArgs& args, const float* logits, float* weights) {
  const bool isOfChosen = args.normalises || args.bias == nullptr;
  const double largest = static_cast<double>(isOfChosen ? largestOf(weights, args.numChosen) : largestOf(logits, args.numExperts));
  const auto power = [&](float logit) { return expDouble(static_cast<double>(logit) - largest); };
  double sum = 0;
  if (args.normalises) {
    for (int64_t s = 0; s < args.numChosen; s++) sum += power(weights[s]);
  } else {
    for (int64_t e = 0; e < args.numExperts; e++) sum += power(logits[e]);
  }
  for (int64_t s = 0; s < args.numChosen; s++) weights[s] = static_cast<float>(power(weights[s]) / sum * args.scale);
}

// Phi-MoE's: each expert is weighed among the logits near its own that are left, which those chosen before it are not.
// weights: as of weighBySoftmax.
static void weighBySparseMixer(const RouteExpertsArgs& args, const float* logits, const int32_t* experts, float* weights) {
  for (int64_t s = 0; s < args.numChosen; s++) {
    const float largest = weights[s];
    double sum = 0;
    for (int64_t e = 0; e < args.numExperts; e++) {
      const float logit = logits[e];
      const float size = __builtin_fabsf(logit);
      bool isLeft = logit == logit && !((largest - logit) / (size > largest ? size : largest) > 0.02f);
      for (int64_t t = 0; t < s; t++) isLeft = isLeft && experts[t] != e;
      if (isLeft) sum += expDouble(static_cast<double>(logit) - static_cast<double>(largest));
    }
    weights[s] = sum > 0 ? static_cast<float>(args.scale / sum) : 0.0f;
  }
}

// Exponentials and sums in double, one after the other: the same bits everywhere.
void routeExpertsKernel(const Op& op, int64_t begin, int64_t end, std::byte* scratch) {
  const RouteExpertsArgs& args = op.args<RouteExpertsArgs>();
  for (int64_t m = begin; m < end; m++) {
    const float* logits = args.logits + m * args.numExperts;
    int32_t* experts = args.experts + m * args.numChosen;
    float* weights = args.weights + m * args.numChosen;
    chooseExperts(args, logits, reinterpret_cast<float*>(scratch), experts, weights);
    // With a bias these are scores.
    for (int64_t s = 0; args.bias != nullptr && s < args.numChosen; s++) {
      const float logit = valueOf(args, logits, experts[s]);
      weights[s] = logit == logit ? logit : -__builtin_inff();
    }
    if (args.scoring == Scoring::sigmoid) weighBySigmoid(args, logits, experts, weights);
    else if (args.scoring == Scoring::sparseMixer) weighBySparseMixer(args, logits, experts, weights);
    else weighBySoftmax(args, logits, weights);
    if (args.factors == nullptr) continue;
    for (int64_t s = 0; s < args.numChosen; s++) weights[s] *= valueOf(args, args.factors, experts[s]);
  }
}

static int bitLength(int32_t value) { return value == 0 ? 0 : 32 - __builtin_clz(static_cast<uint32_t>(value)); }

void groupExpertsKernel(const Op& op, int64_t, int64_t, std::byte* scratch) {
  const GroupExpertsArgs& args = op.args<GroupExpertsArgs>();
  int32_t* counts = reinterpret_cast<int32_t*>(scratch);
  int32_t* next = counts + args.numExperts;
  const auto expertOf = [&](int64_t slot) {
    const int64_t expert = args.experts[slot];
    return expert >= 0 && expert < args.numExperts ? expert : 0;
  };
  memset(counts, 0, static_cast<size_t>(args.numExperts) * sizeof(int32_t));
  for (int64_t i = 0; i < args.numSlots; i++) counts[expertOf(i)]++;
  // The order decides only when a group is computed: sizes are compared by their number of bits.
  int32_t starts[33] = {};
  for (int64_t e = 0; e < args.numExperts; e++) starts[bitLength(counts[e])]++;
  for (int bits = 32, start = 0; bits >= 0; bits--) {
    const int32_t numAlike = starts[bits];
    starts[bits] = start;
    start += numAlike;
  }
  for (int64_t e = 0; e < args.numExperts; e++) {
    int32_t* group = args.groups + 3 * starts[bitLength(counts[e])]++;
    group[0] = counts[e] > 0 ? static_cast<int32_t>(e) : 0;
    group[2] = counts[e];
  }
  int32_t place = 0;
  for (int64_t g = 0; g < args.numExperts; g++) {
    int32_t* group = args.groups + 3 * g;
    group[1] = group[2] > 0 ? place : 0;
    if (group[2] > 0) next[group[0]] = place;
    place += group[2];
  }
  for (int64_t i = 0; i < args.numSlots; i++) args.places[i] = next[expertOf(i)]++;
}

void dispatchRowsKernel(const Op& op, int64_t begin, int64_t end, std::byte*) {
  const DispatchRowsArgs& args = op.args<DispatchRowsArgs>();
  const int64_t rowBytes = activationRowBytes(args.rows.format, args.rows.width);
  for (int64_t m = begin; m < end; m++) {
    const uint8_t* first = nullptr;
    for (int64_t s = 0; s < args.numChosen; s++) {
      const int64_t place = args.places[m * args.numChosen + s];
      if (place < 0 || place >= args.numSlots) continue;
      uint8_t* out = args.rows.out + place * rowBytes;
      const float* x = args.rows.x + m * args.rows.width;
      if (args.rows.format == ActivationFormat::f32) first = reinterpret_cast<const uint8_t*>(x);
      if (first != nullptr) {
        memmove(out, first, static_cast<size_t>(rowBytes));
        continue;
      }
      Op one{};
      one.args<QuantizeArgs>() = {out, x, args.rows.width, args.rows.format};
      quantizeKernel(one, 0, 1, nullptr);
      first = out;
    }
  }
}

// Columns [first, first + kVectors · kLanes) of row m; count: how many there are of the one vector that may be short.
template <int kVectors>
static void combineColumns(const CombineExpertsArgs& args, int64_t m, int64_t first, int64_t count) {
  Floats sums[kVectors] = {};
  if (args.bias != nullptr) {
    const float* bias = args.bias + first;
    MILLRACE_UNROLL
    for (int v = 0; v < kVectors; v++) sums[v] = kVectors > 1 ? loadFloats(bias + v * kLanes) : loadPartial(bias, count);
  }
  for (int64_t slot = m * args.numChosen; slot < (m + 1) * args.numChosen; slot++) {
    const int64_t place = args.places[slot];
    if (place < 0 || place >= args.numSlots) continue;
    const Floats weight = splatFloats(args.weights[slot]);
    const float* x = args.x + place * args.width + first;
    MILLRACE_UNROLL
    for (int v = 0; v < kVectors; v++) sums[v] = mulAdd(weight, kVectors > 1 ? loadFloats(x + v * kLanes) : loadPartial(x, count), sums[v]);
  }
  float* out = args.out + m * args.width + first;
  MILLRACE_UNROLL
  for (int v = 0; v < kVectors; v++) {
    const Floats sum = (kVectors > 1 ? loadFloats(out + v * kLanes) : loadPartial(out, count)) + sums[v];
    if (kVectors > 1) storeFloats(out + v * kLanes, sum);
    else memcpy(out, &sum, static_cast<size_t>(count) * sizeof(float));
  }
}

void combineExpertsKernel(const Op& op, int64_t begin, int64_t end, std::byte*) {
  const CombineExpertsArgs& args = op.args<CombineExpertsArgs>();
  constexpr int kVectors = 8;
  for (int64_t m = begin; m < end; m++) {
    int64_t i = 0;
    for (; i + kVectors * kLanes <= args.width; i += kVectors * kLanes) combineColumns<kVectors>(args, m, i, kLanes);
    for (; i < args.width; i += kLanes) combineColumns<1>(args, m, i, minOf(kLanes, args.width - i));
  }
}

}  // namespace millrace::MILLRACE_ISA
