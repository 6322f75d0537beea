// Operations with a state per sequence, and the products beside them, against the definitions: sequences that start,
// continue and leave slots, side by side in one step and cut anywhere, in sizes that divide by nothing. All instruction
// sets give the same bits.
#include "check.h"

namespace millrace::test {

namespace {

constexpr int64_t kSlots = 6;
constexpr int64_t kBlockColumns = 32;

// Rows of one step. A run is a sequence's part of it.
struct Step {
  std::vector<int32_t> sources, targets, copies;

  // @param source the slot it continues; −1: none @param target the slot that its last row leaves; −1: none
  void addRun(int64_t numRows, int32_t source, int32_t target) {
    for (int64_t i = 0; i < numRows; i++) {
      sources.push_back(i == 0 ? source : -2);
      targets.push_back(i + 1 == numRows ? target : -1);
      copies.push_back(-1);
    }
  }
  int64_t numRows() const { return static_cast<int64_t>(sources.size()); }
};

// Five sequences: a long one from nothing whose rows 17 and 20 are kept too, one token, an end that nobody keeps, one
// that moves to another slot, one of the length of several tiles.
Step mixedStep() {
  Step step;
  step.addRun(41, -1, 2);
  step.copies[17] = 4;
  step.targets[20] = 5;
  step.addRun(1, 0, 0);
  step.addRun(7, 1, -1);
  step.addRun(2, 0, 3);
  step.addRun(70, 3, 3);
  return step;
}

using Values = std::vector<float>;
// x row by row, and the states of all slots, through which the definitions go in double.
using Doubles = std::vector<double>;

Doubles widened(const Values& values) { return Doubles(values.begin(), values.end()); }

// Calls token(row, state) with the state that the row continues, and keeps what it leaves.
template <typename Token>
void followRows(const Step& step, Doubles& slots, Token token) {
  const size_t size = slots.size() / kSlots;
  Doubles state(size);
  for (size_t m = 0; m < step.sources.size(); m++) {
    const int32_t source = step.sources[m];
    if (source == -1) state.assign(size, 0.0);
    else if (source >= 0) state.assign(&slots[static_cast<size_t>(source) * size], &slots[static_cast<size_t>(source) * size] + size);
    token(m, state);
    for (int32_t slot : {step.copies[m], step.targets[m]}) {
      if (slot >= 0) std::copy(state.begin(), state.end(), slots.begin() + static_cast<int64_t>(static_cast<size_t>(slot) * size));
    }
  }
}

struct Result {
  Values out, slots;

