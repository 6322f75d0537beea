// linear over packed weights with i16 activations, for many tokens, with tiles of bytes. The products of a tile are
// integers, so its sums are those of linear_packed.cc to the bit, and the sums are added to the outputs by that file's
// arithmetic: the number of tokens changes no bit.
//
// Types with i8 activations have no tiles: a tile's sums leave its register through memory, once per 32 columns, which
// takes as long as AVX-512 VNNI takes for such products. i16 activations need twice as many of these.
#ifdef MILLRACE_ISA_AMX
#if defined(__GNUC__) && !defined(__clang__)
// As in linear_packed.cc: sums stay in registers.
#pragma GCC optimize("no-tree-ter", "no-tree-reassoc")
#endif
#include "linear_packed_amx.h"
#include "packed_tiles.h"
#include "simd_tiles.h"

namespace millrace::MILLRACE_ISA {
namespace {

// With fewer tokens AVX-512 VNNI is as fast (a Xeon with AMX): a last tile of one token takes as long as one of
// sixteen.
constexpr int64_t kMinTokens = 128;
// Parts of 32 columns that are unpacked at once, of two vectors of sixteen rows: with the activations of a tile they
// fit the first-level cache.
constexpr int64_t kPanelParts = 8;
constexpr int kPanelVectors = 2;
// Activations of this many bytes stay in the second-level cache from one panel to the next.
constexpr int64_t kTilePassBytes = 1 << 20;
// Long rows would leave too few tokens for the unpacking of weights.
constexpr int64_t kMinPassTiles = 4;

// 32 columns of sixteen rows, to be multiplied with i16 activations as the bytes they consist of: the low ones, without
// a sign, times the weights, and the high ones times them. The bytes of an activation lie side by side, so a weight has
// a zero for a neighbour.
struct WidePart {
  Shorts low[kTileRows];
  Shorts high[kTileRows];
  Floats scale;
};
using WidePanel = WidePart[kPanelVectors][kPanelParts];
static_assert(sizeof(WidePanel) + kPanelVectors * sizeof(Floats) * (kMinTokens + kTileRows) <= linearScratchBytes(kMinTokens));

template <class Format>
void unpackParts(Source packed, WidePart* parts) {
  WideCell<Format::kParts> cell;
  Format::unpack(packed, cell);
  for (int p = 0; p < Format::kParts; p++) {
    MILLRACE_UNROLL_INT
    for (int c = 0; c < kTileRows; c++) {
      parts[p].low[c] = cell.parts[p].values[c].value & 0xff;
      parts[p].high[c] = cell.parts[p].values[c].value << 8;
    }
    parts[p].scale = cell.parts[p].scale;
  }
}

// Adds 32 columns of a tile of tokens, whose activations are at `x`, `stride` bytes apart, to its sums. The sums of
// tokens that a tile does not have are of uninitialised memory; no output reads them.
MILLRACE_INLINE void addPart(const WidePart& part, const int8_t* x, int64_t stride, Floats (&acc)[kTileRows]) {
  Ints low[kTileRows];
  Ints high[kTileRows];
  loadTile<4>(x, stride);
  zeroTile<0>();
  zeroTile<1>();
  loadTile<6>(part.low, kTileRowBytes);
  addByteTiles<0, 4, 6, false>();
  loadTile<7>(part.high, kTileRowBytes);
  addByteTiles<1, 4, 7, true>();
  storeTile<0>(low, kTileRowBytes);
  storeTile<1>(high, kTileRowBytes);
  MILLRACE_UNROLL
  for (int t = 0; t < kTileRows; t++) acc[t] = mulAdd(toFloats((high[t] << 8) + low[t]), part.scale, acc[t]);
}

// Advances the sums of numTokens tokens and the sixteen rows from group g on, which rest at `resting`; after the last
// parts the outputs are written.
template <class Format>
void advance(const Groups& groups, const Rows& rows, const KBlock& parts, const WidePart* unpacked, int64_t g, int64_t token, int64_t numTokens,
             Floats* resting) {
  Floats acc[kTileRows];
  MILLRACE_UNROLL
  for (int t = 0; t < kTileRows; t++) acc[t] = parts.first == 0 ? Floats{} : resting[t];
  const int8_t* x = rows.at(token).q + kTileRowBytes * parts.first;
  for (int64_t p = 0; p < parts.count; p++) addPart(unpacked[p], x + kTileRowBytes * p, rows.stride, acc);
  MILLRACE_UNROLL
  for (int t = 0; t < kTileRows; t++) {
    if (!parts.isLast) resting[t] = acc[t];
    else if (t < numTokens) groups.store(token + t, g, WideKind<Format>::finish(rows.at(token + t), acc[t]));
  }
}

template <class Format>
void runTiles(const LinearArgs& args, int64_t begin, int64_t end, std::byte* scratch) {
  static_assert(kPanelParts % Format::kParts == 0);
  const PackedInfo info = packedInfoOf(args.weight.type);
  const Rows rows = {reinterpret_cast<const uint8_t*>(args.x), activationRowBytes(info.activations, args.weight.cols),
                     activationHeaderBytes(info.activations, args.weight.cols)};
  const int64_t numParts = args.weight.cols / 32;
  const Groups groups = {args, info, numParts / Format::kParts, end, 1};
  WidePanel& panel = *reinterpret_cast<WidePanel*>(scratch);
  Floats* const resting = reinterpret_cast<Floats*>(scratch + sizeof panel);
  const int64_t passTokens = minOf(kLinearPassTokens, maxOf(kMinPassTiles, kTilePassBytes / rows.stride / kTileRows) * kTileRows);
  Tiles tiles;
  for (int64_t m0 = 0; m0 < args.numRows; m0 += passTokens) {
    const int64_t m1 = minOf(m0 + passTokens, args.numRows);
    for (int64_t g0 = begin; g0 < end; g0 += kEights * kPanelVectors) {
      const int64_t numVectors = minOf(kPanelVectors, (end - g0 + kEights - 1) / kEights);
      for (int64_t first = 0; first < numParts; first += kPanelParts) {
        const KBlock parts = {first, minOf(kPanelParts, numParts - first), first + kPanelParts >= numParts};
        for (int64_t v = 0; v < numVectors; v++) {
          for (int64_t p = 0; p < parts.count; p += Format::kParts) {
            unpackParts<Format>(groups.packed(g0 + v * kEights, (first + p) / Format::kParts), panel[v] + p);
          }
        }
        for (int64_t token = m0; token < m1; token += kTileRows) {
          const int64_t numTokens = minOf(kTileRows, m1 - token);
          tiles.setTokens(numTokens);
          for (int64_t v = 0; v < numVectors; v++) {
            Floats* sums = resting + (token - m0) * kPanelVectors + v * kTileRows;
            advance<Format>(groups, rows, parts, panel[v], g0 + v * kEights, token, numTokens, sums);
          }
        }
      }
    }
  }
}

}  // namespace

bool hasByteTiles(TensorType type, int64_t numTokens) {
  const bool isWide = type == TensorType::Q8_0 || type == TensorType::I8 || type == TensorType::IQ4_NL || type == TensorType::IQ4_XS;
  return isWide && numTokens >= kMinTokens;
}

void linearByteTiles(const LinearArgs& args, int64_t begin, int64_t end, std::byte* scratch) {
  switch (args.weight.type) {
    case TensorType::Q8_0: return runTiles<PackedBytes<TensorType::Q8_0>>(args, begin, end, scratch);
    case TensorType::I8: return runTiles<PackedBytes<TensorType::I8>>(args, begin, end, scratch);
    case TensorType::IQ4_NL: return runTiles<PackedIQ4_NL>(args, begin, end, scratch);
    case TensorType::IQ4_XS: return runTiles<PackedIQ4_XS>(args, begin, end, scratch);
    default: return;
  }
}

}  // namespace millrace::MILLRACE_ISA
#endif
