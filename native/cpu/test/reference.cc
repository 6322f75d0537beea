// The definitions, value by value.
#include "reference.h"

#include "../kernels/grid_table.h"

#include <cmath>
#include <cstring>

namespace millrace::test {

double referenceFromHalf(uint16_t half) {
  const int exponent = (half >> 10) & 31;
  const int fraction = half & 1023;
  const double sign = (half & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == 31) return fraction != 0 ? std::nan("") : sign * HUGE_VAL;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

uint16_t referenceToHalf(float value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return static_cast<uint16_t>(sign | 0x7e00);
  const double magnitude = std::fabs(static_cast<double>(value));
  if (magnitude >= 65520.0) return static_cast<uint16_t>(sign | 0x7c00);
  // In units of the target's last place; nearbyint rounds ties to even.
  const int exponent = magnitude < std::ldexp(1, -14) ? -14 : std::ilogb(magnitude);
  const double units = std::nearbyint(std::ldexp(magnitude, 10 - exponent));
  const int code = magnitude < std::ldexp(1, -14) ? static_cast<int>(units) : (exponent + 14) * 1024 + static_cast<int>(units);
  return static_cast<uint16_t>(sign | code);
}

float referenceToBfloat(float value) {
  if (value == 0 || !std::isfinite(value)) return value;
  // In units of the target's last place, of eight significant bits; nearbyint rounds ties to even.
  const int exponent = std::max(std::ilogb(value), -126) - 7;
  return static_cast<float>(std::ldexp(std::nearbyint(std::ldexp(static_cast<double>(value), -exponent)), exponent));
}

namespace {

uint16_t u16At(const uint8_t* p) { return static_cast<uint16_t>(p[0] | p[1] << 8); }
double halfAt(const uint8_t* p) { return referenceFromHalf(u16At(p)); }
int nibble(const uint8_t* q, int64_t i) { return i < 16 ? q[i] & 15 : q[i - 16] >> 4; }
int bitOf(const uint8_t* bytes, int64_t i) { return bytes[i / 8] >> (i % 8) & 1; }

// 6-bit scale (isMinimum false) or minimum of sub-block j.
int sixBits(const uint8_t* b, int64_t j, bool isMinimum) {
  if (j < 4) return b[isMinimum ? j + 4 : j] & 63;
  const int low = isMinimum ? b[j + 4] >> 4 : b[j + 4] & 15;
  const int high = isMinimum ? b[j] >> 6 : b[j - 4] >> 6;
  return low | high << 4;
}

// OCP's E4M3: no infinities, NaN where all bits but the sign are ones.
double eightBitFloat(uint8_t byte) {
  const int exponent = (byte >> 3) & 15;
  const int fraction = byte & 7;
  if ((byte & 127) == 127) return std::nan("");
  const double magnitude = exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, exponent - 10);
  return byte >= 128 ? -magnitude : magnitude;
}

float product(double a, double b) { return static_cast<float>(a) * static_cast<float>(b); }

double kQuant(const uint8_t* b, int64_t i, bool hasFifth) {
  const int64_t j = i / 32;
  const uint8_t* q = b + (hasFifth ? 48 : 16) + 32 * (j / 2);
  int value = j % 2 == 0 ? q[i % 32] & 15 : q[i % 32] >> 4;
  if (hasFifth) value |= (b[16 + i % 32] >> j & 1) << 4;
  return product(product(halfAt(b), sixBits(b + 4, j, false)), value) - product(halfAt(b + 2), sixBits(b + 4, j, true));
}

double sixQuant(const uint8_t* b, int64_t i) {
  const int64_t half = i / 128;
  const int64_t group = i % 128 / 32;
  const int64_t l = i % 32;
  const uint8_t low = b[64 * half + 32 * (group % 2) + l];
  const int value = (group < 2 ? low & 15 : low >> 4) | (b[128 + 32 * half + l] >> (2 * group) & 3) << 4;
  return product(product(halfAt(b + 208), static_cast<int8_t>(b[192 + i / 16])), value - 32);
}

// Bit pair of value i: 32 bytes per 128 values, lowest pairs first.
int pairOf(const uint8_t* q, int64_t i) { return q[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3; }

double twoQuant(const uint8_t* b, int64_t i) {
  const uint8_t scale = b[i / 16];
  return product(product(halfAt(b + 80), scale & 15), pairOf(b + 16, i)) - product(halfAt(b + 82), scale >> 4);
}

double threeQuant(const uint8_t* b, int64_t i) {
  const int64_t j = i / 16;
  const int low = j < 8 ? b[96 + j] & 15 : b[96 + j - 8] >> 4;
  const int high = b[104 + j % 4] >> (2 * (j / 4)) & 3;
  const int value = pairOf(b + 32, i) - ((b[i % 32] >> (i / 32) & 1) != 0 ? 0 : 4);
  return product(product(halfAt(b + 108), (low | high << 4) - 32), value);
}

const int kIq4Grid[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

double gridQuant(const uint8_t* b, int64_t i) {
  const int64_t j = i / 32;
  const int low = j % 2 == 0 ? b[4 + j / 2] & 15 : b[4 + j / 2] >> 4;
  const int high = u16At(b + 2) >> (2 * j) & 3;
  return product(product(halfAt(b), (low | high << 4) - 32), kIq4Grid[nibble(b + 8 + 16 * j, i % 32)]);
}

// E2M1: sign, two bits of exponent, one of fraction; without a negative zero.
double fourBitFloat(int code) {
  const int exponent = code >> 1 & 3;
  const double magnitude = exponent == 0 ? (code & 1) * 0.5 : std::ldexp(1 + (code & 1) * 0.5, exponent - 1);
  return magnitude == 0 || (code & 8) == 0 ? magnitude : -magnitude;
}

double microscaled(const uint8_t* b, int64_t i) { return std::ldexp(fourBitFloat(nibble(b + 1, i)), b[0] - 127); }

// Values of sixteen share an E4M3 scale without a sign, whose NaN is a zero.
double scaledSixteens(const uint8_t* b, int64_t i) {
  const uint8_t* q = b + 4 + i / 16 * 8;
  const double scale = eightBitFloat(b[i / 16] & 127);
  return (std::isnan(scale) ? 0 : scale) * fourBitFloat(i % 16 < 8 ? q[i % 8] & 15 : q[i % 8] >> 4);
}

int bitsAt(const uint8_t* bytes, int64_t first, int count) {
  int value = 0;
  for (int i = 0; i < count; i++) value |= bitOf(bytes, first + i) << i;
  return value;
}

// Negative where the bit is set; the eighth of seven stored bits makes their number even.
double signOf(const uint8_t* bytes, int64_t first, int64_t i, bool hasEighth) {
  if (i < 7 || hasEighth) return bitOf(bytes, first + i) != 0 ? -1 : 1;
  int sum = 0;
  for (int64_t k = 0; k < 7; k++) sum += bitOf(bytes, first + k);
  return sum % 2 != 0 ? -1 : 1;
}

const double kTwoBitValues[3] = {8, 25, 43};
const double kThreeBitValues[8] = {4, 12, 20, 28, 36, 44, 52, 62};
int eighthDigit(uint16_t point, int64_t i) { return point >> (2 * i) & 3; }
int fourthDigit(uint16_t point, int64_t i) { return point >> (3 * (i % 4)) & 7; }

// Value i of a block as a multiple of its d.
double gridMultiple(TensorType type, const uint8_t* b, int64_t i) {
  const int64_t eight = i / 8;
  const int64_t k = i % 8;
  switch (type) {
    case TensorType::IQ2_XXS: {
      const uint8_t* group = b + 2 + 8 * (i / 32);
      const double magnitude = kTwoBitValues[eighthDigit(kGridIQ2_XXS.points[group[eight % 4]], k)];
      return (0.5 + bitsAt(group + 4, 28, 4)) * 0.25 * magnitude * signOf(group + 4, 7 * (eight % 4), k, false);
    }
    case TensorType::IQ2_XS: {
      const uint8_t* word = b + 2 + 2 * eight;
      const double magnitude = kTwoBitValues[eighthDigit(kGridIQ2_XS.points[bitsAt(word, 0, 9)], k)];
      return (0.5 + bitsAt(b + 66, 4 * (i / 16), 4)) * 0.25 * magnitude * signOf(word, 9, k, false);
    }
    case TensorType::IQ2_S: {
      const int index = b[2 + eight] | bitsAt(b + 66, 2 * eight, 2) << 8;
      const double magnitude = kTwoBitValues[eighthDigit(kGridIQ2_S.points[index], k)];
      return (0.5 + bitsAt(b + 74, 4 * (i / 16), 4)) * 0.25 * magnitude * signOf(b + 34 + eight, 0, k, true);
    }
    case TensorType::IQ3_XXS: {
      const uint8_t* word = b + 66 + 4 * (i / 32);
      const double magnitude = kThreeBitValues[fourthDigit(kGridIQ3_XXS.points[b[2 + i / 4]], i)];
      return (0.5 + bitsAt(word, 28, 4)) * 0.5 * magnitude * signOf(word, 7 * (eight % 4), k, false);
    }
    case TensorType::IQ3_S: {
      const int index = b[2 + i / 4] | bitOf(b + 66, i / 4) << 8;
      const double magnitude = 1 + 2 * fourthDigit(kGridIQ3_S.points[index], i);
      return (1 + 2 * bitsAt(b + 106, 4 * (i / 32), 4)) * magnitude * signOf(b + 74 + eight, 0, k, true);
    }
    case TensorType::IQ1_S: {
      const uint8_t* word = b + 34 + 2 * (i / 32);
      const int index = b[2 + eight] | bitsAt(word, 3 * (eight % 4), 3) << 8;
      return (1 + 2 * bitsAt(word, 12, 3)) * (eighthDigit(kGridIQ1_S.points[index], k) - 1 + (bitOf(word, 15) != 0 ? -0.125 : 0.125));
    }
    case TensorType::IQ1_M: {
      const int index = b[eight] | bitsAt(b + 32, 4 * eight, 3) << 8;
      const double delta = bitOf(b + 32, 4 * eight + 3) != 0 ? -0.125 : 0.125;
      return (1 + 2 * bitsAt(b + 48, i / 64 * 16 + i % 64 / 16 * 3, 3)) * (eighthDigit(kGridIQ1_S.points[index], k) - 1 + delta);
    }
    case TensorType::TQ1_0: {
      // A byte is ⌈256 n / 243⌉, n a number of five digits to base 3; its first digit is the highest.
      const int64_t run = i < 160 ? 0 : i < 240 ? 1 : 2;
      const int64_t numBytes = run == 0 ? 32 : run == 1 ? 16 : 4;
      const int64_t within = i - (run == 0 ? 0 : run == 1 ? 160 : 240);
      int rest = b[run == 0 ? within % numBytes : run == 1 ? 32 + within % numBytes : 48 + within % numBytes];
      for (int64_t place = 0; place < within / numBytes; place++) rest = rest * 3 % 256;
      return rest * 3 / 256 - 1;
    }
    default: return pairOf(b, i) - 1;
  }
}

// IQ1_M has the bits of d in the upper nibbles of four words.
double gridScale(TensorType type, const uint8_t* b) {
  if (type == TensorType::TQ1_0) return halfAt(b + 52);
  if (type == TensorType::TQ2_0) return halfAt(b + 64);
  if (type != TensorType::IQ1_M) return halfAt(b);
  int bits = 0;
  for (int w = 0; w < 4; w++) bits |= bitsAt(b + 48, 16 * w + 12, 4) << (4 * w);
  return referenceFromHalf(static_cast<uint16_t>(bits));
}

}  // namespace

double referenceValue(TensorType type, const uint8_t* row, int64_t index) {
  const TensorTypeInfo& info = infoOf(type);
  const uint8_t* b = row + index / info.blockValues * info.blockBytes;
  const int64_t i = index % info.blockValues;
  uint32_t bits = 0;
  float single;
  switch (type) {
    case TensorType::F32: memcpy(&single, b, 4); return single;
    case TensorType::F16: return halfAt(b);
    case TensorType::BF16_BF16:
    case TensorType::BF16:
      bits = static_cast<uint32_t>(u16At(b)) << 16;
      memcpy(&single, &bits, 4);
      return single;
    case TensorType::Q8_0:
    case TensorType::Q8_0_INT8: return product(halfAt(b), static_cast<int8_t>(b[2 + i]));
    case TensorType::Q4_0: return product(halfAt(b), nibble(b + 2, i) - 8);
    case TensorType::Q4_1: return product(halfAt(b), nibble(b + 4, i)) + static_cast<float>(halfAt(b + 2));
    case TensorType::Q5_0: return product(halfAt(b), (nibble(b + 6, i) | bitOf(b + 2, i) << 4) - 16);
    case TensorType::Q5_1: return product(halfAt(b), nibble(b + 8, i) | bitOf(b + 4, i) << 4) + static_cast<float>(halfAt(b + 2));
    case TensorType::Q2_K: return twoQuant(b, i);
    case TensorType::Q3_K: return threeQuant(b, i);
    case TensorType::Q4_K: return kQuant(b, i, false);
    case TensorType::Q5_K: return kQuant(b, i, true);
    case TensorType::Q6_K: return sixQuant(b, i);
    case TensorType::IQ4_NL: return product(halfAt(b), kIq4Grid[nibble(b + 2, i)]);
    case TensorType::IQ4_XS: return gridQuant(b, i);
    case TensorType::MXFP4: return microscaled(b, i);
    case TensorType::NVFP4: return scaledSixteens(b, i);
    case TensorType::NVFP4_SCALED: memcpy(&single, b, 4); return product(single, scaledSixteens(b + 4, i));
    case TensorType::F8_E4M3:
    case TensorType::F8_E4M3_BF16: memcpy(&single, b, 4); return product(single, eightBitFloat(b[4 + i]));
    case TensorType::I8:
    case TensorType::I8_INT8: memcpy(&single, b, 4); return product(single, static_cast<int8_t>(b[4 + i]));
    case TensorType::IQ2_XXS:
    case TensorType::IQ2_XS:
    case TensorType::IQ2_S:
    case TensorType::IQ3_XXS:
    case TensorType::IQ3_S:
    case TensorType::IQ1_S:
    case TensorType::IQ1_M:
    case TensorType::TQ1_0:
    case TensorType::TQ2_0: return product(gridScale(type, b), gridMultiple(type, b, i));
  }
  return 0;
}

std::vector<double> referenceMatrix(TensorType type, const std::vector<uint8_t>& bytes, int64_t rows, int64_t cols) {
  const int64_t rowBytes = cols / infoOf(type).blockValues * infoOf(type).blockBytes;
  std::vector<double> result(static_cast<size_t>(rows * cols));
  for (int64_t r = 0; r < rows; r++) {
    for (int64_t c = 0; c < cols; c++) result[static_cast<size_t>(r * cols + c)] = static_cast<float>(referenceValue(type, bytes.data() + r * rowBytes, c));
  }
  return result;
}

std::vector<double> referenceLinear(const std::vector<float>& x, const std::vector<double>& w, int64_t numRows, int64_t numOut, int64_t numCols,
                                    std::vector<double>* magnitudes) {
  std::vector<double> out(static_cast<size_t>(numRows * numOut));
  if (magnitudes != nullptr) magnitudes->assign(out.size(), 0.0);
  for (int64_t m = 0; m < numRows; m++) {
    for (int64_t n = 0; n < numOut; n++) {
      double sum = 0;
      double magnitude = 0;
      for (int64_t k = 0; k < numCols; k++) {
        const double term = static_cast<double>(x[static_cast<size_t>(m * numCols + k)]) * w[static_cast<size_t>(n * numCols + k)];
        sum += term;
        magnitude += std::fabs(term);
      }
      out[static_cast<size_t>(m * numOut + n)] = sum;
      if (magnitudes != nullptr) (*magnitudes)[static_cast<size_t>(m * numOut + n)] = magnitude;
    }
  }
  return out;
}

std::vector<double> referenceAttention(const float* q, const std::vector<const float*>& keys, const std::vector<const float*>& values,
                                       int64_t headDim, double scale, double cap, double sink) {
  std::vector<double> scores;
  double maximum = sink;
  for (const float* key : keys) {
    double dot = 0;
    for (int64_t d = 0; d < headDim; d++) dot += static_cast<double>(q[d]) * key[d];
    scores.push_back(cap > 0 ? cap * std::tanh(dot * scale / cap) : dot * scale);
    maximum = std::fmax(maximum, scores.back());
  }
  double sum = keys.empty() || sink == -HUGE_VAL ? 0 : std::exp(sink - maximum);
  std::vector<double> out(static_cast<size_t>(headDim), 0.0);
  for (size_t j = 0; j < keys.size(); j++) {
    const double weight = std::exp(scores[j] - maximum);
    sum += weight;
    for (int64_t d = 0; d < headDim; d++) out[static_cast<size_t>(d)] += weight * values[j][d];
  }
  if (sum > 0) {
    for (double& value : out) value /= sum;
  }
  return out;
}

double referenceNoise(uint64_t seed, uint64_t position, uint64_t id) {
  const auto mix = [](uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  };
  const uint64_t gamma = 0x9e3779b97f4a7c15u;
  const uint64_t word = mix(mix(seed + gamma * (position + 1)) + gamma * (id + 1));
  const double u = (static_cast<double>(word >> 40) + 0.5) * std::ldexp(1, -24);
  return -std::log(-std::log(u));
}

}  // namespace millrace::test
