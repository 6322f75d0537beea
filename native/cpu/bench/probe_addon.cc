// The probes as an addon of their own (build/native/probes.node): times a number of threads over one of the loops.
#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "../binding/values.h"
#include "../runtime/memory.h"
#include "probes.h"

namespace millrace {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kMaxThreads = 1024;
constexpr int64_t kReadUnit = 256;
// Cells a thread takes at a time: some fifty microseconds. A multiple of 192.
constexpr int64_t kMultiplyUnit = 24'000;

// Those of an instruction set that this CPU has.
const Probes& probesOf(const std::string& isa) {
#if defined(__x86_64__)
  if (isa == "avx512vnni") return avx512vnniProbes();
  if (isa == "avx512bf16") return avx512bf16Probes();
  if (isa == "amx") return amxProbes();
  if (isa == "avx512") return avx512Probes();
  if (isa == "avx2") return avx2Probes();
#endif
  return portableProbes();
}

// Runs body(thread) on numThreads threads, the caller's among them, and gives the seconds from the moment all are ready
// to the last one's end.
template <typename Body>
double secondsOn(int numThreads, Body body) {
  std::atomic<int> numReady{0};
  std::atomic<bool> hasStarted{false};
  std::vector<std::thread> threads;
  for (int thread = 1; thread < numThreads; thread++) {
    threads.emplace_back([&, thread] {
      numReady.fetch_add(1);
      while (!hasStarted.load(std::memory_order_acquire)) {
      }
      body(thread);
    });
  }
  while (numReady.load() < numThreads - 1) {
  }
  const Clock::time_point start = Clock::now();
  hasStarted.store(true, std::memory_order_release);
  body(0);
  for (std::thread& thread : threads) thread.join();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// An integer argument in [min, max].
int64_t integer(const Arguments& args, size_t index, const char* name, double min, double max) {
  const double value = args.number(index, name);
  if (value >= min && value <= max && value == static_cast<double>(static_cast<int64_t>(value))) return static_cast<int64_t>(value);
  throw Failure{kArgumentCode, std::string("expected ") + name + " to be an integer in range, got " + std::to_string(value)};
}

// readSeconds(isa, numThreads, numBytes, numPasses): seconds of the fastest pass over numBytes of memory, each thread
// over its own share.
napi_value readSeconds(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    const Arguments args(env, info);
    const int numThreads = static_cast<int>(integer(args, 1, "numThreads", 1, kMaxThreads));
    const int64_t numBytes = integer(args, 2, "numBytes", 1 << 20, 1e12);
    const int64_t numPasses = integer(args, 3, "numPasses", 1, 1e6);
    const int64_t share = numBytes / numThreads / kReadUnit * kReadUnit;
    const std::shared_ptr<Memory> memory = Memory::allocate(static_cast<size_t>(numBytes));
    const uint8_t* data = memory->data();
#if defined(__linux__)
    // The ceiling is the memory's own, without the cost of small pages.
    madvise(memory->data(), memory->numBytes(), MADV_HUGEPAGE);
#endif
    const Probes& probes = probesOf(args.string(0, "isa"));
    std::vector<uint64_t> sums(static_cast<size_t>(numThreads));
    // Each thread writes its share first: pages nobody wrote are all one page of zeros.
    secondsOn(numThreads, [&](int thread) {
      uint8_t* own = memory->data() + thread * share;
      for (int64_t at = 0; at < share; at += 64) own[at] = static_cast<uint8_t>(at >> 6);
    });
    double fastest = 1e30;
    for (int64_t pass = 0; pass < numPasses; pass++) {
      const double seconds =
          secondsOn(numThreads, [&](int thread) { sums[static_cast<size_t>(thread)] = probes.read(data + thread * share, share); });
      if (seconds < fastest) fastest = seconds;
    }
    volatile uint64_t sink = 0;
    for (const uint64_t sum : sums) sink = sink + sum;
    return makeNumber(env, fastest * (static_cast<double>(numBytes) / static_cast<double>(share * numThreads)));
  });
}

// multiplySeconds(isa, mix, numThreads, numCells): seconds in which the threads together do numThreads × numCells cells
// of the mix. As with the engine's kernels, a thread that is held up leaves more to the others.
napi_value multiplySeconds(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    const Arguments args(env, info);
    const Mix mix = static_cast<Mix>(integer(args, 1, "mix", 0, kNumMixes - 1));
    const int numThreads = static_cast<int>(integer(args, 2, "numThreads", 1, kMaxThreads));
    const int64_t numCells = integer(args, 3, "numCells", 24, 1e15) / 24 * 24;
    const Probes& probes = probesOf(args.string(0, "isa"));
    std::vector<float> sums(static_cast<size_t>(numThreads));
    std::atomic<int64_t> numUnits{numThreads * std::max<int64_t>(1, numCells / kMultiplyUnit)};
    const int64_t unit = std::min(numCells, kMultiplyUnit);
    const double seconds = secondsOn(numThreads, [&](int thread) {
      while (numUnits.fetch_sub(1, std::memory_order_relaxed) > 0) sums[static_cast<size_t>(thread)] += probes.multiply(mix, unit);
    });
    volatile float sink = 0;
    for (const float sum : sums) sink = sink + sum;
    return makeNumber(env, seconds);
  });
}

}  // namespace
}  // namespace millrace

NAPI_MODULE_INIT() {
  return millrace::guarded(env, [&] {
    millrace::setMethod(env, exports, "readSeconds", millrace::readSeconds);
    millrace::setMethod(env, exports, "multiplySeconds", millrace::multiplySeconds);
    millrace::setProperty(env, exports, "cellMacs", millrace::makeNumber(env, static_cast<double>(millrace::kCellMacs)));
    return exports;
  });
}
