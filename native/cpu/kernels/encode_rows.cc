// encodeRows: f32 rows into GGML's blocks. A unit is a row.
//
// The error of a block is Σ w (x − decoded)², where w is the importance of a column. For given scales the nearest level of each value is best, and
// for given levels the best scales solve a least-squares problem, so a search tries scales around the one that the largest value asks for,
// solves, and goes on from the solution. K-quants store the scales of their groups as small integers of common factors: these integers are
// searched too, each beside its neighbours, and the factors are solved for again. No fused operations, and one order of sums: all instruction
// sets write the same bytes.
#include "half.h"
#include "kernel.h"
#include "simd.h"

namespace millrace {

namespace {
struct EncodeRowsArgs {
  uint8_t* out;
  const float* x;           // [M, width]
  const float* importance;  // [width] or null
  int64_t width;
  int64_t rowBytes;
  BlockType type;
};

// In the order of BlockType.
constexpr TensorType kTypes[] = {TensorType::Q8_0, TensorType::Q4_0, TensorType::Q4_1, TensorType::Q5_0, TensorType::Q5_1, TensorType::Q2_K, TensorType::Q3_K,
                                 TensorType::Q4_K, TensorType::Q5_K, TensorType::Q6_K, TensorType::IQ4_NL, TensorType::IQ4_XS, TensorType::MXFP4};
}  // namespace

#ifdef MILLRACE_DECODES

Op decode(const Operands<ops::encodeRows>& in, DecodeMemo&) {
  using ops::encodeRows;
  EncodeRowsArgs args{};
  const int64_t numRows = in.integer(encodeRows::numRows);
  args.width = in.integer(encodeRows::width);
  args.type = in.code(encodeRows::type);
  const TensorTypeInfo& block = infoOf(kTypes[static_cast<int>(args.type)]);
  if (args.width % block.blockValues != 0) {
    in.refuse(encodeRows::width, "a multiple of " + std::to_string(block.blockValues), static_cast<double>(args.width));
  }
  args.rowBytes = args.width / block.blockValues * block.blockBytes;
  args.x = in.buffer(encodeRows::x, saturatedProduct(numRows, args.width));
  args.importance = in.optionalBuffer(encodeRows::importance, args.width);
  args.out = in.buffer(encodeRows::out, saturatedProduct(numRows, args.rowBytes));
  in.requireApart(encodeRows::out, encodeRows::x);
  return makeOp(OpCode::encodeRows, args, numRows, static_cast<double>(args.width) * 30);
}

#endif

}  // namespace millrace

namespace millrace::MILLRACE_ISA {
namespace {

// Blocks whose values are all below it are zeros: their scales would be no halves.
constexpr float kTiny = 1e-12f;
constexpr float kLargestHalf = 65504.0f;

MILLRACE_INLINE float absOf(float x) { return x < 0 ? -x : x; }
MILLRACE_INLINE int boundedInt(int value, int low, int high) { return value < low ? low : value > high ? high : value; }
// Half to even, of |x| < 2^22.
MILLRACE_INLINE float rounded(float x) {
  const volatile float shifted = x + 12582912.0f;
  return shifted - 12582912.0f;
}
MILLRACE_INLINE int roundedWithin(float x, int low, int high) {
  return static_cast<int>(rounded(x < static_cast<float>(low) ? static_cast<float>(low) : x > static_cast<float>(high) ? static_cast<float>(high) : x));
}
MILLRACE_INLINE uint16_t toHalf(float x) { return floatToHalf(x > kLargestHalf ? kLargestHalf : x < -kLargestHalf ? -kLargestHalf : x); }
MILLRACE_INLINE float asHalf(float x) { return halfToFloat(toHalf(x)); }
MILLRACE_INLINE void storeU16(uint8_t* to, uint16_t value) { memcpy(to, &value, 2); }
MILLRACE_INLINE double total(f32x8 v) { return static_cast<double>(sum1(v)); }

// Values of a group with their weights.
template <int kCount>
struct Group {
  static constexpr int kVectors = kCount / 8;
  f32x8 x[kVectors];
  f32x8 w[kVectors];

