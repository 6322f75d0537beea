// A device: handles, kernel threads and submit(). Belongs to one thread at a time; knows nothing of Node.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "handles.h"
#include "thread_pool.h"

namespace millrace {

class Device {
 public:
  // `isa` is null for the best one; without sharesKvReads attention reads a block once per sequence that holds it.
  // Throws kernels_isa and kernels_argument.
  Device(double numThreads, const char* isa, bool sharesKvReads = true);

  const char* isa() const { return kernels_.isa; }
  int numThreads() const { return pool_.numThreads(); }

  double allocate(double byteLength);
  // Throws kernels_argument when the handle is not a live buffer's.
  const std::shared_ptr<Memory>& buffer(double handle);
  void release(double handle);
  double mapFile(const std::string& path);
  void unmapFile(double handle);
  // Hints, see Memory. Throw kernels_argument when it is not a mapped file or the range lies outside.
  void releasePages(double file, double byteOffset, double byteLength, bool isEvicted);
  void prefetch(double file);
  // Checksum of a part of a file or buffer. Throws kernels_argument when the part lies outside, and model_file_changed.
  uint64_t checksum(double source, double byteOffset, double byteLength);
  // Throws model_file_changed when a mapped file has changed. Files in `shared` may get a new date.
  void requireUnchanged(const std::vector<double>& shared);
  // Thread i stays on CPU cpus[i % cpus.size()]; the calling thread is thread 0. Throws kernels_argument when the OS
  // refuses one.
  void pinThreads(const std::vector<double>& cpus);
  double createWeight(double source, double byteOffset, const std::string& type, double rows, double cols, bool isPacked);
  // Weights of one type and shape, as one operand. Released weights stay in it.
  double createWeightStack(const std::vector<double>& weights);
  // Releases a weight or a stack of weights.
  void releaseWeight(double handle);
  // words: numWords of an encoded program (src/backend/program.ts). Throws before any operation runs, or
  // model_file_changed after it: the results are then invalid.
  void submit(const double* words, int64_t numWords);
  // Bytes of stored K and V that attention read so far, and that it would have read without sharing.
  int64_t kvBytesRead() const { return kvBytesRead_; }
  int64_t kvBytesUnshared() const { return kvBytesUnshared_; }

 private:
  void requireReadable();

  const KernelTable& kernels_;
  HandleTable handles_;
  ThreadPool pool_;
  const bool sharesKvReads_;
  int64_t kvBytesRead_ = 0;
  int64_t kvBytesUnshared_ = 0;
};

}  // namespace millrace
