// factorise: the L · D · Lᵀ factors of a symmetric matrix, panel by panel, each computed from the finished columns on
// its left. It is one unit.
#include "kernel.h"
#include "simd.h"

namespace millrace {

namespace {
constexpr int64_t kPanel = 64;
// Finished columns whose products are subtracted at once.
constexpr int64_t kDepth = 256;

struct FactoriseArgs {
  float* gram;  // [width, width]
  int64_t width;
  float damping;
};
}  // namespace

#ifdef MILLRACE_DECODES

Op decode(const Operands<ops::factorise>& in, DecodeMemo&) {
  using ops::factorise;
  FactoriseArgs args{};
  args.width = in.integer(factorise::width, 1);
  const double damping = in.number(factorise::damping);
  if (!(damping > 0)) in.refuse(factorise::damping, "above 0", damping);
  args.damping = static_cast<float>(damping);
  args.gram = in.buffer(factorise::gram, saturatedProduct(args.width, args.width));
  const double width = static_cast<double>(args.width);
  constexpr int64_t kScratchBytes = kPanel * (kDepth + kPanel) * static_cast<int64_t>(sizeof(float));
  return makeOp(OpCode::factorise, args, 1, width * width * width / 30, kScratchBytes);
}

#endif

}  // namespace millrace

namespace millrace::MILLRACE_ISA {
namespace {

constexpr int kTile = 4;

// to[r, c] −= Σ rows[r, k] · scaled[c, k], for a tile of four rows and four columns, of which numRows and numColumns
// are there.
void subtractTile(float* to, int64_t stride, const float* rows, const float* scaled, int64_t depth, int64_t numRows, int64_t numColumns) {
  f32x8 sums[kTile][kTile] = {};
  float rest[kTile][kTile] = {};
  const float* row[kTile];
  const float* column[kTile];
  for (int i = 0; i < kTile; i++) {
    row[i] = rows + minOf(i, numRows - 1) * stride;
    column[i] = scaled + minOf(i, numColumns - 1) * kDepth;
  }
  int64_t k = 0;
  for (; k + 8 <= depth; k += 8) {
    f32x8 right[kTile];
    MILLRACE_UNROLL
    for (int c = 0; c < kTile; c++) right[c] = load8(column[c] + k);
    MILLRACE_UNROLL
    for (int r = 0; r < kTile; r++) {
      const f32x8 left = load8(row[r] + k);
      MILLRACE_UNROLL
      for (int c = 0; c < kTile; c++) sums[r][c] = fma8(left, right[c], sums[r][c]);
    }
  }
  for (; k < depth; k++) {
    for (int r = 0; r < kTile; r++) {
      for (int c = 0; c < kTile; c++) rest[r][c] += row[r][k] * column[c][k];
    }
  }
  for (int64_t r = 0; r < numRows; r++) {
    for (int64_t c = 0; c < numColumns; c++) to[r * stride + c] -= sum1(sums[r][c]) + rest[r][c];
  }
}

}  // namespace

void factoriseKernel(const Op& op, int64_t, int64_t, std::byte* scratch) {
  const FactoriseArgs& args = op.args<FactoriseArgs>();
  const int64_t width = args.width;
  float* const matrix = args.gram;
  float* const scaled = reinterpret_cast<float*>(scratch);  // [kPanel, kDepth]: the panel's rows of L · D
  float* const own = scaled + kPanel * kDepth;              // [kPanel, kPanel]: the same of its own columns
  double trace = 0;
  for (int64_t i = 0; i < width; i++) trace += static_cast<double>(matrix[i * width + i]);
  // In exact arithmetic no pivot of the damped matrix is smaller.
  const float least = static_cast<float>(static_cast<double>(args.damping) * trace / static_cast<double>(width));
  for (int64_t i = 0; i < width; i++) matrix[i * width + i] += least;
  for (int64_t p0 = 0; p0 < width; p0 += kPanel) {
    const int64_t numColumns = minOf(kPanel, width - p0);
    for (int64_t k0 = 0; k0 < p0; k0 += kDepth) {
      const int64_t depth = minOf(kDepth, p0 - k0);
      for (int64_t c = 0; c < numColumns; c++) {
        const float* row = matrix + (p0 + c) * width + k0;
        for (int64_t k = 0; k < depth; k++) scaled[c * kDepth + k] = row[k] * matrix[(k0 + k) * width + k0 + k];
      }
      for (int64_t i = p0; i < width; i += kTile) {
        const int64_t numRows = minOf(kTile, width - i);
        // Tiles above the diagonal belong to the upper half, which stays as it is.
        for (int64_t c = 0; c < minOf(numColumns, i + numRows - p0); c += kTile) {
          const int64_t count = minOf(kTile, numColumns - c);
          float* to = matrix + i * width + p0 + c;
          if (i >= p0 + c + count - 1) {
            subtractTile(to, width, matrix + i * width + k0, scaled + c * kDepth, depth, numRows, count);
            continue;
          }
          // The diagonal's tile: row by row, as far as the diagonal.
          for (int64_t r = 0; r < numRows; r++) {
            const int64_t below = minOf(count, i + r - p0 - c + 1);
            subtractTile(to + r * width, width, matrix + (i + r) * width + k0, scaled + c * kDepth, depth, 1, below);
          }
        }
      }
    }
    for (int64_t i = p0; i < width; i++) {
      float* row = matrix + i * width + p0;
      const int64_t below = minOf(numColumns, i - p0);
      for (int64_t c = 0; c < below; c++) {
        const float* other = own + c * kPanel;
        float value = row[c];
        for (int64_t m = 0; m < c; m++) value -= row[m] * other[m];
        row[c] = value / matrix[(p0 + c) * width + p0 + c];
      }
      if (i >= p0 + numColumns) continue;
      float* mine = own + (i - p0) * kPanel;
      float pivot = row[i - p0];
      for (int64_t m = 0; m < below; m++) {
        mine[m] = row[m] * matrix[(p0 + m) * width + p0 + m];
        pivot -= row[m] * mine[m];
      }
      row[i - p0] = pivot >= least ? pivot : least;
    }
  }
}

}  // namespace millrace::MILLRACE_ISA
