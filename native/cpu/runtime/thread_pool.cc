// Chunks of a stage are claimed through a counter and a stage is over when its chunks are done, not when all threads
// have arrived: a thread that the OS descheduled between chunks delays no other thread. Waiting spins for 50 µs, then
// goes on but lets others have the CPU, and parks after 500: between two steps of decoding lie some 100 µs of
// JavaScript, and a thread that has to be woken misses the beginning of the step, on a virtual machine up to half of it
// (decision 83). Where threads outnumber CPUs it yields from the start, as the thread it waits for
// may need its CPU, and parks early.
#include "thread_pool.h"

#include <chrono>
#include <exception>

#include "cpu.h"
#include "failure.h"

namespace millrace {

namespace {
constexpr auto kSpinTime = std::chrono::microseconds(50);
constexpr auto kYieldTime = std::chrono::microseconds(500);

inline void pauseCpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}
}  // namespace

ThreadPool::ThreadPool(int numThreads, const KernelTable& kernels)
    : numThreads_(numThreads), kernels_(kernels), isCrowded_(numThreads > numUsableCpus()) {
  scratch_.resize(static_cast<size_t>(numThreads));
  for (auto& memory : scratch_) memory = Memory::allocate(1);
  workspace_ = Memory::allocate(1);
  try {
    workers_.reserve(static_cast<size_t>(numThreads));
    for (int thread = 1; thread < numThreads; thread++) workers_.emplace_back([this, thread] { work(thread); });
  } catch (const std::exception&) {
    const size_t numStarted = workers_.size() + 1;
    isStopping_.store(true);
    wakeSleepers();
    for (auto& worker : workers_) worker.join();
    throw Failure{kMemoryCode, "expected to start " + std::to_string(numThreads) + " threads, got " + std::to_string(numStarted)};
  }
}

ThreadPool::~ThreadPool() {
  isStopping_.store(true);
  wakeSleepers();
  for (auto& worker : workers_) worker.join();
}

void ThreadPool::pin(const std::vector<int>& cpus) {
  const auto pinTo = [](pthread_t thread, const std::vector<int>& all) {
    if (pinThread(thread, all)) return;
    failArgument("pinThreads: expected CPU " + std::to_string(all.front()) + " to be one this process may use, got a refusal from the operating system");
  };
  // Try each CPU alone: given a list, the OS silently drops the CPUs that it forbids.
  for (const int cpu : cpus) pinTo(pthread_self(), {cpu});
  pinTo(pthread_self(), cpus);
  for (size_t thread = 1; thread < static_cast<size_t>(numThreads_); thread++) {
    pinTo(workers_[thread - 1].native_handle(), {cpus[thread % cpus.size()]});
  }
  isCrowded_.store(static_cast<size_t>(numThreads_) > cpus.size());
}

template <typename Condition>
void ThreadPool::waitUntil(Condition condition) {
  if (condition()) return;
  const bool isCrowded = isCrowded_.load(std::memory_order_relaxed);
  const auto start = std::chrono::steady_clock::now();
  const auto deadline = start + (isCrowded ? kSpinTime : kYieldTime);
  for (auto now = start; now < deadline; now = std::chrono::steady_clock::now()) {
    if (isCrowded || now - start >= kSpinTime) std::this_thread::yield();
    for (int i = 0; i < 16; i++) {
      if (condition()) return;
      pauseCpu();
    }
  }
  std::unique_lock<std::mutex> lock(mutex_);
  // Announced before the condition is looked at again: a thread that makes it true afterwards sees the sleeper.
  numSleepers_.fetch_add(1);
  while (!condition()) wake_.wait(lock);
  numSleepers_.fetch_sub(1);
}

void ThreadPool::wakeSleepers() {
  if (numSleepers_.load() == 0) return;
  { std::lock_guard<std::mutex> lock(mutex_); }
  wake_.notify_all();
}

