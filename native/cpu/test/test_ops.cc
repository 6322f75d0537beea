// Normalisation, activations, rotary tables and copies against the definitions, with extreme inputs and sizes that
// divide by nothing.
#include "check.h"

namespace millrace::test {

namespace {

std::vector<float> extremes(int64_t count, Random& random, float largest) {
  const float salt[] = {0.0f, -0.0f, 1e-40f, -1e-40f, largest, -largest, 1e-30f, 1.0f};
  std::vector<float> values = random.values(count, 4.0f);
  for (float& value : values) {
    if (random.below(3) == 0) value = salt[random.below(8)];
  }
  return values;
}

void testRmsNorm(const char* isa, Random& random) {
  for (int64_t width : {1, 3, 8, 64, 173, 4099}) {
    const std::vector<float> x = extremes(2 * width, random, width == 64 ? 1e30f : 100.0f);
    const std::vector<float> gain = random.values(width);
    Bench bench(isa, 2);
    const double buffer = bench.put(x);
    bench.record(OpCode::rmsNorm, {buffer, buffer, bench.put(gain), 2, static_cast<double>(width), 1e-5});
    bench.run();
    std::vector<double> expected;
    for (int64_t r = 0; r < 2; r++) {
      double sum = 0;
      for (int64_t i = 0; i < width; i++) sum += static_cast<double>(x[static_cast<size_t>(r * width + i)]) * x[static_cast<size_t>(r * width + i)];
      const double scale = 1 / std::sqrt(sum / static_cast<double>(width) + 1e-5);
      for (int64_t i = 0; i < width; i++) expected.push_back(x[static_cast<size_t>(r * width + i)] * scale * gain[static_cast<size_t>(i)]);
    }
    check(isClose(bench.get<float>(buffer, 2 * width), expected, 1e-40, 3e-7), std::string("rmsNorm ") + isa + " of " + std::to_string(width));
  }
}

void testLayerNorm(const char* isa, Random& random) {
  for (int64_t width : {1, 3, 8, 64, 173, 4099}) {
    const std::vector<float> x = extremes(2 * width, random, width == 64 ? 1e18f : 100.0f);
    const std::vector<float> gain = random.values(width);
    const std::vector<float> bias = random.values(width);
    for (bool hasBias : {false, true}) {
      Bench bench(isa, 2);
      const double buffer = bench.put(x);
      bench.record(OpCode::layerNorm, {buffer, buffer, bench.put(gain), hasBias ? bench.put(bias) : 0, 2, static_cast<double>(width), 1e-5});
      bench.run();
      std::vector<double> expected;
      for (int64_t r = 0; r < 2; r++) {
        const float* row = x.data() + r * width;
        double mean = 0;
        double variance = 0;
        for (int64_t i = 0; i < width; i++) mean += row[i] / static_cast<double>(width);
        for (int64_t i = 0; i < width; i++) variance += (row[i] - mean) * (row[i] - mean) / static_cast<double>(width);
        for (int64_t i = 0; i < width; i++) {
          const size_t at = static_cast<size_t>(i);
          expected.push_back((row[i] - mean) / std::sqrt(variance + 1e-5) * gain[at] + (hasBias ? bias[at] : 0.0f));
        }
      }
      check(isClose(bench.get<float>(buffer, 2 * width), expected, 5e-7, 5e-7), std::string("layerNorm ") + isa + " of " + std::to_string(width));
    }
  }
}

double activated(int kind, double x) {
  if (kind == 2) return x * 0.5 * std::erfc(-x / std::sqrt(2.0));
  const double y = kind == 0 ? x : 2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
  return x / (1 + std::exp(-y));
}

void testActivate(const char* isa, Random& random) {
  for (int kind : {0, 1, 2}) {
    for (int64_t width : {1, 7, 1027}) {
      const std::vector<float> x = extremes(3 * width, random, 1e30f);
      Bench bench(isa, 2);
      const double buffer = bench.put(x);
      bench.record(OpCode::activate, {buffer, 3, static_cast<double>(width), static_cast<double>(kind)});
      bench.run();
      std::vector<double> expected;
      for (float value : x) expected.push_back(activated(kind, value));
      check(isClose(bench.get<float>(buffer, 3 * width), expected, kind == 2 ? 2e-9 : 2e-37, 4e-6), std::string("activate ") + isa + " of " + std::to_string(width));
    }
  }
}

void testActivations(const char* isa, Random& random) {
  for (int kind : {0, 1, 2}) {
    for (int64_t width : {1, 7, 8, 1027, 5000}) {
      const std::vector<float> gate = extremes(3 * width, random, 1e30f);
      const std::vector<float> up = random.values(3 * width, 2.0f);
      std::vector<double> expected;
      for (size_t i = 0; i < gate.size(); i++) {
        expected.push_back(activated(kind, gate[i]) * up[i]);
      }
      // Weights of one column and an x of one: gate and up are the weights themselves.
      Bench bench(isa, 2);
      const int64_t count = 3 * width;
      const double out = bench.allocate(count * 4);
      const double one = bench.put(std::vector<float>{1.0f});
      const auto weight = [&](const std::vector<float>& values) {
        std::vector<uint8_t> bytes(values.size() * 4);
        memcpy(bytes.data(), values.data(), bytes.size());
        return bench.weight(TensorType::F32, bytes, count, 1);
      };
      bench.record(OpCode::gatedLinear, {out, bench.allocate(count * 4), one, weight(gate), 0, one, weight(up), 0, 1, static_cast<double>(kind)});
      bench.run();
      check(isClose(bench.get<float>(out, count), expected, kind == 2 ? 1e-8 : 2e-37, 4e-6), std::string("gatedLinear ") + isa + " of " + std::to_string(width));
    }
  }
}

void testRope(const char* isa, Random& random) {
  const std::vector<int32_t> positions = {0, 1, 77, 131071, 2147483647, -3};
  const std::vector<float> invFreq = {1.0f, 0.31622776f, 1e-4f};
  Bench bench(isa, 2);
  const double table = bench.allocate(6 * 3 * 2 * 4);
  bench.record(OpCode::ropeTable, {table, bench.put(positions), bench.put(invFreq), 6, 3, 1.5});
  bench.run();
  std::vector<double> expected;
  for (int32_t position : positions) {
    for (float frequency : invFreq) {
      expected.push_back(static_cast<float>(std::cos(position * static_cast<double>(frequency)) * 1.5));
      expected.push_back(static_cast<float>(std::sin(position * static_cast<double>(frequency)) * 1.5));
    }
  }
  check(isClose(bench.get<float>(table, 36), expected, 0, 0), std::string("ropeTable ") + isa);

  // 2 query heads and 1 key head of 7 values of which 6 turn; slots out of order, one token stores nothing.
  for (int isNeox : {0, 1}) {
    const std::vector<float> q = random.values(6 * 2 * 7);
    const std::vector<float> v = random.values(6 * 7);
    const double qBuffer = bench.put(q);
    const double keys = bench.allocate(3 * 8 * 7 * 4);
    const double vals = bench.allocate(3 * 8 * 7 * 4);
    const std::vector<int32_t> slots = {11, 0, -1, 5, 4, 23};
    bench.record(OpCode::ropeAndWriteKv, {qBuffer, bench.put(v), bench.put(v), table, keys, vals, bench.put(slots), 6, 2, 1, 7, 8, 1, 3, static_cast<double>(isNeox), 0});
    bench.run();
    std::vector<double> turned(q.begin(), q.end());
    for (size_t head = 0; head < 12; head++) {
      for (size_t i = 0; i < 3; i++) {
        const double c = static_cast<float>(expected[head / 2 * 6 + 2 * i]);
        const double s = static_cast<float>(expected[head / 2 * 6 + 2 * i + 1]);
        const size_t a = head * 7 + (isNeox != 0 ? i : 2 * i);
        const size_t b = head * 7 + (isNeox != 0 ? i + 3 : 2 * i + 1);
        turned[a] = q[a] * c - q[b] * s;
        turned[b] = q[a] * s + q[b] * c;
      }
    }
    check(isClose(bench.get<float>(qBuffer, 84), turned, 3e-7, 3e-7), std::string("rope ") + isa);
    const std::vector<float> stored = bench.get<float>(vals, 168);
    bool isRight = true;
    for (size_t m = 0; m < 6; m++) {
      if (slots[m] >= 0) isRight = isRight && memcmp(&stored[static_cast<size_t>(slots[m]) * 7], &v[m * 7], 28) == 0;
    }
    check(isRight, std::string("stored values ") + isa);
  }
}

void testScales(const char* isa, Random& random) {
  for (int64_t width : {1, 7, 1025}) {
    std::vector<float> x = random.values(3 * width);
    for (size_t i = 0; i < x.size(); i += 5) x[i] *= 30;
    const std::vector<int32_t> positions = {0, 47, 100000};
    std::vector<double> scaled, capped, turned;
    for (size_t i = 0; i < x.size(); i++) {
      const double value = static_cast<double>(x[i]);
      scaled.push_back(value * 0.75);
      capped.push_back(2 * std::tanh(value * 0.75 / 2));
      turned.push_back(value * (1 + 0.1 * std::log(1 + std::floor(positions[i / static_cast<size_t>(width)] / 16.0))));
    }
    Bench bench(isa, 2);
    const double buffers[] = {bench.put(x), bench.put(x), bench.put(x)};
    const double columns = static_cast<double>(width);
    bench.record(OpCode::scaleAndCap, {buffers[0], 3, columns, 0.75, 0});
    bench.record(OpCode::scaleAndCap, {buffers[1], 3, columns, 0.75, 2});
    bench.record(OpCode::scaleByPosition, {buffers[2], bench.put(positions), 3, columns, 0.1, 16});
    bench.run();
    const std::string name = std::string(isa) + " of " + std::to_string(width);
    check(isClose(bench.get<float>(buffers[0], 3 * width), scaled, 0, 1e-7), "scale " + name);
    check(isClose(bench.get<float>(buffers[1], 3 * width), capped, 1e-30, 5e-7), "scale and cap " + name);
    check(isClose(bench.get<float>(buffers[2], 3 * width), turned, 0, 2e-7), "scale by position " + name);
  }
}

}  // namespace

void testSimpleOps() {
  Random random(3);
  for (const char* isa : isas()) {
    testRmsNorm(isa, random);
    testLayerNorm(isa, random);
    testActivate(isa, random);
    testActivations(isa, random);
    testRope(isa, random);
    testScales(isa, random);
    for (int64_t count : {1, 1023, 1025, 70001}) {
      const std::vector<float> a = random.values(count);
      const std::vector<float> b = random.values(count);
      std::vector<float> expected = a;
      for (size_t i = 0; i < expected.size(); i++) expected[i] += b[i];
      Bench bench(isa, 3);
      const double out = bench.put(a);
      bench.record(OpCode::add, {out, bench.put(b), 1, static_cast<double>(count)});
      const double gathered = bench.allocate(8);
      bench.record(OpCode::gatherRows, {gathered, out, bench.put(std::vector<int32_t>{static_cast<int32_t>(count - 1), 0}), 2, 1});
      bench.run();
      check(sameBits(bench.get<float>(out, count), expected), std::string("add ") + isa + " of " + std::to_string(count));
      check(sameBits(bench.get<float>(gathered, 2), {expected.back(), expected.front()}), std::string("gatherRows ") + isa);
    }
  }
}

}  // namespace millrace::test
