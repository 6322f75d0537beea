// Small blocks come from the heap, large ones straight from the OS as fresh zero pages.
#include "memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "failure.h"

namespace millrace {

namespace {
constexpr size_t kMapThreshold = size_t{1} << 20;

[[noreturn]] void failMemory(size_t numBytes) {
  throw Failure{kMemoryCode, "expected " + std::to_string(numBytes) + " bytes from the operating system, got " + strerror(errno)};
}

[[noreturn]] void failFile(const std::string& path, const std::string& reason) {
  throw Failure{kFileCode, "expected a readable file at " + path + ", got " + reason};
}

int64_t modifiedNs(const struct stat& status) {
#if defined(__APPLE__)
  const struct timespec& time = status.st_mtimespec;
#else
  const struct timespec& time = status.st_mtim;
#endif
  return static_cast<int64_t>(time.tv_sec) * 1000000000 + time.tv_nsec;
}

// Closes the descriptor unless mapFile gets to its end.
struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
  int take() {
    const int taken = fd;
    fd = -1;
    return taken;
  }
};
}  // namespace

std::shared_ptr<Memory> Memory::allocate(size_t numBytes) {
  if (numBytes >= kMapThreshold) {
    void* data = mmap(nullptr, numBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) failMemory(numBytes);
    return std::shared_ptr<Memory>(new Memory(static_cast<uint8_t*>(data), numBytes, true));
  }
  void* data = nullptr;
  const size_t atLeastOne = numBytes > 0 ? numBytes : 1;
  errno = posix_memalign(&data, 64, atLeastOne);
  if (errno != 0) failMemory(numBytes);
  memset(data, 0, atLeastOne);
  return std::shared_ptr<Memory>(new Memory(static_cast<uint8_t*>(data), numBytes, false));
}

std::shared_ptr<Memory> Memory::mapFile(const std::string& path) {
  Descriptor file{open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0) failFile(path, strerror(errno));
  struct stat status;
  if (fstat(file.fd, &status) != 0) failFile(path, strerror(errno));
  if (!S_ISREG(status.st_mode)) failFile(path, "something that is not a regular file");
  if (status.st_size == 0) failFile(path, "an empty file");
  const size_t numBytes = static_cast<size_t>(status.st_size);
  void* data = mmap(nullptr, numBytes, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (data == MAP_FAILED) failFile(path, strerror(errno));
  std::shared_ptr<Memory> memory(new Memory(static_cast<uint8_t*>(data), numBytes, true));
  memory->file_ = file.take();
  memory->path_ = path;
  memory->modifiedNs_ = modifiedNs(status);
  memory->guard_ = guardRange(data, numBytes);
  return memory;
}

void Memory::releasePages(size_t offset, size_t numBytes, bool isEvicted) const {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t begin = (offset + page - 1) / page * page;
  const size_t end = (offset + numBytes) / page * page;
  if (file_ < 0 || begin >= end) return;
  madvise(data_ + begin, end - begin, MADV_DONTNEED);
#if defined(POSIX_FADV_DONTNEED)
  if (isEvicted) posix_fadvise(file_, static_cast<off_t>(begin), static_cast<off_t>(end - begin), POSIX_FADV_DONTNEED);
#else
  (void)isEvicted;
#endif
}

void Memory::discard() const {
  if (isMapped_ && file_ < 0) madvise(data_, numBytes_, MADV_DONTNEED);
}

void Memory::prefetch() const {
  if (file_ < 0) return;
#if defined(MADV_HUGEPAGE)
  madvise(data_, numBytes_, MADV_HUGEPAGE);
#endif
  madvise(data_, numBytes_, MADV_WILLNEED);
}

void Memory::failChanged(const std::string& got) const {
  throw Failure{kFileChangedCode, "expected " + path_ + " to stay as it was when it was opened, got " + got};
}

void Memory::requireReadable() const {
  if (guard_ == nullptr || !guard_->isLost.load()) return;
  requireUnchanged(false);
  failChanged("a part that cannot be read any more");
}

void Memory::requireUnchanged(bool isDateFixed) const {
  struct stat status;
  if (file_ < 0) return;
  if (fstat(file_, &status) != 0) failChanged(strerror(errno));
  if (static_cast<size_t>(status.st_size) != numBytes_) {
    failChanged(std::to_string(status.st_size) + " bytes instead of " + std::to_string(numBytes_));
  }
  if (isDateFixed && modifiedNs(status) != modifiedNs_) failChanged("one that was written to");
}

Memory::~Memory() {
  if (guard_ != nullptr) unguardRange(guard_);
  if (isMapped_) munmap(data_, numBytes_);
  else free(data_);
  if (file_ >= 0) close(file_);
}

}  // namespace millrace