void ThreadPool::ensureScratch(int64_t numBytes, int numThreads) {
  for (int thread = 0; thread < numThreads; thread++) {
    auto& memory = scratch_[static_cast<size_t>(thread)];
    if (static_cast<int64_t>(memory->numBytes()) < numBytes) memory = Memory::allocate(static_cast<size_t>(numBytes));
  }
}

Plan& ThreadPool::nextPlan() {
  Plan& plan = plans_[(epoch_.load() + 1) % kNumPlans];
  while (plan.numUsers.load() != 0) std::this_thread::yield();
  plan.clear();
  return plan;
}

void ThreadPool::run() {
  Plan& plan = plans_[(epoch_.load() + 1) % kNumPlans];
  plan.cut(numThreads_);
  ensureScratch(plan.scratchBytes, plan.needsThreads ? numThreads_ : 1);
  if (static_cast<int64_t>(workspace_->numBytes()) < plan.workspaceBytes) workspace_ = Memory::allocate(static_cast<size_t>(plan.workspaceBytes));
  plan.assignWorkspace(reinterpret_cast<std::byte*>(workspace_->data()));
  const FloatingPointScope scope;
  if (!plan.needsThreads) return runInline(plan);
  epoch_.fetch_add(1);
  wakeSleepers();
  execute(plan, 0);
}

void ThreadPool::runInline(const Plan& plan) {
  for (const Op& op : plan.ops) kernels_.run[static_cast<int>(op.code)](op, 0, op.numUnits, scratchOf(0));
}

void ThreadPool::work(int thread) {
  const FloatingPointScope scope;
  uint64_t seen = 0;
  for (;;) {
    waitUntil([&] { return epoch_.load() != seen || isStopping_.load(); });
    if (isStopping_.load()) return;
    seen = epoch_.load();
    Plan& plan = plans_[seen % kNumPlans];
    plan.numUsers.fetch_add(1);
    // Unchanged after announcing ourselves: the plan cannot be rewritten under us.
    if (epoch_.load() == seen) execute(plan, thread);
    plan.numUsers.fetch_sub(1);
  }
}

void ThreadPool::runChunk(const Plan& plan, const Stage& stage, int64_t chunk, std::byte* scratch) const {
  uint32_t index = stage.firstOp + stage.numOps - 1;
  while (plan.ops[index].firstChunk > chunk || plan.ops[index].numUnits == 0) index--;
  const Op& op = plan.ops[index];
  const int64_t begin = (chunk - op.firstChunk) * op.unitsPerChunk;
  const int64_t end = begin + op.unitsPerChunk < op.numUnits ? begin + op.unitsPerChunk : op.numUnits;
  kernels_.run[static_cast<int>(op.code)](op, begin, end, scratch);
}

void ThreadPool::complete(Stage& stage, int64_t numChunks) {
  if (numChunks == 0) return;
  if (stage.numDone.fetch_add(numChunks) + numChunks == stage.numChunks) wakeSleepers();
}

void ThreadPool::execute(Plan& plan, int thread) {
  for (size_t i = 0; i < plan.numStages; i++) {
    Stage& stage = plan.stages[i];
    if (stage.isSolo) {
      if (thread == 0) {
        for (uint32_t op = stage.firstOp; op < stage.firstOp + stage.numOps; op++) {
          kernels_.run[static_cast<int>(plan.ops[op].code)](plan.ops[op], 0, plan.ops[op].numUnits, scratchOf(0));
        }
        complete(stage, 1);
      }
    } else {
      int64_t numRun = 0;
      for (int64_t chunk; (chunk = stage.nextChunk.fetch_add(1)) < stage.numChunks; numRun++) {
        runChunk(plan, stage, chunk, scratchOf(thread));
      }
      complete(stage, numRun);
    }
    waitUntil([&] { return stage.numDone.load() == stage.numChunks; });
  }
}

}  // namespace millrace
