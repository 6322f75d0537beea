// The test program's tools: counting checks, seeded numbers, comparison, and a device with buffers that are easy to
// fill.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "../runtime/device.h"
#include "../runtime/failure.h"

namespace millrace::test {

struct Totals {
  int64_t numPassed = 0;
  int64_t numFailed = 0;
};
Totals& totals();

// Counts; prints what failed.
void check(bool isRight, const std::string& what);

// Runs one named group and prints its line.
void group(const char* name, const std::function<void()>& body);

// splitmix64.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t bits();
  // Uniform in [0, limit).
  int64_t below(int64_t limit) { return static_cast<int64_t>(bits() % static_cast<uint64_t>(limit)); }
  // Uniform in [−1, 1).
  float unit() { return static_cast<float>(static_cast<int64_t>(bits() >> 40) - (1 << 23)) / static_cast<float>(1 << 23); }
  std::vector<float> values(int64_t count, float scale = 1.0f);

 private:
  uint64_t state_;
};

// A device whose operands are plain vectors.
class Bench {
 public:
  Bench(const char* isa, int numThreads, bool sharesKvReads = true) : device(numThreads, isa, sharesKvReads) {}

  template <typename Value>
  double put(const std::vector<Value>& content) {
    const double handle = device.allocate(static_cast<double>(content.size() * sizeof(Value)));
    if (!content.empty()) memcpy(device.buffer(handle)->data(), content.data(), content.size() * sizeof(Value));
    return handle;
  }
  double allocate(int64_t numBytes) { return device.allocate(static_cast<double>(numBytes)); }
  template <typename Value>
  std::vector<Value> get(double handle, int64_t count) {
    std::vector<Value> content(static_cast<size_t>(count));
    if (count > 0) memcpy(content.data(), device.buffer(handle)->data(), content.size() * sizeof(Value));
    return content;
  }
  double weight(TensorType type, const std::vector<uint8_t>& bytes, int64_t rows, int64_t cols) {
    return device.createWeight(put(bytes), 0, infoOf(type).name, static_cast<double>(rows), static_cast<double>(cols), false);
  }
  void record(OpCode code, const std::vector<double>& args, bool isConcurrent = false);
  void run();
  // Whether the recorded program is refused with kernels_argument; forgets it.
  bool isRefused();

  Device device;

 private:
  std::vector<double> words_;
};

// Instruction sets this CPU has.
std::vector<const char*> isas();

// Bytes of a random matrix whose dequantised values are about 1.
std::vector<uint8_t> randomWeight(TensorType type, int64_t rows, int64_t cols, Random& random);
// Sets the scale and, where the type has one, the minimum's scale of every block of a quantised matrix.
void setScales(TensorType type, std::vector<uint8_t>& bytes, float scale, float minimumScale);

bool sameBits(const std::vector<float>& a, const std::vector<float>& b);
// |a − b| <= absolute + relative · |b| everywhere; equal infinities and a NaN on both sides count as equal.
bool isClose(const std::vector<float>& a, const std::vector<double>& b, double absolute, double relative);

void testFiles();
void testThreads();
void testConversions();
void testDequantize();
void testSimpleOps();
void testRecurrent();
void testLinear();
void testPacked();
void testAttention();
void testSample();
void testProgram();

}  // namespace millrace::test
