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

  uint8_t* data() const { return data_; }
  size_t numBytes() const { return numBytes_; }

 private:
  Memory(uint8_t* data, size_t numBytes, bool isMapped) : data_(data), numBytes_(numBytes), isMapped_(isMapped) {}

  uint8_t* data_;
  size_t numBytes_;
  bool isMapped_;
};

}  // namespace millrace