  bool operator==(const Result& other) const { return sameBits(out, other.out) && sameBits(slots, other.slots); }
};

// Compares with what the first instruction set gave.
void checkSame(std::vector<Result>& first, size_t index, const Result& got, const std::string& name) {
  if (index == first.size()) first.push_back(got);
  check(got == first[index], name + " has the bits of every instruction set");
}

Values rowsOf(const Values& values, int64_t width, int64_t begin, int64_t end) { return Values(values.begin() + begin * width, values.begin() + end * width); }

// Runs `step` in programs of at most `most` rows. A run that is cut goes on in a slot of its own. `record` adds the
// operation of rows [begin, end) with the indices' buffers.
template <typename Record>
Values inParts(const Step& step, int64_t most, int64_t outWidth, Record record) {
  Values out;
  for (int64_t begin = 0; begin < step.numRows(); begin += most) {
    const int64_t end = std::min(begin + most, step.numRows());
    const auto part = [&](const std::vector<int32_t>& all) { return std::vector<int32_t>(all.begin() + begin, all.begin() + end); };
    Step own{part(step.sources), part(step.targets), part(step.copies)};
    if (own.sources[0] == -2) own.sources[0] = kSlots;
    const bool isCut = end < step.numRows() && step.sources[static_cast<size_t>(end)] == -2;
    if (isCut && own.targets.back() >= 0) own.copies.back() = kSlots;
    else if (isCut) own.targets.back() = kSlots;
    const Values values = record(own, begin, end);
    out.insert(out.end(), values.begin(), values.begin() + (end - begin) * outWidth);
  }
  return out;
}

// The slots that tests know; the one behind them is for cut runs.
Values withSpare(Values slots) {
  slots.resize(slots.size() / kSlots * (kSlots + 1), NAN);
  return slots;
}

void testCausalConv(const char* isa, std::vector<Result>& first) {
  Random random(21);
  size_t index = 0;
  const Step step = mixedStep();
  const int64_t numRows = step.numRows();
  for (int64_t width : {1, 63, 64, 200}) {
    for (int64_t taps : {1, 4, 5}) {
      // The shortest and the longest kernel with SiLU, the one between them without.
      const bool isActivated = taps != 4;
      Values x = random.values(numRows * width, 3.0f);
      x[0] = 1e30f;
      const Values kernel = random.values(taps * width);
      const bool isBiased = taps == 4;
      const Values bias = random.values(width);
      const Values slots = random.values(kSlots * (taps - 1) * width);
      const auto run = [&](int64_t most, int numThreads) {
        Bench bench(isa, numThreads);
        const double state = bench.put(withSpare(slots));
        const double taken = bench.put(kernel);
        Result result;
        result.out = inParts(step, most, width, [&](const Step& part, int64_t begin, int64_t end) {
          const double out = bench.allocate((end - begin) * width * 4);
          bench.record(OpCode::causalConv, {out, bench.put(rowsOf(x, width, begin, end)), taken, isBiased ? bench.put(bias) : 0.0, state, bench.put(part.sources),
                                            bench.put(part.targets), bench.put(part.copies), static_cast<double>(end - begin), kSlots + 1, static_cast<double>(width),
                                            static_cast<double>(taps), isActivated ? 1.0 : 0.0});
          bench.run();
          return bench.get<float>(out, (end - begin) * width);
        });
        result.slots = bench.get<float>(state, static_cast<int64_t>(slots.size()));
        return result;
      };
      const std::string name = std::string("causalConv ") + isa + " of " + std::to_string(width) + ", " + std::to_string(taps) + " taps";
      const Result whole = run(numRows, 3);
      Doubles expected;
      Doubles kept = widened(slots);
      followRows(step, kept, [&](size_t m, Doubles& past) {
        past.insert(past.end(), x.begin() + static_cast<int64_t>(m) * width, x.begin() + (static_cast<int64_t>(m) + 1) * width);
        for (size_t c = 0; c < static_cast<size_t>(width); c++) {
          double sum = isBiased ? bias[c] : 0;
          for (size_t j = 0; j < static_cast<size_t>(taps); j++) sum += kernel[j * static_cast<size_t>(width) + c] * past[j * static_cast<size_t>(width) + c];
          expected.push_back(isActivated ? sum / (1 + std::exp(-sum)) : sum);
        }
        past.erase(past.begin(), past.begin() + width);
      });
      check(isClose(whole.out, expected, 2e-6, 2e-6), name);
      check(isClose(whole.slots, kept, 0, 0), name + ": states");
      check(run(13, 2) == whole, name + " in steps of 13 rows");
      check(run(1, 1) == whole, name + " row by row");
      checkSame(first, index++, whole, name);
    }
  }
}

struct DeltaSizes {
  int64_t keyHeads, heads, keyDim, valueDim;
  bool isTiled;
};

// S of one head, [keyDim, valueDim], lies in blocks of columns; the last one is padded.
size_t stateIndex(const DeltaSizes& sizes, int64_t head, int64_t i, int64_t j) {
  const int64_t numBlocks = (sizes.valueDim + kBlockColumns - 1) / kBlockColumns;
  return static_cast<size_t>(((head * numBlocks + j / kBlockColumns) * sizes.keyDim + i) * kBlockColumns + j % kBlockColumns);
}

// Adds a token's outputs, by the definition.
void deltaToken(const DeltaSizes& sizes, const float* x, const float* alpha, const float* beta, const Values& decay, const Values& bias, Doubles& state, Doubles& out) {
  const auto [keyHeads, heads, keyDim, valueDim, isTiled] = sizes;
  const auto scaled = [n = keyDim](const float* vector, double factor) {
    double sum = 1e-6;
    for (int64_t i = 0; i < n; i++) sum += static_cast<double>(vector[i]) * vector[i];
    Doubles result;
    for (int64_t i = 0; i < n; i++) result.push_back(vector[i] * factor / std::sqrt(sum));
    return result;
  };
  for (int64_t head = 0; head < heads; head++) {
    const int64_t group = isTiled ? head % keyHeads : head / (heads / keyHeads);
    const Doubles q = scaled(x + group * keyDim, 1 / std::sqrt(static_cast<double>(keyDim)));
    const Doubles k = scaled(x + (keyHeads + group) * keyDim, 1);
    const float* v = x + 2 * keyHeads * keyDim + head * valueDim;
    const double input = static_cast<double>(alpha[head]) + bias[static_cast<size_t>(head)];
    const double kept = std::exp(decay[static_cast<size_t>(head)] * (input > 30 ? input : std::log1p(std::exp(input))));
    const double rate = 1 / (1 + std::exp(-static_cast<double>(beta[head])));
    for (int64_t j = 0; j < valueDim; j++) {
      double recalled = 0;
      for (int64_t i = 0; i < keyDim; i++) recalled += state[stateIndex(sizes, head, i, j)] * kept * k[static_cast<size_t>(i)];
      const double delta = rate * (v[j] - recalled);
      double sum = 0;
      for (int64_t i = 0; i < keyDim; i++) {
        double& s = state[stateIndex(sizes, head, i, j)];
        s = s * kept + k[static_cast<size_t>(i)] * delta;
        sum += s * q[static_cast<size_t>(i)];
      }
      out.push_back(sum);
    }
  }
}

void testDeltaRule(const char* isa, std::vector<Result>& first) {
  Random random(22);
  size_t index = 0;
  const Step step = mixedStep();
  const int64_t numRows = step.numRows();
  const DeltaSizes all[] = {{1, 1, 1, 1, false}, {2, 6, 7, 33, true}, {2, 4, 32, 64, false}, {1, 3, 61, 31, false}, {2, 2, 128, 170, true}};
  for (const DeltaSizes& sizes : all) {
    const auto [keyHeads, heads, keyDim, valueDim, isTiled] = sizes;
    const int64_t width = 2 * keyHeads * keyDim + heads * valueDim;
    const int64_t outWidth = heads * valueDim;
    const int64_t stateSize = static_cast<int64_t>(stateIndex(sizes, heads, 0, 0));
    const Values x = random.values(numRows * width, 2.0f);
    Values alpha = random.values(numRows * heads, 4.0f);
    Values beta = random.values(numRows * heads, 4.0f);
    // A softplus beyond its bound, and gates that are shut and open.
    alpha[0] = 25.0f;
    beta[1] = 900.0f;
    beta[2] = -900.0f;
    Values decay = random.values(heads, 0.2f);
    for (float& value : decay) value = -std::fabs(value);
    const Values bias = random.values(heads);
    Values slots(static_cast<size_t>(kSlots * stateSize), 0.0f);
    for (int64_t slot = 0; slot < kSlots; slot++) {
      for (int64_t head = 0; head < heads; head++) {
        for (int64_t i = 0; i < keyDim; i++) {
          for (int64_t j = 0; j < valueDim; j++) slots[static_cast<size_t>(slot * stateSize) + stateIndex(sizes, head, i, j)] = random.unit();
        }
      }
    }
    const auto run = [&, keyHeads = keyHeads, heads = heads, keyDim = keyDim, valueDim = valueDim, isTiled = isTiled](int64_t most, int numThreads) {
      Bench bench(isa, numThreads);
      const double state = bench.put(withSpare(slots));
      const double decays = bench.put(decay);
      const double biases = bench.put(bias);
      Result result;
      result.out = inParts(step, most, outWidth, [&](const Step& part, int64_t begin, int64_t end) {
        const double out = bench.allocate((end - begin) * outWidth * 4);
        bench.record(OpCode::deltaRule,
                     {out, bench.put(rowsOf(x, width, begin, end)), bench.put(rowsOf(alpha, heads, begin, end)), bench.put(rowsOf(beta, heads, begin, end)), decays, biases,
                      state, bench.put(part.sources), bench.put(part.targets), bench.put(part.copies), static_cast<double>(end - begin), kSlots + 1,
                      static_cast<double>(keyHeads), static_cast<double>(heads), static_cast<double>(keyDim), static_cast<double>(valueDim), isTiled ? 1.0 : 0.0, 1e-6});
        bench.run();
        return bench.get<float>(out, (end - begin) * outWidth);
      });
      result.slots = bench.get<float>(state, static_cast<int64_t>(slots.size()));
      return result;
    };
    const std::string name = std::string("deltaRule ") + isa + " of " + std::to_string(keyDim) + " x " + std::to_string(valueDim);
    const Result whole = run(numRows, 1);
    Doubles expected;
    Doubles kept = widened(slots);
    followRows(step, kept, [&, heads = heads](size_t m, Doubles& state) {
      const int64_t row = static_cast<int64_t>(m);
      deltaToken(sizes, x.data() + row * width, alpha.data() + row * heads, beta.data() + row * heads, decay, bias, state, expected);
    });
    check(isClose(whole.out, expected, 2e-5, 2e-5), name);
    check(isClose(whole.slots, kept, 2e-5, 2e-5), name + ": states");
    check(run(numRows, 3) == whole, name + " on three threads");
    check(run(13, 2) == whole, name + " in steps of 13 rows");
    check(run(1, 1) == whole, name + " row by row");
    checkSame(first, index++, whole, name);
  }
}

struct ScanSizes {
  int64_t heads, groups, stateDim, valueDim;
};

// Adds a token's outputs, by the definition.
void scanToken(const ScanSizes& sizes, const float* x, const float* steps, const Values& decay, const Values& bias, const Values& skip, Doubles& state, Doubles& out) {
  const auto [heads, groups, stateDim, valueDim] = sizes;
  const DeltaSizes layout{groups, heads, stateDim, valueDim, false};
  for (int64_t head = 0; head < heads; head++) {
    const size_t h = static_cast<size_t>(head);
    const float* b = x + heads * valueDim + head / (heads / groups) * stateDim;
    const float* c = b + groups * stateDim;
    const double input = static_cast<double>(steps[head]) + bias[h];
    const double step = input > 30 ? input : std::log1p(std::exp(input));
    const double kept = std::exp(decay[h] * step);
    for (int64_t j = 0; j < valueDim; j++) {
      const double value = x[head * valueDim + j];
      double sum = skip[h] * value;
      for (int64_t i = 0; i < stateDim; i++) {
        double& s = state[stateIndex(layout, head, i, j)];
        s = s * kept + b[i] * step * value;
        sum += s * c[i];
      }
      out.push_back(sum);
    }
  }
}

void testSelectiveScan(const char* isa, std::vector<Result>& first) {
  Random random(24);
  size_t index = 0;
  const Step step = mixedStep();
  const int64_t numRows = step.numRows();
  for (const ScanSizes& sizes : {ScanSizes{1, 1, 1, 1}, ScanSizes{6, 2, 7, 33}, ScanSizes{4, 1, 32, 64}, ScanSizes{3, 3, 61, 31}, ScanSizes{2, 1, 128, 170}}) {
    const auto [heads, groups, stateDim, valueDim] = sizes;
    const int64_t outWidth = heads * valueDim;
    const int64_t width = outWidth + 2 * groups * stateDim;
    const int64_t stateSize = static_cast<int64_t>(stateIndex({groups, heads, stateDim, valueDim, false}, heads, 0, 0));
    const Values x = random.values(numRows * width, 2.0f);
    Values steps = random.values(numRows * heads, 4.0f);
    // A softplus beyond its bound, and steps of nothing.
    steps[0] = 25.0f;
    steps[1] = -900.0f;
    Values decay = random.values(heads, 0.2f);
    for (float& value : decay) value = -std::exp(value * 10);
    const Values bias = random.values(heads);
    const Values skip = random.values(heads);
    Values slots = random.values(kSlots * stateSize, 0.5f);
    for (int64_t slot = 0; slot < kSlots; slot++) {
      for (int64_t head = 0; head < heads; head++) {
        const int64_t numColumns = (valueDim + kBlockColumns - 1) / kBlockColumns * kBlockColumns;
        for (int64_t i = 0; i < stateDim; i++) {
          for (int64_t j = valueDim; j < numColumns; j++) {
            slots[static_cast<size_t>(slot * stateSize) + stateIndex({groups, heads, stateDim, valueDim, false}, head, i, j)] = 0.0f;
          }
        }
      }
    }
    const auto run = [&, heads = heads, groups = groups, stateDim = stateDim, valueDim = valueDim](int64_t most, int numThreads) {
      Bench bench(isa, numThreads);
      const double state = bench.put(withSpare(slots));
      const double decays = bench.put(decay);
      const double biases = bench.put(bias);
      const double skips = bench.put(skip);
      Result result;
      result.out = inParts(step, most, outWidth, [&](const Step& part, int64_t begin, int64_t end) {
        const double out = bench.allocate((end - begin) * outWidth * 4);
        bench.record(OpCode::selectiveScan,
                     {out, bench.put(rowsOf(x, width, begin, end)), bench.put(rowsOf(steps, heads, begin, end)), decays, biases, skips, state, bench.put(part.sources),
                      bench.put(part.targets), bench.put(part.copies), static_cast<double>(end - begin), kSlots + 1, static_cast<double>(heads), static_cast<double>(groups),
                      static_cast<double>(stateDim), static_cast<double>(valueDim)});
        bench.run();
        return bench.get<float>(out, (end - begin) * outWidth);
      });
      result.slots = bench.get<float>(state, static_cast<int64_t>(slots.size()));
      return result;
    };
    const std::string name = std::string("selectiveScan ") + isa + " of " + std::to_string(stateDim) + " x " + std::to_string(valueDim);
    const Result whole = run(numRows, 1);
    Doubles expected;
    Doubles kept = widened(slots);
    followRows(step, kept, [&, heads = heads](size_t m, Doubles& state) {
      const int64_t row = static_cast<int64_t>(m);
      scanToken(sizes, x.data() + row * width, steps.data() + row * heads, decay, bias, skip, state, expected);
    });
    check(isClose(whole.out, expected, 2e-4, 2e-5), name);
    check(isClose(whole.slots, kept, 2e-5, 2e-5), name + ": states");
    check(run(numRows, 3) == whole, name + " on three threads");
    check(run(13, 2) == whole, name + " in steps of 13 rows");
    check(run(1, 1) == whole, name + " row by row");
    checkSame(first, index++, whole, name);
  }
}

void testGatedNorm(const char* isa) {
  Random random(25);
  for (int64_t width : {1, 12, 36, 1028}) {
    for (int64_t groups : {int64_t{1}, std::min<int64_t>(width, 4)}) {
      const Values x = random.values(3 * width, 2.0f);
      const Values gates = random.values(3 * width, 20.0f);
      const Values gain = random.values(width);
      Bench bench(isa, 2);
      const double out = bench.put(x);
      bench.record(OpCode::gatedNorm, {out, bench.put(gates), bench.put(gain), 3, static_cast<double>(width), static_cast<double>(groups), 1e-5});
      bench.run();
      Doubles expected;
      const size_t size = static_cast<size_t>(width / groups);
      for (size_t at = 0; at < x.size(); at += size) {
        double sum = 0;
        Doubles values;
        for (size_t i = at; i < at + size; i++) {
          values.push_back(x[i] * (gates[i] / (1 + std::exp(-static_cast<double>(gates[i])))));
          sum += values.back() * values.back();
        }
        for (size_t i = 0; i < size; i++) expected.push_back(values[i] / std::sqrt(sum / static_cast<double>(size) + 1e-5) * gain[(at + i) % static_cast<size_t>(width)]);
      }
      check(isClose(bench.get<float>(out, 3 * width), expected, 1e-6, 3e-6), std::string("gatedNorm ") + isa + " of " + std::to_string(width));
    }
  }
}

void testProducts(const char* isa) {
  Random random(23);
  for (int64_t width : {1, 7, 32, 1027}) {
    const Values gates = random.values(3 * width, 20.0f);
    const Values x = random.values(3 * width, 2.0f);
    for (int kind : {0, 1}) {
      for (int64_t gateWidth : {width, int64_t{1}}) {
        Bench bench(isa, 2);
        const double out = bench.put(x);
        bench.record(OpCode::applyGate, {out, bench.put(gates), 3, static_cast<double>(width), static_cast<double>(gateWidth), static_cast<double>(kind)});
        bench.run();
        Doubles expected;
        for (int64_t i = 0; i < 3 * width; i++) {
          const double gate = gates[static_cast<size_t>(i / width * gateWidth + (gateWidth == 1 ? 0 : i % width))];
          expected.push_back(x[static_cast<size_t>(i)] * (kind == 1 ? gate : 1) / (1 + std::exp(-gate)));
        }
        check(isClose(bench.get<float>(out, 3 * width), expected, 1e-30, 1e-6), std::string("applyGate ") + isa + " of " + std::to_string(width));
      }
    }
    // The last columns of rows that have three more.
    const Values wide = random.values(3 * (width + 3));
    Bench bench(isa, 2);
    const double out = bench.put(x);
    bench.record(OpCode::multiply, {out, bench.put(wide), 3, static_cast<double>(width), static_cast<double>(width + 3), 3});
    bench.run();
    Values products = x;
    for (int64_t i = 0; i < 3 * width; i++) products[static_cast<size_t>(i)] *= wide[static_cast<size_t>(i / width * (width + 3) + 3 + i % width)];
    check(sameBits(bench.get<float>(out, 3 * width), products), std::string("multiply ") + isa + " of " + std::to_string(width));
  }
}

}  // namespace

void testRecurrent() {
  std::vector<Result> convolved;
  std::vector<Result> recalled;
  std::vector<Result> scanned;
  for (const char* isa : isas()) {
    testCausalConv(isa, convolved);
    testDeltaRule(isa, recalled);
    testSelectiveScan(isa, scanned);
    testGatedNorm(isa);
    testProducts(isa);
  }
}

}  // namespace millrace::test
