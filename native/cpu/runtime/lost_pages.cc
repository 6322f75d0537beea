// The handler and its table. Only what is safe in a handler happens there: atomic loads and system calls.
#include "lost_pages.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>

namespace millrace {

namespace {

std::atomic<GuardedRange*> first{nullptr};
std::atomic<int> numLost{0};
std::mutex writing;
struct sigaction previous;

// Zeros in place of all of the file: one fault per file, however much of it is gone. A reader at this moment gets old
// bytes or zeros.
bool replaceByZeros(uintptr_t begin, uintptr_t end) {
  void* const place = reinterpret_cast<void*>(begin);
  return mmap(place, end - begin, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
}

bool isOurs(uintptr_t address) {
  for (GuardedRange* each = first.load(std::memory_order_acquire); each != nullptr; each = each->next) {
    const uintptr_t end = each->end.load(std::memory_order_acquire);
    const uintptr_t begin = each->begin.load(std::memory_order_acquire);
    if (address < begin || address >= end) continue;
    if (!replaceByZeros(begin, end)) return false;
    if (!each->isLost.exchange(true)) numLost.fetch_add(1);
    return true;
  }
  return false;
}

void passOn(int signal, siginfo_t* info, void* context) {
  if ((previous.sa_flags & SA_SIGINFO) != 0) {
    previous.sa_sigaction(signal, info, context);
  } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    previous.sa_handler(signal);
  } else if (previous.sa_handler == SIG_DFL || info->si_code > 0) {
    // Restores the default action: the process ends when this returns.
    struct sigaction standard = {};
    standard.sa_handler = SIG_DFL;
    sigaction(signal, &standard, nullptr);
    raise(signal);
  }
}

void onBusError(int signal, siginfo_t* info, void* context) {
  const int before = errno;
  // A positive code is the kernel's; another process's signal has no address.
  if (info->si_code <= 0 || !isOurs(reinterpret_cast<uintptr_t>(info->si_addr))) passOn(signal, info, context);
  errno = before;
}

void listenOnce() {
  static const bool isListening = [] {
    struct sigaction ours = {};
    ours.sa_sigaction = onBusError;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&ours.sa_mask);
    sigaction(SIGBUS, &ours, &previous);
    return true;
  }();
  (void)isListening;
}

}  // namespace

GuardedRange* guardRange(void* data, size_t numBytes) {
  const std::lock_guard<std::mutex> lock(writing);
  listenOnce();
  GuardedRange* range = first.load();
  while (range != nullptr && range->end.load() != 0) range = range->next;
  const bool isNew = range == nullptr;
  if (isNew) range = new GuardedRange;
  const uintptr_t page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t begin = reinterpret_cast<uintptr_t>(data);
  range->isLost.store(false);
  range->begin.store(begin, std::memory_order_release);
  range->end.store((begin + numBytes + page - 1) / page * page, std::memory_order_release);
  if (isNew) {
    range->next = first.load();
    first.store(range, std::memory_order_release);
  }
  return range;
}

void unguardRange(GuardedRange* range) {
  const std::lock_guard<std::mutex> lock(writing);
  range->end.store(0, std::memory_order_release);
}

int numLostRanges() { return numLost.load(std::memory_order_acquire); }

}  // namespace millrace
