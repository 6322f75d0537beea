// expertGatedLinear and expertLinear: `gatedLinear` and `linear` where each row has one of several matrices, its
// expert's. The rows of one expert lie side by side and are a group. Each group is a product of its own, which the code
// of every other product computes. So a row's bits do not depend on the other rows of its expert.
//
// A unit of work is kLinearRows rows of one expert's matrix, for all rows of its group. The number of units is fixed
// before it is known how many groups there are, for the most groups that are possible. Units beyond the last group do
// nothing.
#include "linear.h"

namespace millrace {

namespace {

// One matrix of every expert and its side of the product.
struct ExpertLayer {
  float* out;     // [P, N], P places
  const float* x; // [P, K], or rows of the packed weights' activation format
  const WeightRef* weights;
  const float* biases;  // [E, N] or null
  int64_t xRowBytes;
};

struct ExpertLinearArgs {
  ExpertLayer layer;
  const int32_t* groups;  // [E, 3]: expert, first place, number of places
  int64_t numExperts;
  int64_t numPlaces;
};

struct ExpertGatedLinearArgs {
  ExpertLinearArgs gate;
  ExpertLayer up;
  Activation activation;
};

}  // namespace

#ifdef MILLRACE_DECODES

namespace {
template <typename Name>
ExpertLayer readLayer(const Operands<Name>& in, const operand::Buffer<Name, float>& out, const operand::Activations<Name>& x,
                      const operand::Weights<Name>& weights, const operand::OptionalBuffer<Name, const float>& biases, int64_t numPlaces) {
  const WeightRef& first = in.weights(weights)[0];
  const int64_t numExperts = static_cast<int64_t>(in.weights(weights).size());
  const ActivationFormat format = activationsOf(first.type, first.isPacked);
  in.requireApart(out, x);
  return {in.buffer(out, saturatedProduct(numPlaces, first.rows)), in.activations(x, numPlaces, format, first.cols), &first,
          in.optionalBuffer(biases, saturatedProduct(numExperts, first.rows)), activationRowBytes(format, first.cols)};
}

double nanosPerUnit(const WeightRef& weight, int64_t numGroups, int64_t numPlaces) {
  const double rowsPerGroup = static_cast<double>(numPlaces) / static_cast<double>(numGroups);
  return static_cast<double>(kLinearRows * weight.cols) * (0.06 + (activationsOf(weight.type, weight.isPacked) == ActivationFormat::f32 ? 0.03 : 0.01) * rowsPerGroup);
}

// @param numMatrices number of matrices that a unit reads
template <typename Args>
Op makeExpertsOp(OpCode code, const ExpertLinearArgs& layer, int numMatrices, const Args& args) {
  const WeightRef& weight = layer.layer.weights[0];
  const int64_t numGroups = layer.numExperts < layer.numPlaces ? layer.numExperts : layer.numPlaces;
  if (numGroups == 0) return makeOp(code, args, 0, 0);
  const int64_t unitsPerGroup = (weight.rows + kLinearRows - 1) / kLinearRows;
  const double nanos = numMatrices * nanosPerUnit(weight, numGroups, layer.numPlaces);
  Op op = makeOp(code, args, numGroups * unitsPerGroup, nanos, linearScratchBytes(layer.numPlaces));
  // Half a matrix, in pairs of units: groups differ in size, and some are empty.
  op.maxUnitsPerChunk = (unitsPerGroup + 3) / 4 * 2;
  return op;
}
}  // namespace

Op decode(const Operands<ops::expertLinear>& in, DecodeMemo&) {
  using ops::expertLinear;
  ExpertLinearArgs args{};
  args.numPlaces = in.integer(expertLinear::numSlots);
  args.numExperts = static_cast<int64_t>(in.weights(expertLinear::weights).size());
  args.layer = readLayer(in, expertLinear::out, expertLinear::x, expertLinear::weights, expertLinear::biases, args.numPlaces);
  args.groups = in.buffer(expertLinear::groups, saturatedProduct(args.numExperts, 3));
  return makeExpertsOp(OpCode::expertLinear, args, 1, args);
}

Op decode(const Operands<ops::expertGatedLinear>& in, DecodeMemo&) {
  using ops::expertGatedLinear;
  ExpertGatedLinearArgs args{};
  args.gate.numPlaces = in.integer(expertGatedLinear::numSlots);
  args.gate.numExperts = static_cast<int64_t>(in.weights(expertGatedLinear::gateWeights).size());
  args.gate.layer = readLayer(in, expertGatedLinear::out, expertGatedLinear::gateX, expertGatedLinear::gateWeights,
                              expertGatedLinear::gateBiases, args.gate.numPlaces);
  args.up = readLayer(in, expertGatedLinear::scratch, expertGatedLinear::upX, expertGatedLinear::upWeights, expertGatedLinear::upBiases,
                      args.gate.numPlaces);
  args.gate.groups = in.buffer(expertGatedLinear::groups, saturatedProduct(args.gate.numExperts, 3));
  args.activation = in.code(expertGatedLinear::kind);
  const std::vector<WeightRef>& ups = in.weights(expertGatedLinear::upWeights);
  const int64_t numRows = args.gate.layer.weights->rows;
  if (ups[0].rows != numRows || static_cast<int64_t>(ups.size()) != args.gate.numExperts) {
    const std::string expected = std::to_string(args.gate.numExperts) + " matrices of " + std::to_string(numRows) + " rows, as the gate has";
    in.refuseNamed(expertGatedLinear::upWeights.name, expected, std::to_string(ups.size()) + " of " + std::to_string(ups[0].rows));
  }
  in.requireApart(expertGatedLinear::scratch, expertGatedLinear::out);
  in.requireApart(expertGatedLinear::scratch, expertGatedLinear::gateX);
  in.requireApart(expertGatedLinear::out, expertGatedLinear::upX);
  return makeExpertsOp(OpCode::expertGatedLinear, args.gate, 2, args);
}

#endif

}  // namespace millrace

