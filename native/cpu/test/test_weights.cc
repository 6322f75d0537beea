// Conversions, dequantisation and linear layers against the definitions; equality of bits however the work is cut.
#include "check.h"
#include "reference.h"

namespace millrace::test {

namespace {

constexpr TensorType kAllTypes[] = {TensorType::F32,  TensorType::F16,  TensorType::BF16, TensorType::Q8_0, TensorType::Q4_0, TensorType::Q4_1,
                                    TensorType::Q5_0, TensorType::Q5_1, TensorType::Q2_K, TensorType::Q3_K, TensorType::Q4_K, TensorType::Q5_K,
                                    TensorType::Q6_K, TensorType::IQ4_NL, TensorType::IQ4_XS, TensorType::MXFP4, TensorType::F8_E4M3, TensorType::I8,
                                    TensorType::Q8_0_INT8, TensorType::I8_INT8, TensorType::F8_E4M3_BF16, TensorType::BF16_BF16,
                                    TensorType::NVFP4, TensorType::NVFP4_SCALED, TensorType::IQ2_XXS, TensorType::IQ2_XS, TensorType::IQ2_S,
                                    TensorType::IQ3_XXS, TensorType::IQ3_S, TensorType::IQ1_S, TensorType::IQ1_M, TensorType::TQ1_0, TensorType::TQ2_0};

// All of the rows of a weight through embed.
std::vector<float> embedAll(const char* isa, TensorType type, const std::vector<uint8_t>& bytes, int64_t rows, int64_t cols) {
  Bench bench(isa, 1);
  std::vector<int32_t> ids;
  for (int64_t r = 0; r < rows; r++) ids.push_back(static_cast<int32_t>(r));
  const double out = bench.allocate(rows * cols * 4);
  bench.record(OpCode::embed, {out, bench.weight(type, bytes, rows, cols), bench.put(ids), static_cast<double>(rows), 1});
  bench.run();
  return bench.get<float>(out, rows * cols);
}

std::string describe(const char* what, const char* isa, TensorType type, int64_t n, int64_t k, int64_t m) {
  return std::string(what) + " " + isa + " " + infoOf(type).name + " [" + std::to_string(n) + ", " + std::to_string(k) + "] x " + std::to_string(m);
}

struct LinearCase {
  TensorType type;
  int64_t numOut;
  int64_t numCols;
  int64_t numRows;
  bool hasBias;
  bool accumulate;
};

// Runs the rows [first, first + count) of x.
std::vector<float> runLinear(const char* isa, int numThreads, const LinearCase& one, const std::vector<uint8_t>& bytes, const std::vector<float>& x,
                             const std::vector<float>& bias, int64_t first, int64_t count) {
  Bench bench(isa, numThreads);
  const std::vector<float> rows(x.begin() + first * one.numCols, x.begin() + (first + count) * one.numCols);
  const double out = bench.put(std::vector<float>(static_cast<size_t>(count * one.numOut), 0.25f));
  const ActivationFormat format = activationsOf(one.type, false);
  double left = bench.put(rows);
  if (format != ActivationFormat::f32) {
    const double rounded = bench.allocate(count * activationRowBytes(format, one.numCols));
    bench.record(OpCode::quantize, {rounded, left, static_cast<double>(count), static_cast<double>(one.numCols), static_cast<double>(format)});
    left = rounded;
  }
  bench.record(OpCode::linear, {out, left, bench.weight(one.type, bytes, one.numOut, one.numCols), one.hasBias ? bench.put(bias) : 0,
                                static_cast<double>(count), one.accumulate ? 1.0 : 0.0});
  bench.run();
  return bench.get<float>(out, count * one.numOut);
}

void checkLinear(const char* isa, const LinearCase& one, Random& random) {
  const std::vector<uint8_t> bytes = randomWeight(one.type, one.numOut, one.numCols, random);
  const std::vector<float> x = random.values(one.numRows * one.numCols);
  const std::vector<float> bias = random.values(one.numOut);
  const std::vector<float> got = runLinear(isa, 1, one, bytes, x, bias, 0, one.numRows);
  const std::string name = describe("linear", isa, one.type, one.numOut, one.numCols, one.numRows);

  std::vector<double> magnitudes;
  std::vector<float> left = x;
  if (activationsOf(one.type, false) == ActivationFormat::bf16) {
    for (float& value : left) value = referenceToBfloat(value);
  }
  const std::vector<double> expected = referenceLinear(left, referenceMatrix(one.type, bytes, one.numOut, one.numCols), one.numRows, one.numOut, one.numCols, &magnitudes);
  bool isRight = true;
  for (size_t i = 0; i < got.size(); i++) {
    const double value = expected[i] + (one.hasBias ? bias[i % static_cast<size_t>(one.numOut)] : 0.0f) + (one.accumulate ? 0.25 : 0.0);
    // An eighth of the terms per lane, each rounding by 2^−24 of the partial sum.
    isRight = isRight && std::fabs(got[i] - value) <= 1e-6 + 1e-6 * magnitudes[i] * (1 + static_cast<double>(one.numCols) / 512);
  }
  check(isRight, name + " equals the definition");

  std::vector<float> rowByRow;
  for (int64_t m = 0; m < one.numRows && m < 40; m++) {
    const std::vector<float> row = runLinear(isa, 1, one, bytes, x, bias, m, 1);
    rowByRow.insert(rowByRow.end(), row.begin(), row.end());
  }
  check(sameBits(rowByRow, std::vector<float>(got.begin(), got.begin() + static_cast<int64_t>(rowByRow.size()))), name + " row by row");
  for (int numThreads : {2, 3}) check(sameBits(runLinear(isa, numThreads, one, bytes, x, bias, 0, one.numRows), got), name + " on " + std::to_string(numThreads) + " threads");
}

}  // namespace

void testConversions() {
  for (const char* isa : isas()) {
    // Every f16 pattern widens exactly.
    std::vector<uint8_t> patterns(65536 * 2);
    for (uint32_t i = 0; i < 65536; i++) {
      patterns[2 * i] = static_cast<uint8_t>(i);
      patterns[2 * i + 1] = static_cast<uint8_t>(i >> 8);
    }
    const std::vector<float> wide = embedAll(isa, TensorType::F16, patterns, 1, 65536);
    bool isRight = true;
    for (uint32_t i = 0; i < 65536; i++) {
      const double expected = referenceFromHalf(static_cast<uint16_t>(i));
      isRight = isRight && (std::isnan(expected) ? std::isnan(wide[i]) : wide[i] == expected && std::signbit(wide[i]) == std::signbit(expected));
    }
    check(isRight, std::string("f16 to f32 ") + isa);

    // Narrowing, through the KV store: random patterns, ties and the edges of every range.
    Random random(7);
    std::vector<float> values = {0.0f, -0.0f, 65504.0f, 65519.996f, 65520.0f, 1e30f, -1e30f, HUGE_VALF, -HUGE_VALF, 5.9604645e-8f, 2.9802322e-8f, 2.9802326e-8f,
                                 6.1035156e-5f, 6.1005e-5f, 1.00048828125f, 1.00146484375f, 1e-40f};
    while (values.size() < 4096) {
      const uint32_t bits = static_cast<uint32_t>(random.bits());
      float value;
      memcpy(&value, &bits, 4);
      if (!std::isnan(value)) values.push_back(random.below(2) == 0 ? value : random.unit() * 3e-5f);
    }
    Bench bench(isa, 1);
    const int64_t count = static_cast<int64_t>(values.size());
    const double keys = bench.allocate(8 * count * 2);
    const double vals = bench.allocate(8 * count * 2);
    const double slots = bench.put(std::vector<int32_t>{0});
    bench.record(OpCode::ropeAndWriteKv, {bench.put(values), bench.put(values), bench.put(values), bench.allocate(4), keys, vals, slots, 1, 1, 1, static_cast<double>(count), 8, 0, 0, 0, 0});
    bench.run();
    const std::vector<uint16_t> halves = bench.get<uint16_t>(vals, count);
    const std::vector<uint16_t> keyHalves = bench.get<uint16_t>(keys, 8 * count);
    for (size_t i = 0; i < values.size(); i++) {
      isRight = isRight && halves[i] == referenceToHalf(values[i]) && keyHalves[8 * i] == halves[i];
    }
    check(isRight, std::string("f32 to f16 ") + isa);
  }
}

void testDequantize() {
  Random random(1);
  for (TensorType type : kAllTypes) {
    const int64_t cols = infoOf(type).blockValues == 1 ? 37 : infoOf(type).blockValues * 3;
    const std::vector<uint8_t> bytes = randomWeight(type, 5, cols, random);
    const std::vector<double> expected = referenceMatrix(type, bytes, 5, cols);
    for (const char* isa : isas()) check(isClose(embedAll(isa, type, bytes, 5, cols), expected, 0, 0), describe("embed", isa, type, 5, cols, 5));
  }
}

void testLinear() {
  Random random(2);
  for (const char* isa : isas()) {
    for (TensorType type : kAllTypes) {
      const int64_t block = infoOf(type).blockValues;
      for (int64_t numRows : {1, 2, 3, 4, 7}) {
        checkLinear(isa, {type, 1, block == 1 ? 1 : block, numRows, false, false}, random);
        checkLinear(isa, {type, 19, block == 1 ? 77 : block * 3, numRows, true, numRows % 2 == 0}, random);
      }
      checkLinear(isa, {type, 37, block == 1 ? 523 : 1280, 5, false, true}, random);
    }
    checkLinear(isa, {TensorType::F16, 70, 1029, 101, true, false}, random);
    checkLinear(isa, {TensorType::Q8_0, 33, 544, 530, false, false}, random);
    checkLinear(isa, {TensorType::F32, 300, 172, 33, false, false}, random);
  }
}

}  // namespace millrace::test
