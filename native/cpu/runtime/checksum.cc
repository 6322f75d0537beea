// Eight lanes, so that no multiplication waits for the one before. Each step of a lane can be undone, so a changed word
// never comes out the same.
#include "checksum.h"

#include <cstring>

namespace millrace {

namespace {

constexpr int kNumLanes = 8;
constexpr size_t kStripe = kNumLanes * sizeof(uint64_t);
constexpr uint64_t kOdd = 0xd1342543de82ef95u;

inline uint64_t turn(uint64_t value) { return (value << 29) | (value >> 35); }

inline uint64_t take(uint64_t lane, uint64_t word) { return turn((lane ^ word) * kOdd); }

void takeStripe(uint64_t* lanes, const uint8_t* bytes) {
  uint64_t words[kNumLanes];
  memcpy(words, bytes, kStripe);
  for (int i = 0; i < kNumLanes; i++) lanes[i] = take(lanes[i], words[i]);
}

}  // namespace

uint64_t checksum(const uint8_t* bytes, size_t numBytes) {
  uint64_t lanes[kNumLanes];
  for (int i = 0; i < kNumLanes; i++) lanes[i] = take(kOdd, static_cast<uint64_t>(i) + 1);
  size_t at = 0;
  for (; at + kStripe <= numBytes; at += kStripe) takeStripe(lanes, bytes + at);
  if (at < numBytes) {
    // Zeros behind the end; the length below tells them from zeros that are there.
    uint8_t last[kStripe] = {};
    memcpy(last, bytes + at, numBytes - at);
    takeStripe(lanes, last);
  }
  uint64_t sum = take(kOdd, static_cast<uint64_t>(numBytes));
  for (const uint64_t lane : lanes) {
    sum = take(sum, lane);
    sum ^= sum >> 32;
  }
  return sum;
}

}  // namespace millrace
