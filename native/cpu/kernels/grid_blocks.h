// Blocks of GGML's types of one to three bits, taken apart. A value is d · unit · (2 s + 1) · multiple, exactly: d is
// an f16, s a scale of four bits, and a code says which of a few multiples it is. Codebooks say which codes come next
// to each other; every index that a block can hold is one of their points.
#pragma once
#include <cstring>

#include "grid_table.h"
#include "half.h"
#include "packed.h"

namespace millrace {

struct GridMultiples {
  float unit;
  // By code; a code's upper bit is a sign, in IQ1 that of an eighth which is added.
  int8_t values[16];
};

constexpr GridMultiples gridMultiplesOf(TensorType type) {
  switch (type) {
    case TensorType::IQ1_S:
    case TensorType::IQ1_M: return {0.125f, {-7, 1, 9, 0, -9, -1, 7}};
    case TensorType::IQ3_XXS: return {0.5f, {2, 6, 10, 14, 18, 22, 26, 31, -2, -6, -10, -14, -18, -22, -26, -31}};
    case TensorType::IQ3_S: return {1.0f, {1, 3, 5, 7, 9, 11, 13, 15, -1, -3, -5, -7, -9, -11, -13, -15}};
    case TensorType::TQ1_0:
    case TensorType::TQ2_0: return {1.0f, {-1, 0, 1, 2}};
    default: return {0.125f, {8, 25, 43, 0, -8, -25, -43}};
  }
}

// The scale s of a nibble; IQ1_S has the sign of all its eighths in the upper bit.
constexpr int gridScale(TensorType type, int nibble) { return type == TensorType::IQ1_S ? nibble & 7 : nibble; }

}  // namespace millrace

