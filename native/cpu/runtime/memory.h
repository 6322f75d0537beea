// Memory the device owns: zeroed allocations and files mapped read-only.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "lost_pages.h"

namespace millrace {

class Memory {
 public:
  // Zeroed, 64-byte aligned; committed by the OS when first touched. Throws out_of_memory.
  static std::shared_ptr<Memory> allocate(size_t numBytes);
  // A file, read-only. Throws file_unreadable.
  static std::shared_ptr<Memory> mapFile(const std::string& path);

  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // For a mapped file: the whole pages in [offset, offset + numBytes) stop counting as this process's memory; they are
  // read again when touched. isEvicted: the OS need not keep them either. A hint.
  void releasePages(size_t offset, size_t numBytes, bool isEvicted) const;
  // A hint for an allocation that is not read again: its pages go back to the OS at once.
  void discard() const;
  // A hint for a mapped file: all of it is about to be read repeatedly.
  void prefetch() const;

  // For a mapped file: throws model_file_changed if some of its pages could not be read; such pages read as zeros.
  void requireReadable() const;
  // For a mapped file: throws model_file_changed when its length has changed or, where isDateFixed, when it was written
  // to. Costs a system call.
  void requireUnchanged(bool isDateFixed) const;

  uint8_t* data() const { return data_; }
  size_t numBytes() const { return numBytes_; }

 private:
  Memory(uint8_t* data, size_t numBytes, bool isMapped) : data_(data), numBytes_(numBytes), isMapped_(isMapped) {}
  [[noreturn]] void failChanged(const std::string& got) const;

  uint8_t* data_;
  size_t numBytes_;
  bool isMapped_;
  // Descriptor of a mapped file.
  int file_ = -1;
  std::string path_;
  int64_t modifiedNs_ = 0;
  GuardedRange* guard_ = nullptr;
};

}  // namespace millrace