namespace millrace::MILLRACE_ISA {

// @returns the group, if it lies within the operands, else one of 0 rows
struct Group {
  int64_t expert;
  int64_t first;
  int64_t numRows;
};

static Group groupAt(const ExpertLinearArgs& args, int64_t index) {
  const int32_t* group = args.groups + 3 * index;
  const Group found = {group[0], group[1], group[2]};
  const bool isWithin = found.expert >= 0 && found.expert < args.numExperts && found.first >= 0 && found.numRows > 0 &&
                        found.first + found.numRows <= args.numPlaces;
  return isWithin ? found : Group{};
}

static LinearArgs productOf(const ExpertLayer& layer, const Group& group) {
  const WeightRef& weight = layer.weights[group.expert];
  const float* x = reinterpret_cast<const float*>(reinterpret_cast<const uint8_t*>(layer.x) + group.first * layer.xRowBytes);
  const float* bias = layer.biases == nullptr ? nullptr : layer.biases + group.expert * weight.rows;
  return {layer.out + group.first * weight.rows, x, bias, group.numRows, weight, false};
}

// Calls run(group, begin, end) with the units of each group among units [begin, end).
template <class Run>
static void forGroups(const ExpertLinearArgs& args, int64_t begin, int64_t end, Run run) {
  const int64_t unitsPerGroup = (args.layer.weights->rows + kLinearRows - 1) / kLinearRows;
  while (begin < end) {
    const int64_t index = begin / unitsPerGroup;
    const int64_t last = minOf(end, (index + 1) * unitsPerGroup);
    const Group group = groupAt(args, index);
    if (group.numRows > 0) run(group, begin - index * unitsPerGroup, last - index * unitsPerGroup);
    begin = last;
  }
}

void expertLinearKernel(const Op& op, int64_t begin, int64_t end, std::byte* scratch) {
  const ExpertLinearArgs& args = op.args<ExpertLinearArgs>();
  Op product{};
  forGroups(args, begin, end, [&](const Group& group, int64_t first, int64_t last) {
    product.args<LinearArgs>() = productOf(args.layer, group);
    linearKernel(product, first, last, scratch);
  });
}

void expertGatedLinearKernel(const Op& op, int64_t begin, int64_t end, std::byte* scratch) {
  const ExpertGatedLinearArgs& args = op.args<ExpertGatedLinearArgs>();
  Op product{};
  forGroups(args.gate, begin, end, [&](const Group& group, int64_t first, int64_t last) {
    product.args<GatedLinearArgs>() = {productOf(args.gate.layer, group), productOf(args.up, group), args.activation};
    gatedLinearKernel(product, first, last, scratch);
  });
}

}  // namespace millrace::MILLRACE_ISA
