// Mapped files that change while they are read, and the checksum that finds damage in them.
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "../runtime/checksum.h"
#include "../runtime/lost_pages.h"
#include "check.h"

namespace millrace::test {

namespace {

constexpr int64_t kCols = 4096;
constexpr int64_t kRows = 64;

// A file of kRows rows of f32 ones, removed at the end.
class WeightFile {
 public:
  WeightFile() {
    fd_ = mkstemp(path_);
    const std::vector<float> ones(static_cast<size_t>(kCols * kRows), 1.0f);
    const size_t numBytes = ones.size() * sizeof(float);
    check(fd_ >= 0 && write(fd_, ones.data(), numBytes) == static_cast<ssize_t>(numBytes), "a file to map");
  }
  ~WeightFile() {
    close(fd_);
    unlink(path_);
  }
  void cut(int64_t numBytes) { check(ftruncate(fd_, numBytes) == 0, "cut the file"); }
  void overwrite(float value) { check(pwrite(fd_, &value, sizeof value, 0) == sizeof value, "write to the file"); }
  const char* path() const { return path_; }

 private:
  char path_[32] = "/tmp/millrace-files-XXXXXX";
  int fd_;
};

// The code that `body` fails with, "" when it does not; its message must name the file.
template <typename Body>
std::string codeOf(const WeightFile& file, Body body) {
  try {
    body();
    return "";
  } catch (const Failure& failure) {
    check(failure.message.find(file.path()) != std::string::npos, "the failure names the file: " + failure.message);
    return failure.code;
  }
}

sigjmp_buf beforeFault;
void jumpBack(int) { siglongjmp(beforeFault, 1); }

void recordSum(Bench& bench, double weight, double x, double out) {
  bench.record(OpCode::linear, {out, x, weight, 0, 1, 0});
}

void testCutFile(int numThreads) {
  WeightFile file;
  Bench bench(nullptr, numThreads);
  const double mapped = bench.device.mapFile(file.path());
  const double weight = bench.device.createWeight(mapped, 0, "F32", kRows, kCols, false);
  const double x = bench.put(std::vector<float>(kCols, 1.0f));
  const double out = bench.allocate(kRows * 4);
  recordSum(bench, weight, x, out);
  bench.run();
  check(bench.get<float>(out, kRows).back() == static_cast<float>(kCols), "a whole file is computed with");
  check(codeOf(file, [&] { bench.device.requireUnchanged({}); }).empty(), "a whole file is unchanged");

  file.cut(kCols * 4);
  check(codeOf(file, [&] { bench.device.requireUnchanged({}); }) == kFileChangedCode, "a shorter file is noticed without reading it");
  check(codeOf(file, [&] { bench.device.requireUnchanged({mapped}); }) == kFileChangedCode, "and where others may set its date");
  recordSum(bench, weight, x, out);
  check(codeOf(file, [&] { bench.run(); }) == kFileChangedCode, "reading a page that is gone is a failure with a code");
  check(codeOf(file, [&] { bench.device.checksum(mapped, 0, kCols * 8); }) == kFileChangedCode, "and so is every read after it");
  // Its place in the table goes to the next file.
  bench.device.releaseWeight(weight);
  bench.device.unmapFile(mapped);
  WeightFile other;
  const double whole = bench.device.createWeight(bench.device.mapFile(other.path()), 0, "F32", kRows, kCols, false);
  recordSum(bench, whole, x, out);
  check(codeOf(other, [&] { bench.run(); }).empty(), "another file is read as if nothing had happened");
}

void testWrittenFile() {
  WeightFile file;
  Bench bench(nullptr, 1);
  const double mapped = bench.device.mapFile(file.path());
  // The clock that dates files may stand still for some milliseconds.
  usleep(20000);
  file.overwrite(2.0f);
  check(codeOf(file, [&] { bench.device.requireUnchanged({}); }) == kFileChangedCode, "a file that was written to is noticed");
  check(codeOf(file, [&] { bench.device.requireUnchanged({mapped}); }).empty(), "unless others may set its date");
}

// Faults outside our files reach the handler that was installed before.
void testForeignFault() {
  WeightFile file;
  const int fd = open(file.path(), O_RDONLY);
  const volatile char* data = static_cast<const char*>(mmap(nullptr, kCols * 8, PROT_READ, MAP_PRIVATE, fd, 0));
  file.cut(0);
  const bool isBack = sigsetjmp(beforeFault, 1) != 0;
  // Before the jump, the test makes no object that would need its destructor.
  if (!isBack) static_cast<void>(data[kCols * 4]);
  check(isBack, "a fault in memory that is not the device's goes to the handler from before");
  munmap(const_cast<char*>(data), kCols * 8);
  close(fd);
}

void testChecksum() {
  Random random(7);
  std::vector<uint8_t> bytes(1000);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random.bits());
  for (const size_t length : {0, 1, 63, 64, 65, 1000}) {
    const uint64_t sum = checksum(bytes.data(), length);
    bool isSeen = true;
    for (size_t i = 0; i < length * 8; i++) {
      bytes[i / 8] = static_cast<uint8_t>(bytes[i / 8] ^ (1 << (i % 8)));
      isSeen = isSeen && checksum(bytes.data(), length) != sum;
      bytes[i / 8] = static_cast<uint8_t>(bytes[i / 8] ^ (1 << (i % 8)));
    }
    check(isSeen, "the checksum of " + std::to_string(length) + " bytes sees every flipped bit");
    std::vector<uint8_t> longer(bytes.begin(), bytes.begin() + static_cast<int64_t>(length));
    longer.push_back(0);
    check(checksum(longer.data(), length) == sum && checksum(longer.data(), length + 1) != sum, "the checksum sees a zero more");
  }
  std::vector<uint8_t> swapped = bytes;
  std::swap_ranges(swapped.begin(), swapped.begin() + 64, swapped.begin() + 64);
  check(checksum(swapped.data(), swapped.size()) != checksum(bytes.data(), bytes.size()), "the checksum sees swapped parts");
}

}  // namespace

// Before any other group maps a file: the handler from before is the one that was there when the first was mapped.
void testFiles() {
  struct sigaction own = {};
  own.sa_handler = jumpBack;
  sigaction(SIGBUS, &own, nullptr);
  for (const int numThreads : {1, 3}) testCutFile(numThreads);
  testWrittenFile();
  testForeignFault();
  testChecksum();
}

}  // namespace millrace::test
