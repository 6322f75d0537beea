// The sampler against a full sort and the noise's definition; equal choices on every instruction set.
#include <algorithm>
#include <numeric>

#include "../kernels/sample.h"
#include "check.h"
#include "reference.h"

namespace millrace::test {

namespace {

// Where nothing may come.
constexpr int32_t kNoToken = -1;

struct Settings {
  double temperature = 0;
  double topK = 0;
  double topP = 1;
  double minP = 0;
  double presence = 0;
  double frequency = 0;
  double repetition = 1;
  uint64_t seed = 0;
  uint64_t position = 0;
  double topNSigma = 0;
  double typicalP = 1;
  double xtcProbability = 0;
  double xtcThreshold = 0;
  double dynatempRange = 0;
  double dynatempExponent = 1;
  double numTop = 3;
  double mode = 0;
  double target = 0;
};

struct Inputs {
  std::vector<int32_t> prompt;
  std::vector<int32_t> output;
  std::vector<int32_t> biasIds;
  std::vector<float> biasValues;
  std::vector<int32_t> banned;
  std::vector<int32_t> mask{};  // one bit a token; empty: all may come
};

struct Result {
  int32_t id;
  float logprob;
  int32_t rank;
  std::vector<int32_t> topIds;
  std::vector<float> topLogprobs;
};

constexpr int64_t kTopStride = 5;

void recordSample(Bench& bench, const std::vector<float>& logits, const Settings& s, const Inputs& in, double outputs[5]) {
  std::vector<double> row(kSampleParams, 0.0);
  const double values[] = {s.mode, s.target, s.temperature, s.topK, s.topP, s.minP, s.presence, s.frequency, s.repetition,
                           static_cast<double>(s.seed >> 32), static_cast<double>(s.seed & 0xffffffffu), static_cast<double>(s.position), s.numTop, 0,
                           static_cast<double>(in.prompt.size()), static_cast<double>(in.output.size()), 0, static_cast<double>(in.biasIds.size()), 0,
                           static_cast<double>(in.banned.size()), in.mask.empty() ? -1.0 : 0.0, s.topNSigma, s.typicalP, s.xtcProbability, s.xtcThreshold,
                           s.dynatempRange, s.dynatempExponent};
  std::copy(std::begin(values), std::end(values), row.begin());
  std::vector<int32_t> history = in.prompt;
  history.insert(history.end(), in.output.begin(), in.output.end());
  const double sizes[] = {4, 4, 4, kTopStride * 4, kTopStride * 4};
  for (int i = 0; i < 5; i++) outputs[i] = bench.device.allocate(sizes[i]);
  bench.record(OpCode::sample, {bench.put(logits), 1, static_cast<double>(logits.size()), bench.put(row), bench.put(history), bench.put(in.biasIds),
                                bench.put(in.biasValues), bench.put(in.banned), bench.put(in.mask), outputs[0], outputs[1], outputs[2], outputs[3], outputs[4], kTopStride});
}

Result sampleOne(Bench& bench, const std::vector<float>& logits, const Settings& s, const Inputs& in = {}) {
  double outputs[5];
  recordSample(bench, logits, s, in, outputs);
  bench.run();
  return {bench.get<int32_t>(outputs[0], 1)[0], bench.get<float>(outputs[1], 1)[0], bench.get<int32_t>(outputs[2], 1)[0],
          bench.get<int32_t>(outputs[3], kTopStride), bench.get<float>(outputs[4], kTopStride)};
}

std::vector<int32_t> sorted(const std::vector<double>& values) {
  std::vector<int32_t> ids(values.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) { return values[static_cast<size_t>(a)] > values[static_cast<size_t>(b)]; });
  return ids;
}

std::vector<double> widen(const std::vector<float>& logits) {
  std::vector<double> values;
  for (float logit : logits) values.push_back(std::isnan(logit) ? -HUGE_VAL : logit);
  return values;
}

int32_t expectedChoice(const std::vector<float>& logits, const Settings& s, const Inputs& in) {
  std::vector<double> l = widen(logits);
  for (size_t id = 0; id < l.size() && !in.mask.empty(); id++) {
    if ((static_cast<uint32_t>(in.mask[id / 32]) >> (id % 32) & 1) == 0) l[id] = -HUGE_VAL;
  }
  for (size_t i = 0; i < in.biasIds.size(); i++) l[static_cast<size_t>(in.biasIds[i])] += in.biasValues[i];
  for (int32_t id : in.banned) l[static_cast<size_t>(id)] = -HUGE_VAL;
  for (size_t id = 0; id < l.size(); id++) {
    const auto inPrompt = std::count(in.prompt.begin(), in.prompt.end(), static_cast<int32_t>(id));
    const auto inOutput = std::count(in.output.begin(), in.output.end(), static_cast<int32_t>(id));
    if (inPrompt + inOutput > 0) l[id] = l[id] > 0 ? l[id] / s.repetition : l[id] * s.repetition;
    l[id] -= s.frequency * static_cast<double>(inOutput);
    if (inOutput > 0) l[id] -= s.presence;
  }
  std::vector<int32_t> ids = sorted(l);
  if (l[static_cast<size_t>(ids[0])] == -HUGE_VAL) return kNoToken;
  if (s.temperature == 0) return ids[0];
  for (double& value : l) value /= s.temperature;
  const auto weight = [&](int32_t id) { return std::exp(l[static_cast<size_t>(id)] - l[static_cast<size_t>(ids[0])]); };
  ids.erase(std::remove_if(ids.begin(), ids.end(), [&](int32_t id) { return l[static_cast<size_t>(id)] == -HUGE_VAL || weight(id) < s.minP; }), ids.end());
  if (s.topK > 0 && ids.size() > static_cast<size_t>(s.topK)) ids.resize(static_cast<size_t>(s.topK));
  double total = 0;
  for (int32_t id : ids) total += weight(id);
  double reached = 0;
  size_t numKept = 0;
  while (numKept < ids.size() && (numKept == 0 || reached < s.topP * total)) reached += weight(ids[numKept++]);
  if (s.topP < 1) ids.resize(numKept);
  int32_t best = ids[0];
  double bestScore = -HUGE_VAL;
  for (int32_t id : ids) {
    const double score = l[static_cast<size_t>(id)] + referenceNoise(s.seed, s.position, static_cast<uint64_t>(id));
    if (score > bestScore || (score == bestScore && id < best)) {
      best = id;
      bestScore = score;
    }
  }
  return best;
}

Settings randomSettings(Random& random) {
  Settings s;
  s.temperature = random.below(5) == 0 ? 0 : 0.2 + 0.3 * static_cast<double>(random.below(6));
  s.topK = random.below(2) == 0 ? 0 : static_cast<double>(1 + random.below(60));
  s.topP = random.below(2) == 0 ? 1 : 0.05 + 0.1 * static_cast<double>(random.below(10));
  s.minP = random.below(2) == 0 ? 0 : 0.01 * static_cast<double>(random.below(30));
  if (random.below(2) == 0) {
    s.presence = 0.5;
    s.frequency = 0.25;
    s.repetition = 1.3;
  }
  s.seed = random.bits();
  s.position = static_cast<uint64_t>(random.below(1 << 20));
  return s;
}

void checkAgainstDefinition(const char* isa, std::vector<int32_t>& choices) {
  Random random(5);
  for (int round = 0; round < 150; round++) {
    Bench bench(isa, 1);
    const int64_t vocabSize = 1 + random.below(round % 10 == 0 ? 3000 : 300);
    std::vector<float> logits = random.values(vocabSize, 6.0f);
    // Coarse logits tie often.
    if (round % 3 == 0) {
      for (float& logit : logits) logit = std::floor(logit);
    }
    if (round % 7 == 0) logits[static_cast<size_t>(random.below(vocabSize))] = NAN;
    const Settings s = randomSettings(random);
    Inputs in;
    for (int i = 0; i < 6; i++) {
      in.prompt.push_back(static_cast<int32_t>(random.below(vocabSize)));
      in.output.push_back(static_cast<int32_t>(random.below(vocabSize)));
      in.biasIds.push_back(static_cast<int32_t>(random.below(vocabSize)));
      in.biasValues.push_back(random.unit() * 5);
      if (round % 2 == 0) in.banned.push_back(static_cast<int32_t>(random.below(vocabSize)));
    }
    for (int64_t word = 0; round % 4 == 1 && word < maskWords(vocabSize); word++) {
      in.mask.push_back(word % 5 == 0 ? 0 : word % 5 == 1 ? -1 : static_cast<int32_t>(random.bits()));
    }
    const Result got = sampleOne(bench, logits, s, in);
    choices.push_back(got.id);
    check(got.id == expectedChoice(logits, s, in), std::string("sample ") + isa + " round " + std::to_string(round));

    const std::vector<double> values = widen(logits);
    const std::vector<int32_t> order = sorted(values);
    double sum = 0;
    for (double value : values) sum += std::exp(value - values[static_cast<size_t>(order[0])]);
    const auto logprob = [&](int32_t id) { return values[static_cast<size_t>(id)] - values[static_cast<size_t>(order[0])] - std::log(sum); };
    std::vector<double> expectedTop;
    for (size_t i = 0; i < 3 && i < order.size(); i++) expectedTop.push_back(logprob(order[i]));
    check(std::equal(expectedTop.begin(), expectedTop.end(), got.topLogprobs.begin(), [](double a, float b) { return a == b || std::fabs(a - b) < 2e-6; }) &&
              std::equal(order.begin(), order.begin() + static_cast<int64_t>(expectedTop.size()), got.topIds.begin()),
          "top tokens");
    if (got.id == kNoToken) continue;
    check(got.rank == std::find(order.begin(), order.end(), got.id) - order.begin() + 1, "rank");
    check(got.logprob == static_cast<float>(logprob(got.id)) || std::fabs(got.logprob - logprob(got.id)) < 2e-6, "log-probability");
  }
}

// llama.cpp's samplers: their definitions are tested from TypeScript; here, that instruction sets agree.
void collectShaped(const char* isa, std::vector<int32_t>& choices) {
  Random random(7);
  Bench bench(isa, 1);
  for (int round = 0; round < 60; round++) {
    const int64_t vocabSize = 1 + random.below(round % 10 == 0 ? 9000 : 300);
    Settings s = randomSettings(random);
    s.topNSigma = random.below(3) == 0 ? 0.7 : 0;
    s.typicalP = random.below(2) == 0 ? 0.4 : 1;
    s.xtcProbability = random.below(2) == 0 ? 0.5 : 0;
    s.xtcThreshold = 0.02;
    s.dynatempRange = random.below(2) == 0 ? 0.8 : 0;
    s.dynatempExponent = 0.7;
    choices.push_back(sampleOne(bench, random.values(vocabSize, 6.0f), s, {{0}, {0}, {0}, {1.0f}, {}}).id);
  }
}

void checkOddities(const char* isa) {
  Bench bench(isa, 1);
  Settings warm;
  warm.temperature = 1;
  check(sampleOne(bench, {NAN, NAN, NAN}, warm).id == kNoToken, "only NaN");
  check(sampleOne(bench, {1, 2, 3}, warm, {{}, {}, {}, {}, {0, 1, 2}}).id == kNoToken, "everything banned");
  const int32_t tied = sampleOne(bench, {0, HUGE_VALF, HUGE_VALF}, warm).id;
  check(tied == 1, "infinite logits tie to the lowest id");
  warm.topP = 0;
  warm.minP = 1;
  check(sampleOne(bench, {0, 5, 1}, warm).id == 1, "top-p 0 keeps one");
  Settings score;
  score.mode = 1;
  score.target = 2;
  const Result scored = sampleOne(bench, {0, 5, 1}, score);
  check(scored.id == 2 && scored.rank == 2, "scoring a target");
  Random random(6);
  const std::vector<float> large = random.values(150001, 8.0f);
  for (double topP : {1.0, 0.95, 0.5}) {
    Settings s;
    s.temperature = 1.5;
    s.topP = topP;
    s.seed = 42;
    check(sampleOne(bench, large, s).id == expectedChoice(large, s, {}), "a large vocabulary");
  }
  double outputs[5];
  Settings bad = score;
  bad.target = 2;
  recordSample(bench, {1, 2}, bad, {}, outputs);
  check(bench.isRefused(), "a target outside");
  bad = {};
  bad.temperature = NAN;
  recordSample(bench, {1, 2}, bad, {}, outputs);
  check(bench.isRefused(), "temperature NaN");
  recordSample(bench, {1, 2}, {}, {{2}, {}, {}, {}, {}}, outputs);
  check(bench.isRefused(), "history outside");
  recordSample(bench, std::vector<float>(33, 1.0f), {}, {{}, {}, {}, {}, {}, {-1}}, outputs);
  check(bench.isRefused(), "a mask too short");
}

}  // namespace

void testSample() {
  std::vector<std::vector<int32_t>> choices;
  for (const char* isa : isas()) {
    choices.emplace_back();
    checkAgainstDefinition(isa, choices.back());
    collectShaped(isa, choices.back());
    checkOddities(isa);
    check(choices.back() == choices.front(), std::string("choices equal those of portable: ") + isa);
  }
}

}  // namespace millrace::test
