// Counting, random data and comparison.
#include "check.h"

#include "../runtime/cpu.h"
#include "reference.h"

namespace millrace::test {

Totals& totals() {
  static Totals counts;
  return counts;
}

void check(bool isRight, const std::string& what) {
  if (isRight) {
    totals().numPassed++;
    return;
  }
  totals().numFailed++;
  printf("  FAILED: %s\n", what.c_str());
}

void group(const char* name, const std::function<void()>& body) {
  const Totals before = totals();
  body();
  printf("%-16s %lld passed, %lld failed\n", name, static_cast<long long>(totals().numPassed - before.numPassed),
         static_cast<long long>(totals().numFailed - before.numFailed));
}

uint64_t Random::bits() {
  uint64_t z = state_ += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

std::vector<float> Random::values(int64_t count, float scale) {
  std::vector<float> result(static_cast<size_t>(count));
  for (float& value : result) value = unit() * scale;
  return result;
}

void Bench::record(OpCode code, const std::vector<double>& args, bool isConcurrent) {
  words_.push_back(static_cast<double>(code));
  words_.push_back(isConcurrent ? 1 : 0);
  words_.push_back(static_cast<double>(args.size()));
  words_.insert(words_.end(), args.begin(), args.end());
}

void Bench::run() {
  const std::vector<double> words = std::move(words_);
  words_.clear();
  device.submit(words.data(), static_cast<int64_t>(words.size()));
}

bool Bench::isRefused() {
  try {
    run();
  } catch (const Failure& failure) {
    return strcmp(failure.code, kArgumentCode) == 0;
  }
  return false;
}

std::vector<const char*> isas() {
  std::vector<const char*> result;
  for (const KernelTable* kernels : supportedKernels()) result.push_back(kernels->isa);
  return result;
}

// Where a block keeps its f16 scale.
static int64_t scaleOffset(TensorType type) {
  if (type == TensorType::Q2_K) return 80;
  if (type == TensorType::Q3_K) return 108;
  if (type == TensorType::TQ1_0) return 52;
  if (type == TensorType::TQ2_0) return 64;
  return type == TensorType::Q6_K ? 208 : 0;
}

static bool hasMinimum(TensorType type) {
  return type == TensorType::Q4_1 || type == TensorType::Q5_1 || type == TensorType::Q2_K || type == TensorType::Q4_K || type == TensorType::Q5_K;
}

static void putHalf(std::vector<uint8_t>& bytes, int64_t at, float value) {
  const uint16_t half = referenceToHalf(value);
  memcpy(bytes.data() + at, &half, 2);
}

// The first scale of the block at `at`; IQ1_M has its bits in the upper halves of four bytes.
static void putScale(TensorType type, std::vector<uint8_t>& bytes, int64_t at, float value) {
  if (type != TensorType::IQ1_M) return putHalf(bytes, at + scaleOffset(type), value);
  const uint16_t half = referenceToHalf(value);
  for (int i = 0; i < 4; i++) {
    uint8_t& byte = bytes[static_cast<size_t>(at + 49 + 2 * i)];
    byte = static_cast<uint8_t>((byte & 15) | (half >> (4 * i) & 15) << 4);
  }
}

// Blocks under an f32 scale.
static bool hasSingle(TensorType type) { return isF8(type) || type == TensorType::I8 || type == TensorType::I8_INT8; }
static void putFloat(std::vector<uint8_t>& bytes, int64_t at, float value) { memcpy(bytes.data() + at, &value, 4); }

// The E4M3 scales of a block of NVFP4, given by the block's first bytes; all blocks of a row are under one f32 scale.
static void putScales(TensorType type, std::vector<uint8_t>& bytes, int64_t at, float rowScale, const std::function<uint8_t()>& code) {
  if (type == TensorType::NVFP4_SCALED) putFloat(bytes, at, rowScale);
  for (int s = 0; s < 4; s++) bytes[static_cast<size_t>(at + (type == TensorType::NVFP4 ? 0 : 4) + s)] = code();
}

std::vector<uint8_t> randomWeight(TensorType type, int64_t rows, int64_t cols, Random& random) {
  const TensorTypeInfo& info = infoOf(type);
  const int64_t numBlocks = rows * (cols / info.blockValues);
  std::vector<uint8_t> bytes(static_cast<size_t>(numBlocks * info.blockBytes));
  if (type == TensorType::F32) {
    const std::vector<float> values = random.values(rows * cols);
    memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  }
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random.bits());
  float rowScale = 1;
  for (int64_t i = 0; i < numBlocks; i++) {
    const int64_t at = i * info.blockBytes;
    if (i % (cols / info.blockValues) == 0) rowScale = random.unit();
    if (type == TensorType::F16) putHalf(bytes, at, random.unit());
    else if (type == TensorType::BF16 || type == TensorType::BF16_BF16) bytes[static_cast<size_t>(at + 1)] = static_cast<uint8_t>(0x3e | (random.bits() & 0x81));
    else if (type == TensorType::MXFP4) bytes[static_cast<size_t>(at)] = static_cast<uint8_t>(119 + random.below(8));
    // 2^−5 to 2^−2, some with a sign that nobody reads, subnormals, zero and NaN, which is one.
    else if (isNVFP4(type)) putScales(type, bytes, at, rowScale, [&] { return static_cast<uint8_t>(random.below(8) == 0 ? 124 + random.below(16) : 16 + random.below(24)); });
    else if (hasSingle(type)) putFloat(bytes, at, random.unit() * 0.01f);
    else putScale(type, bytes, at, random.unit() * 0.05f);
    // No NaN, whose bits are all ones, and no value far above the others.
    for (int64_t j = 4; j < info.blockBytes && isF8(type); j++) bytes[static_cast<size_t>(at + j)] &= 0xcf;
    if (hasMinimum(type)) putHalf(bytes, at + scaleOffset(type) + 2, random.unit() * 0.05f);
  }
  return bytes;
}

void setScales(TensorType type, std::vector<uint8_t>& bytes, float scale, float minimumScale) {
  const int64_t blockBytes = infoOf(type).blockBytes;
  for (int64_t at = 0; at < static_cast<int64_t>(bytes.size()); at += blockBytes) {
    if (type == TensorType::MXFP4) bytes[static_cast<size_t>(at)] = static_cast<uint8_t>(127 + std::ilogb(scale));
    // The largest, of 448; a power of two in front.
    else if (isNVFP4(type)) putScales(type, bytes, at, scale, [] { return static_cast<uint8_t>(126); });
    else if (hasSingle(type)) putFloat(bytes, at, scale);
    else putScale(type, bytes, at, scale);
    if (hasMinimum(type)) putHalf(bytes, at + scaleOffset(type) + 2, minimumScale);
  }
}

bool sameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || memcmp(a.data(), b.data(), a.size() * 4) == 0);
}

bool isClose(const std::vector<float>& a, const std::vector<double>& b, double absolute, double relative) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); i++) {
    const double got = a[i];
    if (got == b[i] || (std::isnan(got) && std::isnan(b[i]))) continue;
    if (std::fabs(got - b[i]) <= absolute + relative * std::fabs(b[i])) continue;
    printf("  value %zu: expected %.9g, got %.9g\n", i, b[i], got);
    return false;
  }
  return true;
}

}  // namespace millrace::test
