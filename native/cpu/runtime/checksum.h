// Finds damage, not forgery: any change of a single word changes the sum, and any other one but for one chance in 2^64.
#pragma once
#include <cstddef>
#include <cstdint>

namespace millrace {

// Checksum of bytes at any address, at the speed at which memory is read. It is part of packs' format: another sum
// needs another kPackedLayoutVersion.
uint64_t checksum(const uint8_t* bytes, size_t numBytes);

}  // namespace millrace
