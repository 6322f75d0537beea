// Our own exponential and logarithm, so that results do not depend on the C library: f32 lanes for attention and
// activations, double for sampling. The double versions use only plain multiplications and additions, so every
// instruction set gives the same bits.
#pragma once
#include <cstdint>
#include <cstring>

#include "simd.h"

namespace millrace::MILLRACE_ISA {

// Eight lanes, or as many as a register has: the same operations on each.
template <class V>
MILLRACE_INLINE V splatOf(float value) {
  return V{} + value;
}
template <class V>
struct UnsignedOf;
template <>
struct UnsignedOf<f32x8> {
  using type = u32x8;
};
#if defined(MILLRACE_ISA_AVX512)
template <>
struct UnsignedOf<Floats> {
  using type = UnsignedInts;
};
MILLRACE_INLINE f32x8 mulAdd(f32x8 a, f32x8 b, f32x8 c) { return fma8(a, b, c); }
#endif

// e^x to about 1 ulp, subnormal results included; NaN gives NaN.
template <class V>
MILLRACE_INLINE V expOf(V x) {
  using U = typename UnsignedOf<V>::type;
  x = x > splatOf<V>(89.0f) ? splatOf<V>(89.0f) : x;
  x = x < splatOf<V>(-104.0f) ? splatOf<V>(-104.0f) : x;
  // Adding 1.5 · 2^23 rounds to an integer, which is then in the low bits.
  const V shifter = splatOf<V>(12582912.0f);
  const V shifted = mulAdd(x, splatOf<V>(1.44269504f), shifter);
  const V n = shifted - shifter;
  // x − n · ln 2 in two steps: the first constant has few bits, so its product is exact.
  V r = mulAdd(n, splatOf<V>(-0.693359375f), x);
  r = mulAdd(n, splatOf<V>(2.12194440e-4f), r);
  V p = splatOf<V>(1.0f / 5040);
  p = mulAdd(p, r, splatOf<V>(1.0f / 720));
  p = mulAdd(p, r, splatOf<V>(1.0f / 120));
  p = mulAdd(p, r, splatOf<V>(1.0f / 24));
  p = mulAdd(p, r, splatOf<V>(1.0f / 6));
  p = mulAdd(p, r, splatOf<V>(0.5f));
  p = mulAdd(p, r, splatOf<V>(1.0f));
  p = mulAdd(p, r, splatOf<V>(1.0f));
  // 2^n as two factors, so that neither leaves the normal range.
  U bits;
  memcpy(&bits, &shifted, sizeof(V));
  const U biased = (bits & 0x7fffffu) - 0x400000u + 512u;  // n + 512
  const U low = biased >> 1;
  const U high = biased - low;
  const U lowBits = (low + (127u - 256u)) << 23;
  const U highBits = (high + (127u - 256u)) << 23;
  V lowScale, highScale;
  memcpy(&lowScale, &lowBits, sizeof(V));
  memcpy(&highScale, &highBits, sizeof(V));
  return p * lowScale * highScale;
}
MILLRACE_INLINE f32x8 exp8(f32x8 x) { return expOf(x); }

// tanh x to about 2 ulp; NaN gives NaN. Near zero x + x³ q(x²), q minimising the largest error over |x| ≤ 0.625,
// where the formula with e^2x leaves mostly rounding errors.
MILLRACE_INLINE f32x8 tanh8(f32x8 x) {
  const f32x8 z = x * x;
  f32x8 q = splat8(-0.005717044696211815f);
  q = fma8(q, z, splat8(0.020650586113333702f));
  q = fma8(q, z, splat8(-0.05374349653720856f));
  q = fma8(q, z, splat8(0.13331490755081177f));
  q = fma8(q, z, splat8(-0.3333328366279602f));
  const f32x8 near = fma8(x * z, q, x);
  const f32x8 magnitude = x < splat8(0.0f) ? -x : x;
  const f32x8 far = splat8(1.0f) - splat8(2.0f) / (exp8(magnitude + magnitude) + splat8(1.0f));
  return magnitude > splat8(0.625f) ? (x < splat8(0.0f) ? -far : far) : near;
}

// cap · tanh(x / cap)
MILLRACE_INLINE f32x8 capped8(f32x8 x, float cap) { return tanh8(x * splat8(1.0f / cap)) * splat8(cap); }

// x = x / (1 + e^−y) for four vectors, to about 2 ulp. Four at once, step by step, so that one's latencies are hidden
// behind the others. The polynomial is 1 + r + r² q(r), q fitted for the least largest relative error over |r| ≤ ln 2 /
// 2.
MILLRACE_INLINE void divideByOnePlusExpOfMinus(f32x8 (&x)[4], const f32x8 (&y)[4]) {
  f32x8 r[4], square[4], q[4], scale[4];
  // As in exp8, and 127 more: the low bits are the exponent field of 2^n, infinity's where e^−y leaves the range.
  const f32x8 shifter = splat8(12582912.0f + 127.0f);
  MILLRACE_UNROLL
  for (int j = 0; j < 4; j++) {
    r[j] = min8(max8(y[j], splat8(-88.8f)), splat8(87.0f));
    const f32x8 shifted = fma8(r[j], splat8(-1.44269504f), shifter);
    u32x8 bits;
    memcpy(&bits, &shifted, 32);
    bits <<= 23;
    memcpy(&scale[j], &bits, 32);
    const f32x8 n = shifted - shifter;
    r[j] = fma8(n, splat8(2.12194440e-4f), fma8(n, splat8(-0.693359375f), -r[j]));
  }
  MILLRACE_UNROLL
  for (int j = 0; j < 4; j++) square[j] = r[j] * r[j];
  MILLRACE_UNROLL
  for (int j = 0; j < 4; j++) {
    q[j] = fma8(r[j], splat8(0.00836874544620514f), splat8(0.04166838899254799f));
    q[j] = fma8(square[j], splat8(0.0013814540579915047f), q[j]);
    q[j] = fma8(square[j], q[j], fma8(r[j], splat8(0.1666652113199234f), splat8(0.4999999403953552f)));
    q[j] = fma8(square[j], q[j], splat8(1.0f) + r[j]);
  }
  MILLRACE_UNROLL
  for (int j = 0; j < 4; j++) x[j] = x[j] / fma8(q[j], scale[j], splat8(1.0f));
}

// x · Φ(x), Φ the normal distribution: the GELU itself. The tail Q(|x|) = 1 − Φ(|x|) is e^−p with p fitted for the
// least largest error of
// |x| · Q over |x| ≤ 6.5 (2e-10); beyond, Q counts no longer. NaN gives NaN.
MILLRACE_INLINE Floats gelu(Floats x) {
  const Floats a = x < splatFloats(0.0f) ? -x : x;
  Floats p = splatFloats(3.704578332985875e-08f);
  p = mulAdd(p, a, splatFloats(-9.262728326575598e-07f));
  p = mulAdd(p, a, splatFloats(1.0246896636090241e-05f));
  p = mulAdd(p, a, splatFloats(-6.422784645110369e-05f));
  p = mulAdd(p, a, splatFloats(0.00022112396254669875f));
  p = mulAdd(p, a, splatFloats(-3.7959020119160414e-05f));
  p = mulAdd(p, a, splatFloats(-0.004786560777574778f));
  p = mulAdd(p, a, splatFloats(0.036339424550533295f));
  p = mulAdd(p, a, splatFloats(0.318308562040329f));
  p = mulAdd(p, a, splatFloats(0.7978847622871399f));
  p = mulAdd(p, a, splatFloats(0.6931471824645996f));
  const Floats tail = a > splatFloats(6.5f) ? splatFloats(0.0f) : expOf(-p);
  return x * (x < splatFloats(0.0f) ? tail : splatFloats(1.0f) - tail);
}

// Angles below this are reduced without loss.
constexpr double kMaxAngle = 4294967296.0;

// Cosine and sine to 10⁻¹², more than their f32 values keep. Plain multiplications and additions: the same bits
// everywhere.
MILLRACE_INLINE void cosAndSin4(f64x4 angle, f64x4* cosine, f64x4* sine) {
  // k quarter turns, from the low bits of a sum that rounds to an integer; π/2 in three parts, the first two short
  // enough that their multiples are exact.
  const double shifter = 6755399441055744.0;  // 1.5 · 2^52
  const f64x4 shifted = angle * 0.6366197723675814 + shifter;
  const f64x4 k = shifted - shifter;
  const f64x4 r = ((angle - k * 1.570796012878418) - k * 3.139164164167596e-07) - k * 6.223372171896613e-14;
  const f64x4 z = r * r;
  f64x4 s = z * (1.0 / 6227020800.0) - 1.0 / 39916800.0;
  s = s * z + 1.0 / 362880.0;
  s = s * z - 1.0 / 5040.0;
  s = s * z + 1.0 / 120.0;
  s = s * z - 1.0 / 6.0;
  s = r + r * z * s;
  f64x4 c = z * (1.0 / 479001600.0) - 1.0 / 3628800.0;
  c = c * z + 1.0 / 40320.0;
  c = c * z - 1.0 / 720.0;
  c = c * z + 1.0 / 24.0;
  c = c * z - 0.5;
  c = c * z + 1.0;
  // Odd quarters swap the two; the second and third negate the cosine, the third and fourth the sine.
  u64x4 quarter, cBits, sBits;
  memcpy(&quarter, &shifted, 32);
  memcpy(&cBits, &c, 32);
  memcpy(&sBits, &s, 32);
  const u64x4 swaps = -(quarter & 1);
  const u64x4 difference = (cBits ^ sBits) & swaps;
  cBits ^= difference ^ (((quarter + 1) & 2) << 62);
  sBits ^= difference ^ ((quarter & 2) << 62);
  memcpy(cosine, &cBits, 32);
  memcpy(sine, &sBits, 32);
}

// As many doubles as a register has.
#if defined(MILLRACE_ISA_AVX512)
typedef double Doubles __attribute__((vector_size(64)));
#else
typedef f64x4 Doubles;
#endif
constexpr int kDoubles = sizeof(Doubles) / sizeof(double);
typedef float Narrowed __attribute__((vector_size(sizeof(Doubles) / 2)));

MILLRACE_INLINE Doubles loadAsDoubles(const float* address) {
  Narrowed value;
  memcpy(&value, address, sizeof value);
  return __builtin_convertvector(value, Doubles);
}
MILLRACE_INLINE void storeAsFloats(float* address, Doubles value) {
  const Narrowed narrowed = __builtin_convertvector(value, Narrowed);
  memcpy(address, &narrowed, sizeof narrowed);
}

// The integers as wide as one double, or as each of a vector's.
template <class D>
struct BitsOf {
  typedef uint64_t Unsigned __attribute__((vector_size(sizeof(D))));
  typedef int64_t Signed __attribute__((vector_size(sizeof(D))));
};
template <>
struct BitsOf<double> {
  using Unsigned = uint64_t;
  using Signed = int64_t;
};
template <class To, class From>
MILLRACE_INLINE To sameBits(From value) {
  static_assert(sizeof(To) == sizeof(From));
  To result;
  memcpy(&result, &value, sizeof result);
  return result;
}

// e^x to about 1 ulp for any x, of one double or of a vector of them. Loops over the scalar form do not vectorise with
// every compiler.
template <class D>
MILLRACE_INLINE D expDoubles(D x) {
  using U = typename BitsOf<D>::Unsigned;
  x = x > D{} + 710.0 ? D{} + 710.0 : x;
  x = x < D{} - 746.0 ? D{} - 746.0 : x;
  const D shifter = D{} + 6755399441055744.0;  // 1.5 · 2^52
  const D shifted = x * 1.4426950408889634 + shifter;
  const D n = shifted - shifter;
  D r = x - n * 0.693147180369123816490;  // exact product: the constant has 32 significant bits
  r = r - n * 1.90821492927058770002e-10;
  D p = D{} + 1.0 / 6227020800.0;
  p = p * r + 1.0 / 479001600.0;
  p = p * r + 1.0 / 39916800.0;
  p = p * r + 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  const U biased = (sameBits<U>(shifted) & uint64_t{0xfffff}) + uint64_t{4096};  // n + 4096 modulo 2^20
  const U wrapped = biased & uint64_t{0xfffff};
  const U low = wrapped >> 1;
  const U high = wrapped - low;
  return p * sameBits<D>((low - uint64_t{1025}) << 52) * sameBits<D>((high - uint64_t{1025}) << 52);
}
MILLRACE_INLINE double expDouble(double x) { return expDoubles(x); }

// ln x to about 1 ulp for positive normal finite x, as expDoubles.
template <class D>
MILLRACE_INLINE D logDoubles(D x) {
  using U = typename BitsOf<D>::Unsigned;
  using I = typename BitsOf<D>::Signed;
  // x = 2^e · m with m in [√½, √2).
  const U bits = sameBits<U>(x);
  const I e = sameBits<I>(bits - uint64_t{0x3fe6a09e667f3bcd}) >> 52;
  const D m = sameBits<D>(bits - (sameBits<U>(e) << 52));
  // ln m = 2 artanh(s), s = (m − 1) / (m + 1).
  const D f = m - 1.0;
  const D s = f / (f + 2.0);
  const D z = s * s;
  D p = D{} + 1.0 / 23.0;
  p = p * z + 1.0 / 21.0;
  p = p * z + 1.0 / 19.0;
  p = p * z + 1.0 / 17.0;
  p = p * z + 1.0 / 15.0;
  p = p * z + 1.0 / 13.0;
  p = p * z + 1.0 / 11.0;
  p = p * z + 1.0 / 9.0;
  p = p * z + 1.0 / 7.0;
  p = p * z + 1.0 / 5.0;
  p = p * z + 1.0 / 3.0;
  // The exponent is small: its double is exact by way of the low bits of a sum.
  const D exponent = sameBits<D>(sameBits<U>(D{} + 6755399441055744.0) + sameBits<U>(e)) - 6755399441055744.0;
  const D tail = s * 2.0 * z * p + exponent * 1.90821492927058770002e-10;
  return exponent * 0.693147180369123816490 + (s * 2.0 + tail);
}
MILLRACE_INLINE double logDouble(double x) { return logDoubles(x); }

}  // namespace millrace::MILLRACE_ISA
