// Decoding of every operation without a file of its own: operands in program.ts's order, then units and a rough cost.
// Costs are nanoseconds on one thread of a recent core; they only steer how work is cut.
#include "operands.h"

namespace millrace {

const int kNumArgs[kNumOps] = {5, 6, 5, 6, 4, 10, 6, 15, 16, 5, 15, 3};

namespace {

Op decodeEmbed(const Operands& in) {
  const WeightRef& weight = in.rowWeight(1, "weight");
  const int64_t numRows = in.integer(3, "numRows");
  Op op = makeOp(OpCode::embed, numRows, static_cast<double>(weight.cols) * 0.3 + 50);
  op.embed.weight = weight;
  op.embed.scale = static_cast<float>(in.number(4, "scale"));
  op.embed.ids = in.indices(2, "ids", numRows, 0, weight.rows - 1);
  op.embed.out = in.f32(0, "out", saturatedProduct(numRows, weight.cols));
  in.requireApart("out", op.embed.out, "ids", op.embed.ids);
  return op;
}

Op decodeRmsNorm(const Operands& in) {
  const int64_t numRows = in.integer(3, "numRows");
  const int64_t width = in.integer(4, "width", 1);
  Op op = makeOp(OpCode::rmsNorm, numRows, static_cast<double>(width) * 0.4 + 20);
  op.rmsNorm.eps = in.number(5, "eps");
  if (op.rmsNorm.eps < 0) in.refuse("eps", "at least 0", op.rmsNorm.eps);
  op.rmsNorm.width = width;
  op.rmsNorm.out = in.f32(0, "out", saturatedProduct(numRows, width));
  op.rmsNorm.x = in.f32(1, "x", saturatedProduct(numRows, width));
  op.rmsNorm.gain = in.f32(2, "gain", width);
  return op;
}

Op decodeQuantize(const Operands& in) {
  const int64_t numRows = in.integer(2, "numRows");
  const int64_t width = in.integer(3, "width", 1);
  const ActivationFormat format = static_cast<ActivationFormat>(in.integer(4, "format", 1, kNumActivationFormats - 1));
  const int64_t block = format == ActivationFormat::Blocks256 ? 256 : 32;
  if (width % block != 0) in.refuse("width", "a multiple of " + std::to_string(block), static_cast<double>(width));
  Op op = makeOp(OpCode::quantize, numRows, static_cast<double>(width) * 0.4 + 20);
  op.quantize.width = width;
  op.quantize.format = format;
  op.quantize.out = reinterpret_cast<uint8_t*>(in.f32(0, "out", saturatedProduct(numRows, activationRowBytes(format, width) / 4)));
  op.quantize.x = in.f32(1, "x", saturatedProduct(numRows, width));
  return op;
}

Op decodePack(const Operands& in) {
  const WeightRef& weight = in.rowWeight(2, "weight");
  if (packedInfoOf(weight.type).cellBytes == 0) in.refuse("weight", "of a type with a packed form", infoOf(weight.type).name);
  const int64_t offset = in.integer(1, "byteOffset", 0, INT64_C(9007199254740991));
  const int64_t numGroups = (weight.rows + kPackedRows - 1) / kPackedRows;
  Op op = makeOp(OpCode::pack, numGroups, static_cast<double>(weight.cols * kPackedRows) * 2);
  op.pack.weight = weight;
  op.pack.out = in.bytes(0, "out", offset, packedBytes(weight.type, weight.rows, weight.cols));
  return op;
}

// Where a linear layer's operands are, and what they are called; the bias follows the weight.
struct LinearPlaces {
  int out;
  const char* outName;
  int x;
  const char* xName;
  const char* weightName;
  const char* biasName;
};

// out = x · weightᵀ (+ bias) of numRows rows. Returns its nanoseconds a unit.
double readLinear(const Operands& in, const LinearPlaces& at, int64_t numRows, LinearArgs& args) {
  args.weight = in.weight(at.x + 1, at.weightName);
  args.numRows = numRows;
  args.accumulate = false;
  args.out = in.f32(at.out, at.outName, saturatedProduct(numRows, args.weight.rows));
  const ActivationFormat format = args.weight.isPacked ? packedInfoOf(args.weight.type).activations : ActivationFormat::F32;
  args.x = in.f32(at.x, at.xName, saturatedProduct(numRows, activationRowBytes(format, args.weight.cols) / 4));
  args.bias = in.optionalF32(at.x + 2, at.biasName, args.weight.rows);
  if (args.out == args.x) in.refuse(at.outName, std::string("another buffer than ") + at.xName, "the same");
  // A share for reading the weights and a share for the arithmetic.
  const double nanosPerMac = args.weight.isPacked ? 0.01 : 0.03;
  return static_cast<double>(kLinearRows * args.weight.cols) * (0.06 + nanosPerMac * static_cast<double>(numRows));
}

Op linearOp(OpCode code, const LinearArgs& args, double nanosPerUnit) {
  const int64_t numUnits = args.numRows == 0 ? 0 : (args.weight.rows + kLinearRows - 1) / kLinearRows;
  return makeOp(code, numUnits, nanosPerUnit, linearScratchBytes(args.numRows));
}

Op decodeLinear(const Operands& in) {
  LinearArgs args;
  const double nanosPerUnit = readLinear(in, {0, "out", 1, "x", "weight", "bias"}, in.integer(4, "numRows"), args);
  args.accumulate = in.integer(5, "accumulate", 0, 1) == 1;
  Op op = linearOp(OpCode::linear, args, nanosPerUnit);
  op.linear = args;
  return op;
}

Op decodeGatedLinear(const Operands& in) {
  const int64_t numRows = in.integer(8, "numRows");
  GatedLinearArgs args;
  const double gateNanos = readLinear(in, {0, "out", 2, "gateX", "gateWeight", "gateBias"}, numRows, args.gate);
  const double upNanos = readLinear(in, {1, "room", 5, "upX", "upWeight", "upBias"}, numRows, args.up);
  args.isGelu = in.integer(9, "kind", 0, 1) == 1;
  if (args.gate.weight.rows != args.up.weight.rows) {
    in.refuse("upWeight", std::to_string(args.gate.weight.rows) + " rows, as the gate has", static_cast<double>(args.up.weight.rows));
  }
  if (args.up.out == args.gate.out || args.up.out == args.gate.x) in.refuse("room", "another buffer than out and gateX", "the same");
  if (args.gate.out == args.up.x) in.refuse("out", "another buffer than upX", "the same");
  Op op = linearOp(OpCode::gatedLinear, args.gate, gateNanos + upNanos);
  op.gatedLinear = args;
  return op;
}

Op decodeAdd(const Operands& in) {
  const int64_t numValues = saturatedProduct(in.integer(2, "numRows"), in.integer(3, "width"));
  float* out = in.f32(0, "out", numValues);
  float* x = in.f32(1, "x", numValues);
  Op op = makeOp(OpCode::add, (numValues + kElementwiseUnit - 1) / kElementwiseUnit, 150);
  op.add.numValues = numValues;
  op.add.out = out;
  op.add.x = x;
  return op;
}

Op decodeRopeTable(const Operands& in) {
  const int64_t numRows = in.integer(3, "numRows");
  const int64_t half = in.integer(4, "half");
  Op op = makeOp(OpCode::ropeTable, numRows, static_cast<double>(half) * 30 + 10);
  op.ropeTable.half = half;
  op.ropeTable.magnitude = in.number(5, "magnitude");
  op.ropeTable.out = in.f32(0, "out", saturatedProduct(numRows, half, 2));
  op.ropeTable.positions = in.i32(1, "positions", numRows);
  op.ropeTable.invFreq = in.f32(2, "invFreq", half);
  return op;
}

Op decodeGatherRows(const Operands& in) {
  const int64_t numRows = in.integer(3, "numRows");
  const int64_t width = in.integer(4, "width", 1);
  int64_t numValues;
  const float* x = in.whole<float>(1, "x", &numValues);
  if (x == nullptr) in.refuse("x", "the handle of a buffer", "0");
  Op op = makeOp(OpCode::gatherRows, numRows, static_cast<double>(width) * 0.3 + 10);
  op.gatherRows.x = x;
  op.gatherRows.width = width;
  op.gatherRows.rows = in.indices(2, "rows", numRows, 0, numValues / width - 1);
  op.gatherRows.out = in.f32(0, "out", saturatedProduct(numRows, width));
  in.requireApart("out", op.gatherRows.out, "rows", op.gatherRows.rows);
  return op;
}

}  // namespace

Op decodeOp(OpCode code, const Operands& operands, DecodeMemo& memo) {
  switch (code) {
    case OpCode::embed: return decodeEmbed(operands);
    case OpCode::rmsNorm: return decodeRmsNorm(operands);
    case OpCode::quantize: return decodeQuantize(operands);
    case OpCode::linear: return decodeLinear(operands);
    case OpCode::add: return decodeAdd(operands);
    case OpCode::gatedLinear: return decodeGatedLinear(operands);
    case OpCode::ropeTable: return decodeRopeTable(operands);
    case OpCode::ropeAndWriteKv: return decodeRopeAndWriteKv(operands, memo);
    case OpCode::pagedAttention: return decodePagedAttention(operands, memo);
    case OpCode::gatherRows: return decodeGatherRows(operands);
    case OpCode::sample: return decodeSample(operands);
    case OpCode::pack: return decodePack(operands);
  }
  __builtin_unreachable();
}

}  // namespace millrace
