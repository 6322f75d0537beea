// The kernel threads. The caller is thread 0 and always takes part; the others wait between programs.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "memory.h"
#include "plan.h"

namespace millrace {

class ThreadPool {
 public:
  // Throws out_of_memory when the threads cannot be started.
  ThreadPool(int numThreads, const KernelTable& kernels);
  ~ThreadPool();

  // Thread i stays on CPU cpus[i % cpus.size()]. The caller, thread 0, may be on any of them: threads that it starts
  // later inherit where it may be, and would otherwise share one CPU with it. Throws kernels_argument when the OS
  // refuses one.
  void pin(const std::vector<int>& cpus);
  int numThreads() const { return numThreads_; }
  // Returns a cleared plan that no thread uses: fill it in, then run() it.
  Plan& nextPlan();
  // Runs the plan that nextPlan() returned to its end. Throws out_of_memory for scratch, before anything ran.
  void run();

 private:
  // A worker that lost its core may still look at an old plan when the next is prepared: a ring keeps it harmless.
  static constexpr uint64_t kNumPlans = 4;

  void work(int thread);
  void runInline(const Plan& plan);
  void execute(Plan& plan, int thread);
  void runChunk(const Plan& plan, const Stage& stage, int64_t chunk, std::byte* scratch) const;
  void complete(Stage& stage, int64_t numChunks);
  void ensureScratch(int64_t numBytes, int numThreads);
  std::byte* scratchOf(int thread) const { return reinterpret_cast<std::byte*>(scratch_[static_cast<size_t>(thread)]->data()); }
  template <typename Condition>
  void waitUntil(Condition condition);
  void wakeSleepers();

  const int numThreads_;
  const KernelTable& kernels_;
  // More threads than CPUs to run them.
  std::atomic<bool> isCrowded_;
  std::vector<std::shared_ptr<Memory>> scratch_;
  std::shared_ptr<Memory> workspace_;
  std::vector<std::thread> workers_;
  Plan plans_[kNumPlans];
  // Number of the newest published plan; plans_[epoch % kNumPlans].
  alignas(64) std::atomic<uint64_t> epoch_{0};
  std::atomic<bool> isStopping_{false};
  alignas(64) std::atomic<int> numSleepers_{0};
  std::mutex mutex_;
  std::condition_variable wake_;
};

}  // namespace millrace
