// addGram: products of each pair of columns, added up over the rows. A unit is a range of the matrix's rows.
#include "kernel.h"
#include "simd.h"

namespace millrace {

namespace {
constexpr int64_t kUnitRows = 64;

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
  Op op = makeOp(OpCode::addGram, args, (args.width + kUnitRows - 1) / kUnitRows, nanos);
  // The lower a unit lies, the longer are its rows.
  op.maxUnitsPerChunk = 1;
  return op;
}

#endif

}  // namespace millrace

namespace millrace::MILLRACE_ISA {
namespace {

constexpr int64_t kTileRows = 4;

// gram[i, j] += Σ x[m, i] · x[m, j] for the four rows from i on and `count` (1 to 16) columns from j on.
void addTile(const AddGramArgs& args, int64_t i, int64_t j, int64_t count) {
  const int64_t lowCount = minOf(count, 8);
  const int64_t highCount = count - lowCount;
  f32x8 sums[kTileRows][2] = {};
  int64_t rows[kTileRows];
  for (int64_t r = 0; r < kTileRows; r++) rows[r] = minOf(i + r, args.width - 1);
  for (int64_t m = 0; m < args.numRows; m++) {
    const float* x = args.x + m * args.width;
    const f32x8 low = lowCount == 8 ? load8(x + j) : loadPartial8(x + j, lowCount);
    const f32x8 high = highCount == 8 ? load8(x + j + 8) : highCount > 0 ? loadPartial8(x + j + 8, highCount) : f32x8{};
    MILLRACE_UNROLL
    for (int r = 0; r < kTileRows; r++) {
      const f32x8 value = splat8(x[rows[r]]);
      sums[r][0] = fma8(value, low, sums[r][0]);
      sums[r][1] = fma8(value, high, sums[r][1]);
    }
  }
  for (int64_t r = 0; r < kTileRows && i + r < args.width; r++) {
    float* to = args.gram + (i + r) * args.width + j;
    const int64_t below = minOf(count, i + r - j + 1);
    for (int64_t c = 0; c < below; c++) to[c] += sums[r][c / 8][c % 8];
  }
}

}  // namespace

void addGramKernel(const Op& op, int64_t begin, int64_t end, std::byte*) {
  const AddGramArgs& args = op.args<AddGramArgs>();
  for (int64_t i = begin * kUnitRows; i < minOf(end * kUnitRows, args.width); i += kTileRows) {
    const int64_t lastRow = minOf(i + kTileRows, args.width);
    for (int64_t j = 0; j < lastRow; j += 16) addTile(args, i, j, minOf(16, lastRow - j));
  }
}

}  // namespace millrace::MILLRACE_ISA
