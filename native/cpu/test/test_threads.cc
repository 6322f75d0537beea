// The thread pool by itself, far more threads than CPUs included: every unit of every stage runs once, after all of the
// stage before it.
#include <atomic>
#include <chrono>
#include <thread>

#include "../runtime/cpu.h"
#include "../runtime/thread_pool.h"
#include "check.h"
#if defined(__linux__)
#include <sched.h>
#endif

namespace millrace::test {

namespace {

// Long enough for waiting threads to park.
constexpr auto kPause = std::chrono::microseconds(1000);

struct Record;
using Group = std::vector<std::unique_ptr<Record>>;

// The observed run of one operation. Plain integers: the pool must order the threads that write and read them.
struct Record {
  std::vector<int> timesRun;  // by unit
  const Group* before;        // the stage before, or null
  bool isSlow;                // its pieces take some time, those of other threads than the caller longer: the caller waits for them
  const std::thread::id caller = std::this_thread::get_id();
  std::atomic<int64_t> numEarly{0};

  Record(int64_t numUnits, const Group* stageBefore, bool takesLong) : timesRun(static_cast<size_t>(numUnits)), before(stageBefore), isSlow(takesLong) {}
  bool isDone() const {
    for (int times : timesRun) {
      if (times != 1) return false;
    }
    return true;
  }
};

void runUnits(const Op& op, int64_t begin, int64_t end, std::byte* scratch) {
  Record& record = *op.args<Record*>();
  if (record.before != nullptr) {
    for (const auto& earlier : *record.before) record.numEarly += earlier->isDone() ? 0 : 1;
  }
  memcpy(scratch, &begin, sizeof begin);
  for (int64_t unit = begin; unit < end; unit++) record.timesRun[static_cast<size_t>(unit)]++;
  if (record.isSlow) std::this_thread::sleep_for(std::this_thread::get_id() == record.caller ? kPause / 5 : kPause);
  // Another thread with the same scratch would have overwritten it.
  record.numEarly += memcmp(scratch, &begin, sizeof begin) == 0 ? 0 : 1;
}

const KernelTable& recordingKernels() {
  static const KernelTable table = [] {
    KernelTable kernels{"recording", {}};
    for (KernelFn& run : kernels.run) run = runUnits;
    return kernels;
  }();
  return table;
}

// Stages of up to three operations of no, one and many units each, some worth sharing and some not. True when all of it
// ran as it should.
bool runsRight(ThreadPool& pool, Random& random, int numStages, int slowEvery) {
  constexpr int64_t kNumUnits[] = {0, 1, 2, 3, 17, 64, 200};
  std::vector<std::unique_ptr<Group>> stages;
  Plan& plan = pool.nextPlan();
  for (int stage = 0; stage < numStages; stage++) {
    const Group* before = stages.empty() ? nullptr : stages.back().get();
    stages.push_back(std::make_unique<Group>());
    for (int64_t left = random.below(3); left >= 0; left--) {
      Op op{};
      op.code = OpCode::add;
      op.numUnits = kNumUnits[random.below(7)];
      op.nanosPerUnit = random.below(3) == 0 ? 0.001 : 1e5;
      op.maxUnitsPerChunk = random.below(3);
      op.isConcurrent = left > 0;
      op.scratchBytes = 64;
      stages.back()->push_back(std::make_unique<Record>(op.numUnits, before, slowEvery > 0 && stage % slowEvery == 0));
      op.args<Record*>() = stages.back()->back().get();
      plan.ops.push_back(op);
    }
  }
  pool.run();
  for (const auto& stage : stages) {
    for (const auto& record : *stage) {
      if (!record->isDone() || record->numEarly.load() != 0) return false;
    }
  }
  return true;
}

void checkPinned() {
#if defined(__linux__)
  // On a thread of its own, which stays on its CPU.
  std::thread([] {
    Random random(12);
    ThreadPool pool(3, recordingKernels());
    pool.pin({sched_getcpu()});
    check(runsRight(pool, random, 50, 10), "threads that share a CPU");
  }).join();
  std::thread([] {
    cpu_set_t allowed;
    sched_getaffinity(0, sizeof(allowed), &allowed);
    std::vector<int> cpus;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
      if (CPU_ISSET(static_cast<size_t>(cpu), &allowed)) cpus.push_back(cpu);
    }
    ThreadPool pool(2, recordingKernels());
    pool.pin(cpus);
    int numUsable = 0;
    std::thread([&numUsable] { numUsable = numUsableCpus(); }).join();
    check(numUsable == static_cast<int>(cpus.size()), "a thread started by one whose threads are pinned may use all of their CPUs");
  }).join();
#endif
}

}  // namespace

void testThreads() {
  for (const int numThreads : {1, 2, 5, 64}) {
    const std::string name = std::to_string(numThreads) + " threads: ";
    Random random(11);
    ThreadPool pool(numThreads, recordingKernels());
    check(runsRight(pool, random, 0, 0), name + "an empty program");
    for (int program = 0; program < 10; program++) check(runsRight(pool, random, 60, 0), name + "many stages");
    check(runsRight(pool, random, 20, 2), name + "slow stages");
    for (int pause = 0; pause < 10; pause++) {
      std::this_thread::sleep_for(kPause);
      check(runsRight(pool, random, 3, 0), name + "after a pause");
    }
    for (int start = 0; start < 5; start++) {
      ThreadPool(numThreads, recordingKernels());
      ThreadPool again(numThreads, recordingKernels());
      check(runsRight(again, random, 3, 0), name + "started anew");
      const Device device(numThreads, nullptr);
      check(device.numThreads() == numThreads, name + "a device");
    }
  }
  checkPinned();
}

}  // namespace millrace::test