  Group(const float* values, const float* weights) {
    for (int v = 0; v < kVectors; v++) {
      x[v] = load8(values + 8 * v);
      w[v] = load8(weights + 8 * v);
    }
  }
};

// Whole numbers in [kLow, kHigh].
template <int kLow, int kHigh>
struct Integers {
  static constexpr float low = kLow;
  static constexpr float high = kHigh;
  static f32x8 nearest(f32x8 x) {
    const f32x8 shifter = splat8(12582912.0f);
    return (min8(max8(x, splat8(low)), splat8(high)) + shifter) - shifter;
  }
  static int code(float level) { return static_cast<int>(level) - kLow; }
};

// Entries of a table in rising order, whose codes the type gives.
template <class Table>
struct Entries {
  static constexpr float low = Table::values[0];
  static constexpr float high = Table::values[Table::count - 1];
  static f32x8 nearest(f32x8 x) {
    f32x8 level = splat8(low);
    for (int i = 1; i < Table::count; i++) {
      const i32x8 isAbove = x > splat8(0.5f * (Table::values[i - 1] + Table::values[i]));
      const i32x8 chosen = (isAbove & reinterpret_cast<i32x8>(splat8(Table::values[i]))) | (~isAbove & reinterpret_cast<i32x8>(level));
      level = reinterpret_cast<f32x8>(chosen);
    }
    return level;
  }
  static int code(float level) {
    int i = 0;
    while (i + 1 < Table::count && Table::values[i] < level) i++;
    return Table::codes[i];
  }
};

// As dequantize.cc and src/formats/dequantize.ts have them.
struct Iq4Table {
  static constexpr int count = 16;
  static constexpr float values[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  static constexpr int codes[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
};
struct E2M1Table {
  static constexpr int count = 15;
  static constexpr float values[] = {-12, -8, -6, -4, -3, -2, -1, 0, 1, 2, 3, 4, 6, 8, 12};
  static constexpr int codes[] = {15, 14, 13, 12, 11, 10, 9, 0, 1, 2, 3, 4, 5, 6, 7};
};

template <int kCount>
float extremeOf(const float* x) {
  float extreme = 0;
  for (int i = 0; i < kCount; i++) {
    if (absOf(x[i]) > absOf(extreme)) extreme = x[i];
  }
  return extreme;
}

// Signed d for which x ≈ d · level.
template <class Levels, int kCount>
float fitScale(const float* values, const float* weights, int steps) {
  const float extreme = extremeOf<kCount>(values);
  if (!(absOf(extreme) >= kTiny)) return 0;
  const Group<kCount> group(values, weights);
  double bestGain = 0;
  float best = extreme / Levels::high;
  const auto improves = [&](float inverse) {
    f32x8 dot{};
    f32x8 norm{};
    for (int v = 0; v < group.kVectors; v++) {
      const f32x8 level = Levels::nearest(group.x[v] * splat8(inverse));
      const f32x8 weighted = group.w[v] * level;
      dot += weighted * group.x[v];
      norm += weighted * level;
    }
    const double d = total(dot);
    const double n = total(norm);
    if (!(n > 0) || !(d * d > bestGain * n)) return false;
    bestGain = d * d / n;
    best = static_cast<float>(d / n);
    return true;
  };
  for (int k = -steps; k <= steps; k++) {
    const float shift = 0.1f * static_cast<float>(k) * (Levels::high / 8.0f > 1 ? Levels::high / 8.0f : 1);
    improves((Levels::high + shift) / extreme);
    improves((Levels::low - shift) / extreme);
  }
  for (int again = 0; again < 6 && improves(1.0f / best); again++) {
  }
  return best;
}

// x ≈ d · level + base, with levels from 0 to kHigh.
struct Range {
  float d;
  float base;
};

// @param kIsNegative base is at most 0
template <int kHigh, int kCount, bool kIsNegative>
Range fitRange(const float* values, const float* weights) {
  using Levels = Integers<0, kHigh>;
  float low = values[0];
  float high = values[0];
  for (int i = 1; i < kCount; i++) {
    if (values[i] < low) low = values[i];
    if (values[i] > high) high = values[i];
  }
  if (kIsNegative && low > 0) low = 0;
  if (kIsNegative && high < 0) high = 0;
  if (!(high - low >= kTiny)) return {0, kIsNegative && low > 0 ? 0 : low};
  const Group<kCount> group(values, weights);
  f32x8 sums[3] = {};
  for (int v = 0; v < group.kVectors; v++) {
    sums[0] += group.w[v];
    sums[1] += group.w[v] * group.x[v];
    sums[2] += group.w[v] * group.x[v] * group.x[v];
  }
  const double w = total(sums[0]);
  const double wx = total(sums[1]);
  const double wxx = total(sums[2]);
  double bestError = -1;
  Range best{(high - low) / kHigh, low};
  const auto improves = [&](Range range) {
    const f32x8 inverse = splat8(1.0f / range.d);
    f32x8 q1{};
    f32x8 q2{};
    f32x8 qx{};
    for (int v = 0; v < group.kVectors; v++) {
      const f32x8 level = Levels::nearest((group.x[v] - splat8(range.base)) * inverse);
      const f32x8 weighted = group.w[v] * level;
      q1 += weighted;
      q2 += weighted * level;
      qx += weighted * group.x[v];
    }
    const double wq = total(q1);
    const double wqq = total(q2);
    const double wqx = total(qx);
    const double determinant = w * wqq - wq * wq;
    if (!(wqq > 0) || !(determinant > 1e-9 * w * wqq)) return false;
    double d = (w * wqx - wq * wx) / determinant;
    double base = (wqq * wx - wq * wqx) / determinant;
    if (kIsNegative && base > 0) {
      base = 0;
      d = wqx / wqq;
    }
    const double error = wxx - 2 * d * wqx - 2 * base * wx + d * d * wqq + 2 * d * base * wq + base * base * w;
    if (!(d > 0) || (bestError >= 0 && !(error < bestError))) return false;
    bestError = error;
    best = {static_cast<float>(d), static_cast<float>(base)};
    return true;
  };
  for (int k = -10; k <= 10; k++) {
    const float shrink = 1.0f + 0.05f * static_cast<float>(k) / (kHigh > 7 ? 2.0f : 1.0f);
    const Range around{(high - low) / kHigh * shrink, low};
    // Above and below the middle alike.
    improves({around.d, low});
    improves({around.d, high - around.d * kHigh > 0 && kIsNegative ? 0 : high - around.d * kHigh});
  }
  for (int again = 0; again < 6 && improves(best); again++) {
  }
  return best;
}

// Σ w (x − (d · level + base))², of the nearest levels; codes, where asked for, get them.
template <class Levels, int kCount>
double errorOf(const float* values, const float* weights, float d, float base, uint8_t* codes = nullptr) {
  const f32x8 inverse = splat8(d == 0 ? 0 : 1.0f / d);
  f32x8 error{};
  for (int i = 0; i < kCount; i += 8) {
    const f32x8 x = load8(values + i);
    const f32x8 level = Levels::nearest((x - splat8(base)) * inverse);
    const f32x8 gap = x - (splat8(d) * level + splat8(base));
    error += load8(weights + i) * gap * gap;
    if (codes == nullptr) continue;
    for (int lane = 0; lane < 8; lane++) codes[i + lane] = static_cast<uint8_t>(Levels::code(level[lane]));
  }
  return total(error);
}

// 32 codes of four bits: byte j has code j in its low and code j + 16 in its high nibble.
void storeNibbles(const uint8_t* codes, uint8_t* out) {
  for (int j = 0; j < 16; j++) out[j] = static_cast<uint8_t>((codes[j] & 15) | (codes[j + 16] & 15) << 4);
}

void storeFifthBits(const uint8_t* codes, uint8_t* out) {
  memset(out, 0, 4);
  for (int i = 0; i < 32; i++) out[i / 8] = static_cast<uint8_t>(out[i / 8] | (codes[i] >> 4 & 1) << (i % 8));
}

void encodeQ8_0(const float* x, const float* w, uint8_t* out) {
  const uint16_t d = toHalf(fitScale<Integers<-127, 127>, 32>(x, w, 4));
  storeU16(out, d);
  uint8_t codes[32];
  errorOf<Integers<-127, 127>, 32>(x, w, halfToFloat(d), 0, codes);
  for (int i = 0; i < 32; i++) out[2 + i] = static_cast<uint8_t>(codes[i] - 127);
}

template <class Levels>
void encodeCentred(const float* x, const float* w, uint8_t* out) {
  constexpr bool kHasFifth = Levels::high == 15;
  const uint16_t d = toHalf(fitScale<Levels, 32>(x, w, 9));
  uint8_t codes[32];
  errorOf<Levels, 32>(x, w, halfToFloat(d), 0, codes);
  storeU16(out, d);
  if (kHasFifth) storeFifthBits(codes, out + 2);
  storeNibbles(codes, out + (kHasFifth ? 6 : 2));
}

template <int kHigh>
void encodeRange(const float* x, const float* w, uint8_t* out) {
  const Range range = fitRange<kHigh, 32, false>(x, w);
  const uint16_t d = toHalf(range.d);
  const uint16_t base = toHalf(range.base);
  uint8_t codes[32];
  errorOf<Integers<0, kHigh>, 32>(x, w, halfToFloat(d), halfToFloat(base), codes);
  storeU16(out, d);
  storeU16(out + 2, base);
  if (kHigh == 31) storeFifthBits(codes, out + 4);
  storeNibbles(codes, out + (kHigh == 31 ? 8 : 4));
}

void encodeMxfp4(const float* x, const float* w, uint8_t* out) {
  using Levels = Entries<E2M1Table>;
  const float extreme = absOf(extremeOf<32>(x));
  int best = 0;
  double bestError = -1;
  // The largest level is 6 = 1.5 · 2², twice that in the table, whose unit is 2^(exponent − 128).
  const int middle = extreme > 0 ? static_cast<int>(bitsOf(extreme) >> 23) - 2 : 0;
  for (int exponent = boundedInt(middle - 1, 0, 254); exponent <= boundedInt(middle + 1, 0, 254); exponent++) {
    const float d = exponent >= 2 ? floatOf(static_cast<uint32_t>(exponent - 1) << 23) : floatOf(0x00200000u << exponent);
    const double error = errorOf<Levels, 32>(x, w, d, 0);
    if (bestError >= 0 && !(error < bestError)) continue;
    bestError = error;
    best = exponent;
  }
  uint8_t codes[32];
  const float d = best >= 2 ? floatOf(static_cast<uint32_t>(best - 1) << 23) : floatOf(0x00200000u << best);
  errorOf<Levels, 32>(x, w, d, 0, codes);
  out[0] = static_cast<uint8_t>(best);
  storeNibbles(codes, out + 1);
}

constexpr int kRounds = 3;

// Groups of kGroup values, each with scale · d and, below it, minimum · dmin; both integers are in [0, kMost].
template <int kHigh, int kGroup, int kMost>
struct RangedGroups {
  static constexpr int kGroups = 256 / kGroup;
  using Levels = Integers<0, kHigh>;
  uint16_t d = 0;
  uint16_t dmin = 0;
  uint8_t scales[kGroups] = {};
  uint8_t minima[kGroups] = {};
  uint8_t codes[256];

  RangedGroups(const float* x, const float* w) {
    Range ranges[kGroups];
    float largest = 0;
    float largestMin = 0;
    for (int g = 0; g < kGroups; g++) {
      ranges[g] = fitRange<kHigh, kGroup, true>(x + g * kGroup, w + g * kGroup);
      if (ranges[g].d > largest) largest = ranges[g].d;
      if (-ranges[g].base > largestMin) largestMin = -ranges[g].base;
    }
    d = toHalf(largest / kMost);
    dmin = toHalf(largestMin / kMost);
    const float inverse = halfToFloat(d) > 0 ? 1.0f / halfToFloat(d) : 0;
    const float inverseMin = halfToFloat(dmin) > 0 ? 1.0f / halfToFloat(dmin) : 0;
    for (int g = 0; g < kGroups; g++) {
      scales[g] = static_cast<uint8_t>(roundedWithin(ranges[g].d * inverse, 0, kMost));
      minima[g] = static_cast<uint8_t>(roundedWithin(-ranges[g].base * inverseMin, 0, kMost));
    }
    double error = search(x, w);
    for (int round = 0; round < kRounds; round++) {
      RangedGroups next = *this;
      if (!next.solve(x, w)) break;
      const double nextError = next.search(x, w);
      if (!(nextError < error)) break;
      error = nextError;
      *this = next;
    }
    for (int g = 0; g < kGroups; g++) errorFor(x, w, g, scales[g], minima[g], codes + g * kGroup);
  }

 private:
  double errorFor(const float* x, const float* w, int g, int scale, int minimum, uint8_t* to = nullptr) const {
    const float step = halfToFloat(d) * static_cast<float>(scale);
    const float base = -(halfToFloat(dmin) * static_cast<float>(minimum));
    return errorOf<Levels, kGroup>(x + g * kGroup, w + g * kGroup, step, base, to);
  }

  // Each group's integers beside their neighbours. @returns the error of all
  double search(const float* x, const float* w) {
    double sum = 0;
    for (int g = 0; g < kGroups; g++) {
      const int scale = scales[g];
      const int minimum = minima[g];
      double best = errorFor(x, w, g, scale, minimum);
      for (int s = boundedInt(scale - 1, 0, kMost); s <= boundedInt(scale + 1, 0, kMost); s++) {
        for (int m = boundedInt(minimum - 1, 0, kMost); m <= boundedInt(minimum + 1, 0, kMost); m++) {
          const double error = errorFor(x, w, g, s, m);
          if (!(error < best)) continue;
          best = error;
          scales[g] = static_cast<uint8_t>(s);
          minima[g] = static_cast<uint8_t>(m);
        }
      }
      sum += best;
    }
    return sum;
  }

  // The factors that are best for these integers and their levels. @returns false: there are none
  bool solve(const float* x, const float* w) {
    double aa = 0, ab = 0, bb = 0, ax = 0, bx = 0;
    for (int g = 0; g < kGroups; g++) {
      uint8_t levels[kGroup];
      errorFor(x, w, g, scales[g], minima[g], levels);
      for (int i = 0; i < kGroup; i++) {
        const double weight = w[g * kGroup + i];
        const double a = scales[g] * levels[i];
        const double b = minima[g];
        const double value = x[g * kGroup + i];
        aa += weight * a * a;
        ab += weight * a * b;
        bb += weight * b * b;
        ax += weight * a * value;
        bx += weight * b * value;
      }
    }
    if (!(aa > 0)) return false;
    const double determinant = aa * bb - ab * ab;
    double step = ax / aa;
    double below = 0;
    if (determinant > 1e-9 * aa * bb) {
      step = (ax * bb - ab * bx) / determinant;
      below = (ab * ax - aa * bx) / determinant;
    }
    if (below < 0) {
      step = ax / aa;
      below = 0;
    }
    if (!(step > 0)) return false;
    d = toHalf(static_cast<float>(step));
    dmin = toHalf(static_cast<float>(below));
    return true;
  }
};

// Groups of kGroup values, each with scale · d; the scale is in [kLow, kHigh].
template <class Levels, int kGroup, int kLow, int kHigh>
struct CentredGroups {
  static constexpr int kGroups = 256 / kGroup;
  uint16_t d = 0;
  int8_t scales[kGroups] = {};
  uint8_t codes[256];

  CentredGroups(const float* x, const float* w) {
    float steps[kGroups];
    for (int g = 0; g < kGroups; g++) steps[g] = fitScale<Levels, kGroup>(x + g * kGroup, w + g * kGroup, 9);
    const float extreme = extremeOf<kGroups>(steps);
    d = toHalf(extreme / kLow);
    const float inverse = halfToFloat(d) != 0 ? 1.0f / halfToFloat(d) : 0;
    for (int g = 0; g < kGroups; g++) scales[g] = static_cast<int8_t>(roundedWithin(steps[g] * inverse, kLow, kHigh));
    double error = search(x, w);
    for (int round = 0; round < kRounds; round++) {
      CentredGroups next = *this;
      if (!next.solve(x, w)) break;
      const double nextError = next.search(x, w);
      if (!(nextError < error)) break;
      error = nextError;
      *this = next;
    }
    for (int g = 0; g < kGroups; g++) errorFor(x, w, g, scales[g], codes + g * kGroup);
  }

 private:
  double errorFor(const float* x, const float* w, int g, int scale, uint8_t* to = nullptr) const {
    const float step = halfToFloat(d) * static_cast<float>(scale);
    return errorOf<Levels, kGroup>(x + g * kGroup, w + g * kGroup, step, 0, to);
  }

  double search(const float* x, const float* w) {
    double sum = 0;
    for (int g = 0; g < kGroups; g++) {
      const int scale = scales[g];
      double best = errorFor(x, w, g, scale);
      for (int s = boundedInt(scale - 1, kLow, kHigh); s <= boundedInt(scale + 1, kLow, kHigh); s++) {
        const double error = errorFor(x, w, g, s);
        if (!(error < best)) continue;
        best = error;
        scales[g] = static_cast<int8_t>(s);
      }
      sum += best;
    }
    return sum;
  }

  bool solve(const float* x, const float* w) {
    double norm = 0, dot = 0;
    for (int g = 0; g < kGroups; g++) {
      const float step = halfToFloat(d) * static_cast<float>(scales[g]);
      const f32x8 inverse = splat8(step == 0 ? 0 : 1.0f / step);
      for (int i = 0; i < kGroup; i += 8) {
        const int at = g * kGroup + i;
        const f32x8 level = Levels::nearest(load8(x + at) * inverse) * splat8(static_cast<float>(scales[g]));
        const f32x8 weighted = load8(w + at) * level;
        norm += total(weighted * level);
        dot += total(weighted * load8(x + at));
      }
    }
    if (!(norm > 0)) return false;
    d = toHalf(static_cast<float>(dot / norm));
    return true;
  }
};

// 6-bit scales and minima of eight groups in 12 bytes.
void storeScales(const uint8_t* scales, const uint8_t* minima, uint8_t* out) {
  for (int j = 0; j < 4; j++) {
    out[j] = static_cast<uint8_t>(scales[j] | (scales[j + 4] >> 4) << 6);
    out[j + 4] = static_cast<uint8_t>(minima[j] | (minima[j + 4] >> 4) << 6);
    out[j + 8] = static_cast<uint8_t>((scales[j + 4] & 15) | (minima[j + 4] & 15) << 4);
  }
}

// Every 32 bytes hold 32 codes in their low and the next 32 in their high nibbles.
void storeNibbles256(const uint8_t* codes, uint8_t* out) {
  for (int i = 0; i < 128; i++) {
    const uint8_t* pair = codes + (i / 32) * 64 + i % 32;
    out[i] = static_cast<uint8_t>((pair[0] & 15) | (pair[32] & 15) << 4);
  }
}

// Two bits of each code: byte l of a half of 128 holds those of codes l, l + 32, l + 64 and l + 96.
void storePairs(const uint8_t* codes, uint8_t* out) {
  for (int i = 0; i < 64; i++) {
    const uint8_t* first = codes + (i / 32) * 128 + i % 32;
    out[i] = static_cast<uint8_t>((first[0] & 3) | (first[32] & 3) << 2 | (first[64] & 3) << 4 | (first[96] & 3) << 6);
  }
}

void encodeQ4K(const float* x, const float* w, uint8_t* out) {
  const RangedGroups<15, 32, 63> groups(x, w);
  storeU16(out, groups.d);
  storeU16(out + 2, groups.dmin);
  storeScales(groups.scales, groups.minima, out + 4);
  storeNibbles256(groups.codes, out + 16);
}

void encodeQ5K(const float* x, const float* w, uint8_t* out) {
  const RangedGroups<31, 32, 63> groups(x, w);
  storeU16(out, groups.d);
  storeU16(out + 2, groups.dmin);
  storeScales(groups.scales, groups.minima, out + 4);
  for (int l = 0; l < 32; l++) {
    int bits = 0;
    for (int g = 0; g < 8; g++) bits |= (groups.codes[32 * g + l] >> 4 & 1) << g;
    out[16 + l] = static_cast<uint8_t>(bits);
  }
  storeNibbles256(groups.codes, out + 48);
}

void encodeQ2K(const float* x, const float* w, uint8_t* out) {
  const RangedGroups<3, 16, 15> groups(x, w);
  for (int g = 0; g < 16; g++) out[g] = static_cast<uint8_t>(groups.scales[g] | groups.minima[g] << 4);
  storePairs(groups.codes, out + 16);
  storeU16(out + 80, groups.d);
  storeU16(out + 82, groups.dmin);
}

void encodeQ3K(const float* x, const float* w, uint8_t* out) {
  const CentredGroups<Integers<-4, 3>, 16, -32, 31> groups(x, w);
  for (int l = 0; l < 32; l++) {
    int bits = 0;
    for (int g = 0; g < 8; g++) bits |= (groups.codes[32 * g + l] >> 2 & 1) << g;
    out[l] = static_cast<uint8_t>(bits);
  }
  storePairs(groups.codes, out + 32);
  memset(out + 96, 0, 12);
  for (int j = 0; j < 16; j++) {
    const int scale = groups.scales[j] + 32;
    out[96 + j % 8] = static_cast<uint8_t>(out[96 + j % 8] | (scale & 15) << (4 * (j / 8)));
    out[104 + j % 4] = static_cast<uint8_t>(out[104 + j % 4] | (scale >> 4) << (2 * (j / 4)));
  }
  storeU16(out + 108, groups.d);
}

void encodeQ6K(const float* x, const float* w, uint8_t* out) {
  const CentredGroups<Integers<-32, 31>, 16, -128, 127> groups(x, w);
  for (int i = 0; i < 128; i++) {
    const uint8_t* code = groups.codes + (i / 64) * 128 + i % 64;
    out[i] = static_cast<uint8_t>((code[0] & 15) | (code[64] & 15) << 4);
  }
  for (int i = 0; i < 64; i++) {
    const uint8_t* code = groups.codes + (i / 32) * 128 + i % 32;
    out[128 + i] = static_cast<uint8_t>(code[0] >> 4 | code[32] >> 4 << 2 | code[64] >> 4 << 4 | code[96] >> 4 << 6);
  }
  memcpy(out + 192, groups.scales, 16);
  storeU16(out + 208, groups.d);
}

void encodeIq4Xs(const float* x, const float* w, uint8_t* out) {
  const CentredGroups<Entries<Iq4Table>, 32, -32, 31> groups(x, w);
  storeU16(out, groups.d);
  int high = 0;
  memset(out + 4, 0, 4);
  for (int g = 0; g < 8; g++) {
    const int scale = groups.scales[g] + 32;
    out[4 + g / 2] = static_cast<uint8_t>(out[4 + g / 2] | (scale & 15) << (4 * (g % 2)));
    high |= (scale >> 4) << (2 * g);
    storeNibbles(groups.codes + 32 * g, out + 8 + 16 * g);
  }
  storeU16(out + 2, static_cast<uint16_t>(high));
}

using Encode = void (*)(const float* x, const float* w, uint8_t* out);

Encode encoderOf(BlockType type) {
  switch (type) {
    case BlockType::Q8_0: return encodeQ8_0;
    case BlockType::Q4_0: return encodeCentred<Integers<-8, 7>>;
    case BlockType::Q4_1: return encodeRange<15>;
    case BlockType::Q5_0: return encodeCentred<Integers<-16, 15>>;
    case BlockType::Q5_1: return encodeRange<31>;
    case BlockType::Q2_K: return encodeQ2K;
    case BlockType::Q3_K: return encodeQ3K;
    case BlockType::Q4_K: return encodeQ4K;
    case BlockType::Q5_K: return encodeQ5K;
    case BlockType::Q6_K: return encodeQ6K;
    case BlockType::IQ4_NL: return encodeCentred<Entries<Iq4Table>>;
    case BlockType::IQ4_XS: return encodeIq4Xs;
    case BlockType::MXFP4: break;
  }
  return encodeMxfp4;
}

}  // namespace

void encodeRowsKernel(const Op& op, int64_t begin, int64_t end, std::byte*) {
  const EncodeRowsArgs& args = op.args<EncodeRowsArgs>();
  const TensorTypeInfo& block = infoOf(kTypes[static_cast<int>(args.type)]);
  const Encode encode = encoderOf(args.type);
  float ones[256];
  for (float& one : ones) one = 1;
  for (int64_t m = begin; m < end; m++) {
    const float* x = args.x + m * args.width;
    uint8_t* out = args.out + m * args.rowBytes;
    for (int64_t c = 0; c < args.width; c += block.blockValues, out += block.blockBytes) {
      encode(x + c, args.importance == nullptr ? ones : args.importance + c, out);
    }
  }
}

}  // namespace millrace::MILLRACE_ISA
