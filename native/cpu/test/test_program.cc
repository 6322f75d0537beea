// Programs as a whole: long ones on many threads keep their order, malformed ones are refused and leave everything as
// it was.
#include <type_traits>
#include <utility>

#include "../runtime/operands.h"
#include "check.h"

namespace millrace::test {

namespace {

// The compiler checks that an operand is read as its own operation's and as its kind, and that an operand for reading
// is not written.
template <typename Name, typename Operand, typename = void>
constexpr bool kIsBuffer = false;
template <typename Name, typename Operand>
constexpr bool kIsBuffer<Name, Operand, std::void_t<decltype(std::declval<Operands<Name>>().buffer(std::declval<Operand>(), 1))>> = true;
static_assert(kIsBuffer<ops::add, decltype(ops::add::out)>);
static_assert(!kIsBuffer<ops::add, decltype(ops::linear::out)>, "another operation's");
static_assert(!kIsBuffer<ops::add, decltype(ops::add::width)>, "another kind");
static_assert(std::is_same_v<decltype(std::declval<Operands<ops::add>>().buffer(ops::add::x, 1)), const float*>, "only read");

// A chain of operations in which each step needs the one before; big and small ones alternate, some side by side.
std::vector<float> runChain(const char* isa, int numThreads, int numSubmits) {
  Random random(8);
  Bench bench(isa, numThreads);
  const int64_t width = 192;
  const int64_t numRows = 24;
  const double weightA = bench.weight(TensorType::F16, randomWeight(TensorType::F16, width, width, random), width, width);
  const double weightB = bench.weight(TensorType::Q8_0, randomWeight(TensorType::Q8_0, width, width, random), width, width);
  const double gain = bench.put(random.values(width));
  const double x = bench.put(random.values(numRows * width));
  const double a = bench.allocate(numRows * width * 4);
  const double b = bench.allocate(numRows * width * 4);
  const double M = numRows;
  const double N = width;
  for (int submit = 0; submit < numSubmits; submit++) {
    for (int layer = 0; layer < 6; layer++) {
      bench.record(OpCode::rmsNorm, {x, x, gain, M, N, 1e-5});
      bench.record(OpCode::linear, {a, x, weightA, 0, M, 0}, true);
      bench.record(OpCode::linear, {b, x, weightB, 0, M, 0});
      bench.record(OpCode::add, {x, b, M, N});
      bench.record(OpCode::gatedLinear, {a, b, x, weightA, 0, x, weightB, 0, M, 0});
      bench.record(OpCode::add, {x, a, 1, N});
      bench.record(OpCode::add, {x, a, M, N});
    }
    bench.run();
  }
  return bench.get<float>(x, numRows * width);
}

void checkRefusals() {
  Bench bench("portable", 2);
  const std::vector<float> ones(16, 1.0f);
  const double out = bench.put(ones);
  const double x = bench.put(ones);
  const std::vector<std::vector<double>> bad = {{out, x, 1, 17}, {out, x, -1, 1}, {out, x, NAN, 1}, {out, x, 0.5, 1}, {out, 12345, 1, 1}, {0, x, 1, 1},
                                                {out, x, 2147483647, 2147483647}, {out, x, 1}, {out, x, 1, 1, 1}};
  for (const auto& args : bad) {
    bench.record(OpCode::add, {out, x, 1, 16});
    bench.record(OpCode::add, args);
    check(bench.isRefused(), "a malformed add is refused");
  }
  check(sameBits(bench.get<float>(out, 16), ones), "nothing of a refused program ran");
  const double released = bench.put(ones);
  bench.device.release(released);
  bench.record(OpCode::add, {out, released, 1, 16});
  check(bench.isRefused(), "a released buffer is refused");
  const double source = bench.put(std::vector<uint8_t>(64));
  const double weight = bench.device.createWeight(source, 0, "F32", 4, 4, false);
  bench.record(OpCode::linear, {out, x, weight, 0, 1, 0});
  bench.run();
  bench.device.release(source);
  bench.record(OpCode::linear, {out, x, weight, 0, 1, 0});
  check(bench.isRefused(), "a weight without its source is refused");
  const double same = bench.device.createWeight(bench.put(std::vector<uint8_t>(64)), 0, "F32", 4, 4, false);
  bench.record(OpCode::linear, {x, x, same, 0, 1, 0});
  check(bench.isRefused(), "linear in place is refused");
}

// Random words, and valid operations with some words replaced: refused or run, never a fault.
void fuzz(const char* isa) {
  Random random(9);
  Bench bench(isa, 2);
  std::vector<double> pool = {0, 1, 2, 3, 4, 5, 8, 16, -1, 0.5, NAN, 1e9, HUGE_VAL, 4294967296.0};
  std::vector<double> buffers;
  for (int i = 0; i < 6; i++) buffers.push_back(bench.put(std::vector<int32_t>(512, i % 3)));
  pool.insert(pool.end(), buffers.begin(), buffers.end());
  pool.push_back(bench.weight(TensorType::F32, std::vector<uint8_t>(256), 8, 8));
  pool.push_back(bench.weight(TensorType::Q4_K, std::vector<uint8_t>(288), 2, 256));
  int64_t numRun = 0;
  for (int round = 0; round < 60000; round++) {
    // Values that one program leaves in a buffer must not become the next one's unlikely indices.
    for (size_t i = 0; i < buffers.size(); i++) std::fill_n(reinterpret_cast<int32_t*>(bench.device.buffer(buffers[i])->data()), 512, static_cast<int32_t>(i % 3));
    const int64_t code = random.below(kNumOps);
    std::vector<double> args;
    for (int i = 0; i < kNumOperands[code]; i++) {
      // Mostly live handles and small counts, or nothing would ever run.
      const int64_t pick = random.below(20) == 0 ? random.below(static_cast<int64_t>(pool.size())) : random.below(3) == 0 ? 14 + random.below(8) : random.below(4);
      args.push_back(pool[static_cast<size_t>(pick)]);
    }
    bench.record(static_cast<OpCode>(code), args, random.below(2) == 0);
    numRun += bench.isRefused() ? 0 : 1;
  }
  check(numRun > 100, std::string("some random programs run: ") + isa);
}

}  // namespace

void testProgram() {
  for (const char* isa : isas()) {
    const std::vector<float> alone = runChain(isa, 1, 20);
    bool isFinite = true;
    for (float value : alone) isFinite = isFinite && std::isfinite(value);
    check(isFinite, std::string("the chain stays finite ") + isa);
    for (int numThreads : {2, 3, 5}) {
      check(sameBits(runChain(isa, numThreads, 20), alone), std::string("a chain ") + isa + " on " + std::to_string(numThreads) + " threads");
    }
    fuzz(isa);
  }
  checkRefusals();
  for (const char* isa : {"sse9", ""}) {
    std::string code = "none";
    try {
      Bench bench(isa, 1);
    } catch (const Failure& failure) {
      code = failure.code;
    }
    check(code == kIsaCode, "an unknown instruction set");
  }
}

}  // namespace millrace::test
