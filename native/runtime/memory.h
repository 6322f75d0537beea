// Memory the device owns: zeroed allocations and files mapped read-only.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

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

  // Of a mapped file: the whole pages in [offset, offset + numBytes) stop counting as this process's memory; they are read again when touched.
  // isEvicted: the OS need not keep them either. A hint.
  void releasePages(size_t offset, size_t numBytes, bool isEvicted) const;
  // Of an allocation that nobody reads again: its pages go back to the OS at once. A hint.
  void discard() const;
  // Of a mapped file: all of it is about to be read, again and again. A hint.
  void prefetch() const;

  uint8_t* data() const { return data_; }
  size_t numBytes() const { return numBytes_; }

 private:
  Memory(uint8_t* data, size_t numBytes, bool isMapped, int file = -1) : data_(data), numBytes_(numBytes), isMapped_(isMapped), file_(file) {}

  uint8_t* data_;
  size_t numBytes_;
  bool isMapped_;
  int file_;  // of a mapped file, else -1
};

}  // namespace millrace