namespace millrace::MILLRACE_ISA {

inline int nibbleAt(const uint8_t* nibbles, int i) { return (nibbles[i / 2] >> (4 * (i % 2))) & 15; }

inline uint32_t wordAt(const uint8_t* address) {
  uint32_t value;
  memcpy(&value, address, 4);
  return value;
}

// Eight signs, of which seven are stored: an even number of them is negative.
inline int eightSigns(uint32_t stored) {
  const uint32_t seven = stored & 127;
  return static_cast<int>(seven | static_cast<uint32_t>(__builtin_parity(seven)) << 7);
}

// The codes of a point of eight digits to base 3.
inline void putEight(int point, int signs, uint8_t* codes) {
  for (int i = 0; i < 8; i++) codes[i] = static_cast<uint8_t>((point >> (2 * i) & 3) | (signs >> i & 1) << 2);
}

// The codes of two points of four digits to base 8.
inline void putFours(int first, int second, int signs, uint8_t* codes) {
  for (int i = 0; i < 8; i++) codes[i] = static_cast<uint8_t>(((i < 4 ? first : second) >> (3 * (i % 4)) & 7) | (signs >> i & 1) << 3);
}

// Five digits to base 3 in a byte, as a fraction of 256: times 3 and once more they come out from the top.
inline uint8_t ternaryDigit(uint8_t byte, int place) {
  constexpr int kPowers[5] = {1, 3, 9, 27, 81};
  return static_cast<uint8_t>((byte * kPowers[place] & 255) * 3 >> 8);
}

inline void takeTernaryApart(const uint8_t* p, uint8_t* codes) {
  const int runs[3][3] = {{0, 32, 5}, {32, 16, 5}, {48, 4, 4}};
  for (const auto& [first, numBytes, numDigits] : runs) {
    for (int n = 0; n < numDigits; n++) {
      for (int i = 0; i < numBytes; i++) *codes++ = ternaryDigit(p[first + i], n);
    }
  }
}

// Gives the 256 codes of the block at p, its scales' nibbles, and the bits of d.
inline uint16_t takeGridApart(TensorType type, const uint8_t* p, uint8_t* codes, uint8_t* scales) {
  uint16_t d = loadU16(p);
  for (int s = 0; s < 16; s++) scales[s] = 0;
  switch (type) {
    case TensorType::IQ2_XXS:
      for (int g = 0; g < 8; g++) {
        const uint8_t* indices = p + 2 + 8 * g;
        const uint32_t word = wordAt(indices + 4);
        for (int i = 0; i < 4; i++) putEight(kGridIQ2_XXS.points[indices[i]], eightSigns(word >> (7 * i)), codes + 32 * g + 8 * i);
        scales[g] = static_cast<uint8_t>(word >> 28);
      }
      break;
    case TensorType::IQ2_XS:
      for (int i = 0; i < 32; i++) {
        const int word = loadU16(p + 2 + 2 * i);
        putEight(kGridIQ2_XS.points[word & 511], eightSigns(static_cast<uint32_t>(word >> 9)), codes + 8 * i);
      }
      for (int s = 0; s < 16; s++) scales[s] = static_cast<uint8_t>(nibbleAt(p + 66, s));
      break;
    case TensorType::IQ2_S:
      for (int i = 0; i < 32; i++) putEight(kGridIQ2_S.points[p[2 + i] | (p[66 + i / 4] >> (2 * (i % 4)) & 3) << 8], p[34 + i], codes + 8 * i);
      for (int s = 0; s < 16; s++) scales[s] = static_cast<uint8_t>(nibbleAt(p + 74, s));
      break;
    case TensorType::IQ3_XXS:
      for (int g = 0; g < 8; g++) {
        const uint32_t word = wordAt(p + 66 + 4 * g);
        for (int i = 0; i < 4; i++) {
          const uint8_t* indices = p + 2 + 8 * g + 2 * i;
          putFours(kGridIQ3_XXS.points[indices[0]], kGridIQ3_XXS.points[indices[1]], eightSigns(word >> (7 * i)), codes + 32 * g + 8 * i);
        }
        scales[g] = static_cast<uint8_t>(word >> 28);
      }
      break;
    case TensorType::IQ3_S: {
      const auto pointOf = [&](int i) { return kGridIQ3_S.points[p[2 + i] | (p[66 + i / 8] >> (i % 8) & 1) << 8]; };
      for (int i = 0; i < 32; i++) putFours(pointOf(2 * i), pointOf(2 * i + 1), p[74 + i], codes + 8 * i);
      for (int s = 0; s < 8; s++) scales[s] = static_cast<uint8_t>(nibbleAt(p + 106, s));
      break;
    }
    case TensorType::IQ1_S:
      for (int g = 0; g < 8; g++) {
        const int word = loadU16(p + 34 + 2 * g);
        for (int i = 0; i < 4; i++) putEight(kGridIQ1_S.points[p[2 + 4 * g + i] | (word >> (3 * i) & 7) << 8], word >> 15 != 0 ? 255 : 0, codes + 32 * g + 8 * i);
        scales[g] = static_cast<uint8_t>(word >> 12);
      }
      break;
    case TensorType::IQ1_M:
      d = 0;
      for (int i = 0; i < 32; i++) {
        const int nibble = nibbleAt(p + 32, i);
        putEight(kGridIQ1_S.points[p[i] | (nibble & 7) << 8], nibble >> 3 != 0 ? 255 : 0, codes + 8 * i);
      }
      for (int w = 0; w < 4; w++) {
        const int word = loadU16(p + 48 + 2 * w);
        for (int s = 0; s < 4; s++) scales[4 * w + s] = static_cast<uint8_t>(word >> (3 * s) & 7);
        d = static_cast<uint16_t>(d | word >> 12 << (4 * w));
      }
      break;
    case TensorType::TQ1_0:
      takeTernaryApart(p, codes);
      d = loadU16(p + 52);
      break;
    case TensorType::TQ2_0:
      for (int k = 0; k < 256; k++) codes[k] = static_cast<uint8_t>((p[32 * (k / 128) + k % 32] >> (2 * (k % 128 / 32))) & 3);
      d = loadU16(p + 64);
      break;
    default: break;
  }
  return d;
}

}  // namespace millrace::MILLRACE_ISA
