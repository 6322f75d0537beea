// Packed weights: quantize against a scalar definition, linear against the dequantised operands in double, equality of
// bits however the work is cut, and refusals.
#include <algorithm>

#include "check.h"
#include "reference.h"

namespace millrace::test {

namespace {

std::vector<TensorType> packedTypes() {
  std::vector<TensorType> types;
  for (int i = 0; i < kNumTensorTypes; i++) {
    if (packedInfoOf(static_cast<TensorType>(i)).cellBytes != 0) types.push_back(static_cast<TensorType>(i));
  }
  return types;
}

struct ScalarStep {
  float d;
  float inverse;
};

ScalarStep scalarStep(const float* x, int64_t count, float largest) {
  float maximum = 0;
  for (int64_t k = 0; k < count; k++) {
    if (!std::isfinite(x[k])) return {NAN, 0};
    maximum = std::fmax(maximum, std::fabs(x[k]));
  }
  if (maximum < 1e-30f) return {0, 0};
  return {maximum / largest, largest / maximum};
}

template <typename Value>
void putAt(std::vector<uint8_t>& bytes, int64_t at, Value value) {
  memcpy(bytes.data() + at, &value, sizeof value);
}

// Writes the definition of one row over `bytes`, which keeps what no format defines; `values` gets what the row stands
// for. A block with a NaN or an infinity only says so: its d is NaN, the rest is what `bytes` has.
void scalarQuantize(ActivationFormat format, const float* x, int64_t cols, std::vector<uint8_t>& bytes, double* values) {
  const int64_t header = activationHeaderBytes(format, cols);
  const bool isRow = format == ActivationFormat::row16;
  const int64_t block = isRow ? cols : format == ActivationFormat::blocks16 ? 16 : hasSmallBlocks(format) ? 32 : 256;
  for (int64_t i = 0; i < cols / block; i++) {
    const ScalarStep step = scalarStep(x + i * block, block, isRow ? 32767.0f : 127.0f);
    const int64_t at = i * static_cast<int64_t>(hasSmallBlocks(format) ? sizeof(SmallBlock) : sizeof(Block256));
    float stored;
    memcpy(&stored, bytes.data() + at, 4);
    for (int64_t k = 0; k < block; k++) values[i * block + k] = NAN;
    if (std::isnan(step.d) && std::isnan(stored)) continue;
    std::vector<int> q(static_cast<size_t>(block));
    for (int64_t k = 0; k < block; k++) {
      const float scaled = x[i * block + k] * step.inverse;
      q[static_cast<size_t>(k)] = static_cast<int>(std::nearbyintf(scaled));
      values[i * block + k] = static_cast<double>(step.d) * q[static_cast<size_t>(k)];
      if (isRow) putAt(bytes, header + 2 * k, static_cast<int16_t>(q[static_cast<size_t>(k)]));
      else putAt(bytes, header + i * block + k, static_cast<int8_t>(q[static_cast<size_t>(k)]));
    }
    putAt(bytes, at, step.d);
    if (hasSmallBlocks(format)) {
      int sum = 0;
      for (int one : q) sum += one;
      const float factor = format == ActivationFormat::centred32 ? 128.0f : format == ActivationFormat::blocks16 ? 12.0f : 8.0f * step.d;
      putAt(bytes, at + 4, factor * static_cast<float>(sum));
    }
    if (format == ActivationFormat::blocks256) {
      Block256 expected{};
      expected.d = step.d;
      for (size_t k = 0; k < 256; k++) {
        expected.sums16[k / 16] = static_cast<int16_t>(expected.sums16[k / 16] + q[k]);
        expected.sums32[k / 32] = static_cast<int16_t>(expected.sums32[k / 32] + q[k]);
        int16_t& offset = expected.offsets16[k / 16 * 2 + k % 4 / 2];
        offset = static_cast<int16_t>(offset - 32 * q[k]);
      }
      putAt(bytes, at, expected);
    }
  }
}

double quantized(Bench& bench, ActivationFormat format, const std::vector<float>& x, int64_t numRows, int64_t cols) {
  if (format == ActivationFormat::f32) return bench.put(x);
  const double out = bench.put(std::vector<uint8_t>(static_cast<size_t>(numRows * activationRowBytes(format, cols)), 0xa5));
  bench.record(OpCode::quantize, {out, bench.put(x), static_cast<double>(numRows), static_cast<double>(cols), static_cast<double>(format)});
  return out;
}

// The values that the rows of x have once quantised, by the scalar definition; `bytes` are the kernel's and must equal
// the definition's.
std::vector<double> checkedQuantize(const std::string& name, ActivationFormat format, const std::vector<float>& x, int64_t numRows, int64_t cols,
                                    const std::vector<uint8_t>& bytes) {
  if (format == ActivationFormat::f32) return {x.begin(), x.end()};
  if (format == ActivationFormat::bf16) {
    // checkBfloats compares the bytes.
    std::vector<double> rounded;
    for (float value : x) rounded.push_back(static_cast<double>(referenceToBfloat(value)));
    return rounded;
  }
  std::vector<double> values(x.size());
  const int64_t rowBytes = activationRowBytes(format, cols);
  bool isRight = true;
  for (int64_t m = 0; m < numRows; m++) {
    const std::vector<uint8_t> got(bytes.begin() + m * rowBytes, bytes.begin() + (m + 1) * rowBytes);
    std::vector<uint8_t> expected = got;
    scalarQuantize(format, x.data() + m * cols, cols, expected, values.data() + m * cols);
    isRight = isRight && got == expected;
  }
  check(isRight, "quantize " + name);
  return values;
}

// Values of very different sizes, exact ties, zeros, subnormals; a NaN and an infinity when asked for.
std::vector<float> awkwardValues(int64_t numRows, int64_t cols, Random& random, bool hasNonFinite) {
  std::vector<float> x = random.values(numRows * cols);
  for (int64_t k = 0; k < cols; k++) {
    x[static_cast<size_t>(k)] *= random.below(8) == 0 ? 1e-20f : 3e4f;
    if (numRows > 1) x[static_cast<size_t>(cols + k)] = static_cast<float>(random.below(255) - 127) * 0.5f;
    if (numRows > 2) x[static_cast<size_t>(2 * cols + k)] *= 1e-39f;
    if (numRows > 3) x[static_cast<size_t>(3 * cols + k)] = random.below(2) == 0 ? 3e38f : -3e38f;
  }
  if (numRows > 1) x[static_cast<size_t>(cols)] = 63.5f;
  if (hasNonFinite) x[static_cast<size_t>(4 * cols + 3)] = NAN;
  if (hasNonFinite) x[static_cast<size_t>(5 * cols + cols - 1)] = -HUGE_VALF;
  return x;
}

void checkQuantize(const char* isa, Random& random) {
  for (ActivationFormat format : {ActivationFormat::blocks32, ActivationFormat::blocks256, ActivationFormat::row16, ActivationFormat::centred32, ActivationFormat::blocks16}) {
    for (int64_t cols : {16, 32, 96, 256, 768, 1056}) {
      if (cols % activationBlock(format) != 0) continue;
      const std::vector<float> x = awkwardValues(7, cols, random, true);
      Bench bench(isa, 2);
      const double out = quantized(bench, format, x, 7, cols);
      bench.run();
      const std::string name = std::string(kActivationFormatNames[static_cast<int>(format)]) + " " + isa + " of " + std::to_string(cols);
      checkedQuantize(name, format, x, 7, cols, bench.get<uint8_t>(out, 7 * activationRowBytes(format, cols)));
    }
  }
}

// Every f32 of a few: ties, subnormals, the edges of the range, NaN.
void checkBfloats(const char* isa, Random& random) {
  std::vector<float> x = {0.0f, -0.0f, 1.00390625f, 1.01171875f, -1.00390625f, 3.3895314e38f, 3.4e38f, -3.4e38f, 1e-40f, 9.1835e-41f, HUGE_VALF, -HUGE_VALF, NAN};
  while (x.size() < 1001) {
    const uint32_t bits = static_cast<uint32_t>(random.bits());
    float value;
    memcpy(&value, &bits, 4);
    if (!std::isnan(value)) x.push_back(value);
  }
  Bench bench(isa, 1);
  const int64_t count = static_cast<int64_t>(x.size());
  const double out = quantized(bench, ActivationFormat::bf16, x, 1, count);
  bench.run();
  const std::vector<uint16_t> got = bench.get<uint16_t>(out, count);
  bool isRight = true;
  for (size_t k = 0; k < x.size(); k++) {
    const uint32_t bits = static_cast<uint32_t>(got[k]) << 16;
    float value;
    memcpy(&value, &bits, 4);
    const float expected = referenceToBfloat(x[k]);
    isRight = isRight && (std::isnan(expected) ? std::isnan(value) : value == expected && std::signbit(value) == std::signbit(expected));
  }
  check(isRight, std::string("f32 to bfloat16 ") + isa);
}

struct PackedCase {
  TensorType type;
  int64_t numOut;
  int64_t numCols;
  int64_t numRows;
  bool hasBias;
  bool accumulate;
};

struct PackedOperands {
  std::vector<uint8_t> weight;
  std::vector<float> x;
  std::vector<float> bias;
};

struct PackedRun {
  std::vector<float> out;
  std::vector<uint8_t> activations;
};

// Packs at an odd place, quantises the rows [first, first + count) and multiplies.
PackedRun runPacked(const char* isa, int numThreads, const PackedCase& one, const PackedOperands& operands, int64_t first, int64_t count) {
  constexpr int64_t kOffset = 3;
  Bench bench(isa, numThreads);
  const ActivationFormat format = packedInfoOf(one.type).activations;
  const int64_t numBytes = packedBytes(one.type, one.numOut, one.numCols);
  const double place = bench.put(std::vector<uint8_t>(static_cast<size_t>(kOffset + numBytes + 1), 0xee));
  bench.record(OpCode::pack, {place, kOffset, bench.weight(one.type, operands.weight, one.numOut, one.numCols)});
  const std::vector<float> rows(operands.x.begin() + first * one.numCols, operands.x.begin() + (first + count) * one.numCols);
  const double x = quantized(bench, format, rows, count, one.numCols);
  const double weight =
      bench.device.createWeight(place, kOffset, infoOf(one.type).name, static_cast<double>(one.numOut), static_cast<double>(one.numCols), true);
  const double out = bench.put(std::vector<float>(static_cast<size_t>(count * one.numOut), 0.25f));
  bench.record(OpCode::linear, {out, x, weight, one.hasBias ? bench.put(operands.bias) : 0, static_cast<double>(count), one.accumulate ? 1.0 : 0.0});
  bench.run();
  const std::vector<uint8_t> around = bench.get<uint8_t>(place, kOffset + numBytes + 1);
  check(around[0] == 0xee && around[kOffset - 1] == 0xee && around.back() == 0xee, "pack writes its bytes only");
  return {bench.get<float>(out, count * one.numOut), bench.get<uint8_t>(x, count * activationRowBytes(format, one.numCols))};
}

std::string describe(const char* isa, const PackedCase& one) {
  return std::string(isa) + " " + infoOf(one.type).name + " [" + std::to_string(one.numOut) + ", " + std::to_string(one.numCols) + "] x " +
         std::to_string(one.numRows);
}

// Runs all rows and holds them to the definition.
std::vector<float> checkDefinition(const char* isa, const PackedCase& one, const PackedOperands& operands) {
  const PackedRun got = runPacked(isa, 1, one, operands, 0, one.numRows);
  const std::string name = describe(isa, one);
  const std::vector<double> x = checkedQuantize(name, packedInfoOf(one.type).activations, operands.x, one.numRows, one.numCols, got.activations);
  const std::vector<double> w = referenceMatrix(one.type, operands.weight, one.numOut, one.numCols);
  bool isRight = true;
  for (int64_t m = 0; m < one.numRows; m++) {
    for (int64_t n = 0; n < one.numOut; n++) {
      double sum = (one.hasBias ? operands.bias[static_cast<size_t>(n)] : 0.0) + (one.accumulate ? 0.25 : 0.0);
      double activations = 0;
      double largest = 0;
      for (int64_t k = 0; k < one.numCols; k++) {
        const double value = x[static_cast<size_t>(m * one.numCols + k)];
        const double weight = w[static_cast<size_t>(n * one.numCols + k)];
        sum += value * weight;
        activations += std::fabs(value);
        largest = std::fmax(largest, std::fabs(weight));
      }
      const double out = got.out[static_cast<size_t>(m * one.numOut + n)];
      // Scales and offsets round on their own: an error is a share of the row's largest weight, not of each product.
      const double allowed = 1e-6 + 1e-6 * activations * largest;
      // Only f32 activations keep an infinity.
      const bool isClose = std::isnan(sum) ? std::isnan(out) : out == sum || std::fabs(out - sum) <= allowed;
      if (!isClose && isRight) printf("  output [%lld, %lld]: expected %.9g, got %.9g\n", static_cast<long long>(m), static_cast<long long>(n), sum, out);
      isRight = isRight && isClose;
    }
  }
  check(isRight, "packed linear " + name + " equals the definition");
  return got.out;
}

void checkPacked(const char* isa, const PackedCase& one, Random& random) {
  const PackedOperands operands = {randomWeight(one.type, one.numOut, one.numCols, random), random.values(one.numRows * one.numCols), random.values(one.numOut)};
  const std::vector<float> together = checkDefinition(isa, one, operands);
  std::vector<float> alone;
  for (int64_t m = 0; m < one.numRows; m++) {
    const std::vector<float> row = runPacked(isa, 1, one, operands, m, 1).out;
    alone.insert(alone.end(), row.begin(), row.end());
  }
  check(sameBits(alone, together), "packed linear " + describe(isa, one) + " row by row");
  for (int numThreads : {2, 3}) {
    check(sameBits(runPacked(isa, numThreads, one, operands, 0, one.numRows).out, together), "packed linear " + describe(isa, one) + " on " + std::to_string(numThreads) + " threads");
  }
}

// Weights of the largest magnitudes their bits can say, under activations that are all ±127 steps: sums come closest to
// overflowing.
void checkExtremes(const char* isa, TensorType type, Random& random) {
  const int64_t cols = packedInfoOf(type).cellValues == 32 ? (isNVFP4(type) ? 192 : 96) : 512;
  const uint8_t fills[] = {0x00, 0xff, 0x7f, 0x80, 0xf0, 0x0f};
  const int64_t numOut = 9;
  PackedOperands operands;
  operands.weight = randomWeight(type, numOut, cols, random);
  const int64_t rowBytes = static_cast<int64_t>(operands.weight.size()) / numOut;
  for (int64_t n = 0; n < numOut; n++) {
    for (int64_t i = 0; i < rowBytes; i++) operands.weight[static_cast<size_t>(n * rowBytes + i)] = n < 6 ? fills[n] : fills[random.below(4)];
  }
  setScales(type, operands.weight, 1.0f, 0.125f);
  const int64_t numRows = 6;
  for (int64_t m = 0; m < numRows; m++) {
    for (int64_t k = 0; k < cols; k++) {
      const bool isNegative = m == 1 || (m == 2 && k % 2 == 1) || (m == 3 && k % 4 > 1) || (m > 3 && random.below(2) == 0);
      operands.x.push_back(isNegative ? -1.0f : 1.0f);
    }
  }
  checkDefinition(isa, {type, numOut, cols, numRows, false, false}, operands);

  // A row that is not finite is NaN and leaves its neighbours alone.
  operands.weight = randomWeight(type, numOut, cols, random);
  operands.x = awkwardValues(7, cols, random, true);
  for (int64_t k = 0; k < 4 * cols; k++) operands.x[static_cast<size_t>(k)] *= k < 3 * cols ? 1.0f : 1e-30f;
  checkDefinition(isa, {type, numOut, cols, 7, false, false}, operands);
}

void checkRefused(Bench& bench, OpCode code, const std::vector<double>& args, const char* what) {
  bench.record(code, args);
  check(bench.isRefused(), what);
}

void checkRefusals() {
  Bench bench("portable", 1);
  Random random(31);
  const TensorType type = TensorType::Q4_K;
  const double weight = bench.weight(type, randomWeight(type, 9, 512, random), 9, 512);
  const int64_t numBytes = packedBytes(type, 9, 512);
  const double place = bench.allocate(numBytes);
  const double plain = bench.weight(TensorType::F32, randomWeight(TensorType::F32, 8, 32, random), 8, 32);
  checkRefused(bench, OpCode::pack, {bench.allocate(numBytes - 1), 0, weight}, "pack into too few bytes");
  checkRefused(bench, OpCode::pack, {place, 1, weight}, "pack past the end");
  checkRefused(bench, OpCode::pack, {place, -1, weight}, "pack before the start");
  checkRefused(bench, OpCode::pack, {place, 9007199254740991.0, weight}, "pack at an offset that overflows");
  checkRefused(bench, OpCode::pack, {place, 0, plain}, "pack of a type without a packed form");
  const double odd = bench.weight(TensorType::F16, randomWeight(TensorType::F16, 8, 31, random), 8, 31);
  checkRefused(bench, OpCode::pack, {place, 0, odd}, "pack of an odd number of columns of 16 bits");
  const auto refusesWeight = [&](const char* name, double rows, double cols, double offset) {
    try {
      bench.device.createWeight(place, offset, name, rows, cols, true);
    } catch (const Failure& failure) {
      return strcmp(failure.code, kArgumentCode) == 0;
    }
    return false;
  };
  check(refusesWeight("Q4_K", 17, 512, 0), "a packed weight of more groups than the buffer has");
  check(refusesWeight("Q4_K", 9, 512, 1), "a packed weight past the end");
  check(refusesWeight("Q4_K", 9, 300, 0), "a packed weight of part of a cell");
  check(refusesWeight("BF16", 9, 31, 0), "a packed weight of half a pair of columns");
  check(refusesWeight("F32", 9, 32, 0), "a packed weight of a type without a packed form");
  const double packed = bench.device.createWeight(place, 0, "Q4_K", 9, 512, true);
  checkRefused(bench, OpCode::pack, {bench.allocate(numBytes), 0, packed}, "pack of a packed weight");
  checkRefused(bench, OpCode::embed, {bench.allocate(512 * 4), packed, bench.put(std::vector<int32_t>{0}), 1, 1}, "embed of a packed weight");
  const int64_t rowBytes = activationRowBytes(ActivationFormat::blocks256, 512);
  checkRefused(bench, OpCode::linear, {bench.allocate(9 * 4 * 2), bench.allocate(2 * rowBytes - 4), packed, 0, 2, 0}, "packed linear of too few activations");
  checkRefused(bench, OpCode::linear, {bench.allocate(9 * 4 * 2 - 4), bench.allocate(2 * rowBytes), packed, 0, 2, 0}, "packed linear into too little room");
  const double x = bench.put(random.values(512));
  const double out = bench.allocate(rowBytes);
  checkRefused(bench, OpCode::quantize, {out, x, 1, 511, 1}, "quantize of part of a block of 32");
  checkRefused(bench, OpCode::quantize, {out, x, 1, 288, 2}, "quantize of part of a block of 256");
  checkRefused(bench, OpCode::quantize, {out, x, 1, 512, 0}, "quantize to f32");
  checkRefused(bench, OpCode::quantize, {out, x, 1, 512, 7}, "quantize to an unknown format");
  checkRefused(bench, OpCode::quantize, {out, x, 1, 24, 6}, "quantize of part of a block of 16");
  checkRefused(bench, OpCode::quantize, {bench.allocate(rowBytes - 4), x, 1, 512, 2}, "quantize into too few bytes");
  checkRefused(bench, OpCode::quantize, {bench.allocate(2 * rowBytes), x, 2, 512, 2}, "quantize of more rows than there are");
}

}  // namespace

void testPacked() {
  for (const char* isa : isas()) {
    Random random(30);
    checkQuantize(isa, random);
    checkBfloats(isa, random);
    for (TensorType type : packedTypes()) {
      const int64_t cell = std::max(packedInfoOf(type).cellValues, infoOf(type).blockValues);
      checkPacked(isa, {type, 1, cell, 1, false, false}, random);
      checkPacked(isa, {type, 19, 3 * cell, 3, true, false}, random);
      checkPacked(isa, {type, 8, cell, 5, false, true}, random);
      // Tokens in several tiles of unequal sizes.
      checkPacked(isa, {type, 19, 2 * cell, 7, false, true}, random);
      checkPacked(isa, {type, 37, 2 * cell, 29, true, false}, random);
      // Several panels, a last group of five rows beside a full one, tiles of four, one of two and one alone.
      checkPacked(isa, {type, 37, cell == 32 || cell == 64 ? 33 * cell : 1280, 39, true, true}, random);
      checkExtremes(isa, type, random);
    }
    // More tokens than one pass carries.
    for (TensorType type : {TensorType::Q4_0, TensorType::Q8_0, TensorType::IQ4_XS, TensorType::IQ2_S}) {
      checkPacked(isa, {type, 53, 2 * std::max<int64_t>(64, packedInfoOf(type).cellValues), 521, true, false}, random);
    }
    for (TensorType type : {TensorType::BF16_BF16, TensorType::BF16, TensorType::F16}) {
      checkPacked(isa, {type, 49, 66, 521, false, false}, random);
      // Blocks of columns, and an odd number of groups.
      checkPacked(isa, {type, 70, 8450, 29, true, true}, random);
      // Panels of groups and of columns, and tiles of tokens that are not full.
      checkPacked(isa, {type, 16 * 17 + 5, 1058, 629, true, true}, random);
      for (int64_t numTokens : {16, 17, 31, 33, 48, 49}) checkPacked(isa, {type, 16 * 17 + 5, 98, numTokens, false, false}, random);
    }
  }
  checkRefusals();
}

}  // namespace millrace::test
