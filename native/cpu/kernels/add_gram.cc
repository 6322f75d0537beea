// addGram: products of each pair of columns, added up over the rows. A unit is a range of the matrix's rows.
#include "kernel.h"
#include "simd.h"

namespace millrace {

namespace {
constexpr int64_t kUnitRows = 64;
// Rows of x whose columns are copied side by side: columns of a wide x share few sets of the caches.
constexpr int64_t kDepth = 256;
constexpr int64_t kScratchBytes = 2 * kDepth * kUnitRows * static_cast<int64_t>(sizeof(float));

struct AddGramArgs {
  float* gram;     // [width, width]
  const float* x;  // [M, width]
  int64_t numRows;
  int64_t width;
};
}  // namespace

#ifdef MILLRACE_DECODES

Op decode(const Operands<ops::addGram>& in, DecodeMemo&) {
  using ops::addGram;
  AddGramArgs args{};
  args.numRows = in.integer(addGram::numRows);
  args.width = in.integer(addGram::width);
  args.x = in.buffer(addGram::x, saturatedProduct(args.numRows, args.width));
  args.gram = in.buffer(addGram::gram, saturatedProduct(args.width, args.width));
  in.requireApart(addGram::gram, addGram::x);
  const double nanos = static_cast<double>(args.numRows) * static_cast<double>(args.width) * kUnitRows / 32 + 20;
  Op op = makeOp(OpCode::addGram, args, (args.width + kUnitRows - 1) / kUnitRows, nanos, kScratchBytes);
  // The lower a unit lies, the longer are its rows.
  op.maxUnitsPerChunk = 1;
  return op;
}

#endif

}  // namespace millrace

namespace millrace::MILLRACE_ISA {
namespace {

constexpr int64_t kTileRows = 4;
constexpr int64_t kTileColumns = 16;

// Columns [first, first + 64) of rows [m, m + depth), those beyond the width as zeros.
void copyColumns(const AddGramArgs& args, int64_t first, int64_t m, int64_t depth, float* to) {
  const int64_t count = minOf(kUnitRows, args.width - first);
  for (int64_t row = 0; row < depth; row++, to += kUnitRows) {
    memcpy(to, args.x + (m + row) * args.width + first, static_cast<size_t>(count) * sizeof(float));
    for (int64_t c = count; c < kUnitRows; c++) to[c] = 0;
  }
}

// gram[i, j] += Σ left[k, i] · right[k, j] for a tile, as far as the diagonal.
void addTile(const AddGramArgs& args, const float* left, const float* right, int64_t depth, int64_t i, int64_t j) {
  f32x8 sums[kTileRows][2] = {};
  for (int64_t k = 0; k < depth; k++) {
    const f32x8 low = load8(right + k * kUnitRows);
    const f32x8 high = load8(right + k * kUnitRows + 8);
    MILLRACE_UNROLL
    for (int r = 0; r < kTileRows; r++) {
      const f32x8 value = splat8(left[k * kUnitRows + r]);
      sums[r][0] = fma8(value, low, sums[r][0]);
      sums[r][1] = fma8(value, high, sums[r][1]);
    }
  }
  for (int64_t r = 0; r < kTileRows && i + r < args.width; r++) {
    float* to = args.gram + (i + r) * args.width + j;
    const int64_t below = minOf(kTileColumns, i + r - j + 1);
    for (int64_t c = 0; c < below; c++) to[c] += sums[r][c / 8][c % 8];
  }
}

}  // namespace

void addGramKernel(const Op& op, int64_t begin, int64_t end, std::byte* scratch) {
  const AddGramArgs& args = op.args<AddGramArgs>();
  float* const left = reinterpret_cast<float*>(scratch);
  float* const right = left + kDepth * kUnitRows;
  for (int64_t i = begin * kUnitRows; i < minOf(end * kUnitRows, args.width); i += kUnitRows) {
    for (int64_t m = 0; m < args.numRows; m += kDepth) {
      const int64_t depth = minOf(kDepth, args.numRows - m);
      copyColumns(args, i, m, depth, left);
      for (int64_t j = 0; j <= i; j += kUnitRows) {
        copyColumns(args, j, m, depth, right);
        for (int64_t r = 0; r < minOf(kUnitRows, args.width - i); r += kTileRows) {
          for (int64_t c = 0; c < kUnitRows && j + c < i + r + kTileRows; c += kTileColumns) {
            addTile(args, left + r, right + c, depth, i + r, j + c);
          }
        }
      }
    }
  }
}

}  // namespace millrace::MILLRACE_ISA
