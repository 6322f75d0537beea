// Written by scripts/write-op-table.js: change src/backend/ops.ts, which says what each operation computes, and run it.
// size: a table, with a few lines for each operation
#pragma once
#include <cstdint>

#include "operand.h"

namespace millrace {

// Calls X with the name of each operation, in the order of the opcodes.
#define MILLRACE_OPS(X) \
  X(embed) \
  X(rmsNorm) \
  X(layerNorm) \
  X(quantize) \
  X(linear) \
  X(add) \
  X(multiply) \
  X(scaleAndCap) \
  X(scaleByPosition) \
  X(activate) \
  X(gatedLinear) \
  X(ropeTable) \
  X(ropeAndWriteKv) \
  X(pagedAttention) \
  X(countAttention) \
  X(gatherRows) \
  X(spreadColumns) \
  X(sample) \
  X(pack) \
  X(routeExperts) \
  X(groupExperts) \
  X(dispatchRows) \
  X(expertGatedLinear) \
  X(expertLinear) \
  X(combineExperts) \
  X(causalConv) \
  X(deltaRule) \
  X(selectiveScan) \
  X(gatedNorm) \
  X(applyGate) \
  X(encodeRows) \
  X(roundToScales) \
  X(addSquares) \
  X(keepLargest) \
  X(addGram) \
  X(factorise) \
  X(copyColumns)

enum class OpCode : uint32_t {
    embed,
    rmsNorm,
    layerNorm,
    quantize,
    linear,
    add,
    multiply,
    scaleAndCap,
    scaleByPosition,
    activate,
    gatedLinear,
    ropeTable,
    ropeAndWriteKv,
    pagedAttention,
    countAttention,
    gatherRows,
    spreadColumns,
    sample,
    pack,
    routeExperts,
    groupExperts,
    dispatchRows,
    expertGatedLinear,
    expertLinear,
    combineExperts,
    causalConv,
    deltaRule,
    selectiveScan,
    gatedNorm,
    applyGate,
    encodeRows,
    roundToScales,
    addSquares,
    keepLargest,
    addGram,
    factorise,
    copyColumns,
};
constexpr int kNumOps = 37;
constexpr const char* kOpNames[kNumOps] = {
    "embed",
    "rmsNorm",
    "layerNorm",
    "quantize",
    "linear",
    "add",
    "multiply",
    "scaleAndCap",
    "scaleByPosition",
    "activate",
    "gatedLinear",
    "ropeTable",
    "ropeAndWriteKv",
    "pagedAttention",
    "countAttention",
    "gatherRows",
    "spreadColumns",
    "sample",
    "pack",
    "routeExperts",
    "groupExperts",
    "dispatchRows",
    "expertGatedLinear",
    "expertLinear",
    "combineExperts",
    "causalConv",
    "deltaRule",
    "selectiveScan",
    "gatedNorm",
    "applyGate",
    "encodeRows",
    "roundToScales",
    "addSquares",
    "keepLargest",
    "addGram",
    "factorise",
    "copyColumns",
};
// With the operands: what both sides of the boundary must agree on.
constexpr const char* kOpSignatures[kNumOps] = {
    "embed(out, weight, ids, numRows, scale)",
    "rmsNorm(out, x, gain, numRows, width, eps)",
    "layerNorm(out, x, gain, bias, numRows, width, eps)",
    "quantize(out, x, numRows, width, format)",
    "linear(out, x, weight, bias, numRows, accumulate)",
    "add(out, x, numRows, width)",
    "multiply(out, x, numRows, width, xWidth, first)",
    "scaleAndCap(x, numRows, width, scale, cap)",
    "scaleByPosition(x, positions, numRows, width, beta, length)",
    "activate(x, numRows, width, kind)",
    "gatedLinear(out, scratch, gateX, gateWeight, gateBias, upX, upWeight, upBias, numRows, kind)",
    "ropeTable(out, positions, invFreq, numRows, half, magnitude)",
    "ropeAndWriteKv(q, k, v, table, keyCache, valueCache, slots, numRows, numHeads, numKvHeads, headDim, blockSize, kvType, half, isNeox, latentDim)",
    "pagedAttention(out, q, keyCache, valueCache, kvLengths, sequenceIndex, blockTables, tableStride, numRows, numHeads, numKvHeads, headDim, blockSize, kvType, scale, window, cap, sinks, begins, latentDim)",
    "countAttention(counts, entropies, q, keyCache, rows, kvLengths, sequenceIndex, blockTables, tableStride, countStride, numRows, numHeads, numKvHeads, headDim, blockSize, kvType, scale, cap, sinks, unit)",
    "gatherRows(out, x, rows, numRows, width)",
    "spreadColumns(out, x, columns, numRows, width, outWidth)",
    "sample(logits, numRows, vocabSize, params, history, biasIds, biasValues, bannedIds, masks, outIds, outLogprobs, outRanks, topIds, topLogprobs, topStride)",
    "pack(out, byteOffset, weight)",
    "routeExperts(experts, weights, logits, numRows, numExperts, numChosen, normalises, scoring, scale, numGroups, numUsedGroups, bias, factors)",
    "groupExperts(groups, places, experts, numRows, numExperts, numChosen)",
    "dispatchRows(out, x, places, numRows, numChosen, width, format)",
    "expertGatedLinear(out, scratch, gateX, gateWeights, upX, upWeights, gateBiases, upBiases, groups, numSlots, kind)",
    "expertLinear(out, x, weights, biases, groups, numSlots)",
    "combineExperts(out, x, places, weights, numRows, numChosen, width, bias)",
    "causalConv(out, x, kernel, bias, state, sources, targets, copies, numRows, numSlots, width, taps, isActivated)",
    "deltaRule(out, x, alpha, beta, decay, bias, state, sources, targets, copies, numRows, numSlots, numKeyHeads, numValueHeads, keyDim, valueDim, isTiled, eps)",
    "selectiveScan(out, x, steps, decay, bias, skip, state, sources, targets, copies, numRows, numSlots, numHeads, numGroups, stateDim, valueDim)",
    "gatedNorm(x, gate, gain, numRows, width, numGroups, eps)",
    "applyGate(x, gate, numRows, width, gateWidth, kind)",
    "encodeRows(out, x, importance, factor, numRows, width, type)",
    "roundToScales(out, x, scales, factor, order, numRows, width, group, type)",
    "addSquares(sums, x, numRows, width)",
    "keepLargest(largest, x, numRows, width)",
    "addGram(gram, x, numRows, width)",
    "factorise(gram, width, damping)",
    "copyColumns(out, x, rows, numRows, width, outWidth, to, xWidth, from)",
};
constexpr int kNumOperands[kNumOps] = {5, 6, 7, 5, 6, 4, 6, 5, 6, 4, 10, 6, 16, 20, 20, 5, 6, 15, 3, 13, 6, 7, 11, 6, 8, 13, 18, 16, 7, 6, 7, 9, 4, 4, 4, 3, 9};

// Attention splits the KV range at multiples of this many positions.
constexpr int64_t kAttentionPart = 256;
// Entries of a KV block are stored eight by eight; a block is a whole number of octets.
constexpr int64_t kKvOctet = 8;
// Columns of a recurrent state that lie together, and that one task computes.
constexpr int64_t kStateColumns = 32;

enum class KvType : uint8_t { f16, f32, int8, fp8_e4m3, fp8_e5m2, fp4 };
constexpr const char* kKvTypeNames[] = {"f16", "f32", "int8", "fp8_e4m3", "fp8_e5m2", "fp4"};
enum class Scoring : uint8_t { softmax, sigmoid, sparseMixer };
constexpr const char* kScoringNames[] = {"softmax", "sigmoid", "sparseMixer"};
enum class Activation : uint8_t { silu, geluTanh, gelu, relu, reluSquared, clampedSwiglu };
constexpr const char* kActivationNames[] = {"silu", "geluTanh", "gelu", "relu", "reluSquared", "clampedSwiglu"};
enum class Gate : uint8_t { sigmoid, silu };
constexpr const char* kGateNames[] = {"sigmoid", "silu"};
enum class ActivationFormat : uint8_t { f32, blocks32, blocks256, row16, centred32, bf16, blocks16 };
constexpr const char* kActivationFormatNames[] = {"f32", "blocks32", "blocks256", "row16", "centred32", "bf16", "blocks16"};
enum class BlockType : uint8_t { Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS, MXFP4 };
constexpr const char* kBlockTypeNames[] = {"Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "MXFP4"};
enum class ScaledType : uint8_t { int4, int8, e4m3, e2m1 };
constexpr const char* kScaledTypeNames[] = {"int4", "int8", "e4m3", "e2m1"};

// Columns of a row of sampler parameters.
enum SampleParam {
    kMode = 0,
    kTarget = 1,
    kTemperature = 2,
    kTopK = 3,
    kTopP = 4,
    kMinP = 5,
    kPresencePenalty = 6,
    kFrequencyPenalty = 7,
    kRepetitionPenalty = 8,
    kSeedHigh = 9,
    kSeedLow = 10,
    kPosition = 11,
    kNumTop = 12,
    kHistoryStart = 13,
    kNumPromptTokens = 14,
    kNumOutputTokens = 15,
    kBiasStart = 16,
    kNumBiases = 17,
    kBanStart = 18,
    kNumBanned = 19,
    kMaskStart = 20,
    kTopNSigma = 21,
    kTypicalP = 22,
    kXtcProbability = 23,
    kXtcThreshold = 24,
    kDynatempRange = 25,
    kDynatempExponent = 26,
    kLateBiasStart = 27,
    kNumLateBiases = 28,
};
constexpr const char* kSampleParamNames[] = {
    "params.mode",
    "params.target",
    "params.temperature",
    "params.topK",
    "params.topP",
    "params.minP",
    "params.presencePenalty",
    "params.frequencyPenalty",
    "params.repetitionPenalty",
    "params.seedHigh",
    "params.seedLow",
    "params.position",
    "params.numTop",
    "params.historyStart",
    "params.numPromptTokens",
    "params.numOutputTokens",
    "params.biasStart",
    "params.numBiases",
    "params.banStart",
    "params.numBanned",
    "params.maskStart",
    "params.topNSigma",
    "params.typicalP",
    "params.xtcProbability",
    "params.xtcThreshold",
    "params.dynatempRange",
    "params.dynatempExponent",
    "params.lateBiasStart",
    "params.numLateBiases",
};
constexpr int64_t kSampleParams = 32;

// The operands of each operation.
namespace ops {

struct embed {
  static constexpr OpCode code = OpCode::embed;
  static constexpr operand::Buffer<embed, float> out{{0, "out"}};
  static constexpr operand::Weight<embed> weight{{1, "weight"}};
  static constexpr operand::Buffer<embed, const int32_t> ids{{2, "ids"}};
  static constexpr operand::Integer<embed> numRows{{3, "numRows"}};
  static constexpr operand::Number<embed> scale{{4, "scale"}};
};

struct rmsNorm {
  static constexpr OpCode code = OpCode::rmsNorm;
  static constexpr operand::Buffer<rmsNorm, float> out{{0, "out"}};
  static constexpr operand::Buffer<rmsNorm, const float> x{{1, "x"}};
  static constexpr operand::Buffer<rmsNorm, const float> gain{{2, "gain"}};
  static constexpr operand::Integer<rmsNorm> numRows{{3, "numRows"}};
  static constexpr operand::Integer<rmsNorm> width{{4, "width"}};
  static constexpr operand::Number<rmsNorm> eps{{5, "eps"}};
};

struct layerNorm {
  static constexpr OpCode code = OpCode::layerNorm;
  static constexpr operand::Buffer<layerNorm, float> out{{0, "out"}};
  static constexpr operand::Buffer<layerNorm, const float> x{{1, "x"}};
  static constexpr operand::Buffer<layerNorm, const float> gain{{2, "gain"}};
  static constexpr operand::OptionalBuffer<layerNorm, const float> bias{{3, "bias"}};
  static constexpr operand::Integer<layerNorm> numRows{{4, "numRows"}};
  static constexpr operand::Integer<layerNorm> width{{5, "width"}};
  static constexpr operand::Number<layerNorm> eps{{6, "eps"}};
};

struct quantize {
  static constexpr OpCode code = OpCode::quantize;
  static constexpr operand::Buffer<quantize, uint8_t> out{{0, "out"}};
  static constexpr operand::Buffer<quantize, const float> x{{1, "x"}};
  static constexpr operand::Integer<quantize> numRows{{2, "numRows"}};
  static constexpr operand::Integer<quantize> width{{3, "width"}};
  static constexpr operand::Code<quantize, ActivationFormat> format{{4, "format"}, 1, 6};
};

struct linear {
  static constexpr OpCode code = OpCode::linear;
  static constexpr operand::Buffer<linear, float> out{{0, "out"}};
  static constexpr operand::Activations<linear> x{{1, "x"}};
  static constexpr operand::Weight<linear> weight{{2, "weight"}};
  static constexpr operand::OptionalBuffer<linear, const float> bias{{3, "bias"}};
  static constexpr operand::Integer<linear> numRows{{4, "numRows"}};
  static constexpr operand::Flag<linear> accumulate{{5, "accumulate"}};
};

struct add {
  static constexpr OpCode code = OpCode::add;
  static constexpr operand::Buffer<add, float> out{{0, "out"}};
  static constexpr operand::Buffer<add, const float> x{{1, "x"}};
  static constexpr operand::Integer<add> numRows{{2, "numRows"}};
  static constexpr operand::Integer<add> width{{3, "width"}};
};

struct multiply {
  static constexpr OpCode code = OpCode::multiply;
  static constexpr operand::Buffer<multiply, float> out{{0, "out"}};
  static constexpr operand::Buffer<multiply, const float> x{{1, "x"}};
  static constexpr operand::Integer<multiply> numRows{{2, "numRows"}};
  static constexpr operand::Integer<multiply> width{{3, "width"}};
  static constexpr operand::Integer<multiply> xWidth{{4, "xWidth"}};
  static constexpr operand::Integer<multiply> first{{5, "first"}};
};

struct scaleAndCap {
  static constexpr OpCode code = OpCode::scaleAndCap;
  static constexpr operand::Buffer<scaleAndCap, float> x{{0, "x"}};
  static constexpr operand::Integer<scaleAndCap> numRows{{1, "numRows"}};
  static constexpr operand::Integer<scaleAndCap> width{{2, "width"}};
  static constexpr operand::Number<scaleAndCap> scale{{3, "scale"}};
  static constexpr operand::Number<scaleAndCap> cap{{4, "cap"}};
};

struct scaleByPosition {
  static constexpr OpCode code = OpCode::scaleByPosition;
  static constexpr operand::Buffer<scaleByPosition, float> x{{0, "x"}};
  static constexpr operand::Buffer<scaleByPosition, const int32_t> positions{{1, "positions"}};
  static constexpr operand::Integer<scaleByPosition> numRows{{2, "numRows"}};
  static constexpr operand::Integer<scaleByPosition> width{{3, "width"}};
  static constexpr operand::Number<scaleByPosition> beta{{4, "beta"}};
  static constexpr operand::Integer<scaleByPosition> length{{5, "length"}};
};

struct activate {
  static constexpr OpCode code = OpCode::activate;
  static constexpr operand::Buffer<activate, float> x{{0, "x"}};
  static constexpr operand::Integer<activate> numRows{{1, "numRows"}};
  static constexpr operand::Integer<activate> width{{2, "width"}};
  static constexpr operand::Code<activate, Activation> kind{{3, "kind"}, 0, 4};
};

struct gatedLinear {
  static constexpr OpCode code = OpCode::gatedLinear;
  static constexpr operand::Buffer<gatedLinear, float> out{{0, "out"}};
  static constexpr operand::Buffer<gatedLinear, float> scratch{{1, "scratch"}};
  static constexpr operand::Activations<gatedLinear> gateX{{2, "gateX"}};
  static constexpr operand::Weight<gatedLinear> gateWeight{{3, "gateWeight"}};
  static constexpr operand::OptionalBuffer<gatedLinear, const float> gateBias{{4, "gateBias"}};
  static constexpr operand::Activations<gatedLinear> upX{{5, "upX"}};
  static constexpr operand::Weight<gatedLinear> upWeight{{6, "upWeight"}};
  static constexpr operand::OptionalBuffer<gatedLinear, const float> upBias{{7, "upBias"}};
  static constexpr operand::Integer<gatedLinear> numRows{{8, "numRows"}};
  static constexpr operand::Code<gatedLinear, Activation> kind{{9, "kind"}, 0, 5};
};

struct ropeTable {
  static constexpr OpCode code = OpCode::ropeTable;
  static constexpr operand::Buffer<ropeTable, float> out{{0, "out"}};
  static constexpr operand::Buffer<ropeTable, const int32_t> positions{{1, "positions"}};
  static constexpr operand::Buffer<ropeTable, const float> invFreq{{2, "invFreq"}};
  static constexpr operand::Integer<ropeTable> numRows{{3, "numRows"}};
  static constexpr operand::Integer<ropeTable> half{{4, "half"}};
  static constexpr operand::Number<ropeTable> magnitude{{5, "magnitude"}};
};

struct ropeAndWriteKv {
  static constexpr OpCode code = OpCode::ropeAndWriteKv;
  static constexpr operand::Buffer<ropeAndWriteKv, float> q{{0, "q"}};
  static constexpr operand::Buffer<ropeAndWriteKv, float> k{{1, "k"}};
  static constexpr operand::Buffer<ropeAndWriteKv, const float> v{{2, "v"}};
  static constexpr operand::Buffer<ropeAndWriteKv, const float> table{{3, "table"}};
  static constexpr operand::KvCache<ropeAndWriteKv, uint8_t> keyCache{{4, "keyCache"}};
  static constexpr operand::KvCache<ropeAndWriteKv, uint8_t> valueCache{{5, "valueCache"}};
  static constexpr operand::Buffer<ropeAndWriteKv, const int32_t> slots{{6, "slots"}};
  static constexpr operand::Integer<ropeAndWriteKv> numRows{{7, "numRows"}};
  static constexpr operand::Integer<ropeAndWriteKv> numHeads{{8, "numHeads"}};
  static constexpr operand::Integer<ropeAndWriteKv> numKvHeads{{9, "numKvHeads"}};
  static constexpr operand::Integer<ropeAndWriteKv> headDim{{10, "headDim"}};
  static constexpr operand::Integer<ropeAndWriteKv> blockSize{{11, "blockSize"}};
  static constexpr operand::Code<ropeAndWriteKv, KvType> kvType{{12, "kvType"}, 0, 5};
  static constexpr operand::Integer<ropeAndWriteKv> half{{13, "half"}};
  static constexpr operand::Flag<ropeAndWriteKv> isNeox{{14, "isNeox"}};
  static constexpr operand::Integer<ropeAndWriteKv> latentDim{{15, "latentDim"}};
};

struct pagedAttention {
  static constexpr OpCode code = OpCode::pagedAttention;
  static constexpr operand::Buffer<pagedAttention, float> out{{0, "out"}};
  static constexpr operand::Buffer<pagedAttention, const float> q{{1, "q"}};
  static constexpr operand::KvCache<pagedAttention, const uint8_t> keyCache{{2, "keyCache"}};
  static constexpr operand::KvCache<pagedAttention, const uint8_t> valueCache{{3, "valueCache"}};
  static constexpr operand::Buffer<pagedAttention, const int32_t> kvLengths{{4, "kvLengths"}};
  static constexpr operand::Buffer<pagedAttention, const int32_t> sequenceIndex{{5, "sequenceIndex"}};
  static constexpr operand::Buffer<pagedAttention, const int32_t> blockTables{{6, "blockTables"}};
  static constexpr operand::Integer<pagedAttention> tableStride{{7, "tableStride"}};
  static constexpr operand::Integer<pagedAttention> numRows{{8, "numRows"}};
  static constexpr operand::Integer<pagedAttention> numHeads{{9, "numHeads"}};
  static constexpr operand::Integer<pagedAttention> numKvHeads{{10, "numKvHeads"}};
  static constexpr operand::Integer<pagedAttention> headDim{{11, "headDim"}};
  static constexpr operand::Integer<pagedAttention> blockSize{{12, "blockSize"}};
  static constexpr operand::Code<pagedAttention, KvType> kvType{{13, "kvType"}, 0, 5};
  static constexpr operand::Number<pagedAttention> scale{{14, "scale"}};
  static constexpr operand::Integer<pagedAttention> window{{15, "window"}};
  static constexpr operand::Number<pagedAttention> cap{{16, "cap"}};
  static constexpr operand::OptionalBuffer<pagedAttention, const float> sinks{{17, "sinks"}};
  static constexpr operand::OptionalBuffer<pagedAttention, const int32_t> begins{{18, "begins"}};
  static constexpr operand::Integer<pagedAttention> latentDim{{19, "latentDim"}};
};

struct countAttention {
  static constexpr OpCode code = OpCode::countAttention;
  static constexpr operand::Buffer<countAttention, int32_t> counts{{0, "counts"}};
  static constexpr operand::Buffer<countAttention, int32_t> entropies{{1, "entropies"}};
  static constexpr operand::Buffer<countAttention, const float> q{{2, "q"}};
  static constexpr operand::KvCache<countAttention, const uint8_t> keyCache{{3, "keyCache"}};
  static constexpr operand::Buffer<countAttention, const int32_t> rows{{4, "rows"}};
  static constexpr operand::Buffer<countAttention, const int32_t> kvLengths{{5, "kvLengths"}};
  static constexpr operand::Buffer<countAttention, const int32_t> sequenceIndex{{6, "sequenceIndex"}};
  static constexpr operand::Buffer<countAttention, const int32_t> blockTables{{7, "blockTables"}};
  static constexpr operand::Integer<countAttention> tableStride{{8, "tableStride"}};
  static constexpr operand::Integer<countAttention> countStride{{9, "countStride"}};
  static constexpr operand::Integer<countAttention> numRows{{10, "numRows"}};
  static constexpr operand::Integer<countAttention> numHeads{{11, "numHeads"}};
  static constexpr operand::Integer<countAttention> numKvHeads{{12, "numKvHeads"}};
  static constexpr operand::Integer<countAttention> headDim{{13, "headDim"}};
  static constexpr operand::Integer<countAttention> blockSize{{14, "blockSize"}};
  static constexpr operand::Code<countAttention, KvType> kvType{{15, "kvType"}, 0, 5};
  static constexpr operand::Number<countAttention> scale{{16, "scale"}};
  static constexpr operand::Number<countAttention> cap{{17, "cap"}};
  static constexpr operand::OptionalBuffer<countAttention, const float> sinks{{18, "sinks"}};
  static constexpr operand::Number<countAttention> unit{{19, "unit"}};
};

struct gatherRows {
  static constexpr OpCode code = OpCode::gatherRows;
  static constexpr operand::Buffer<gatherRows, float> out{{0, "out"}};
  static constexpr operand::Buffer<gatherRows, const float> x{{1, "x"}};
  static constexpr operand::Buffer<gatherRows, const int32_t> rows{{2, "rows"}};
  static constexpr operand::Integer<gatherRows> numRows{{3, "numRows"}};
  static constexpr operand::Integer<gatherRows> width{{4, "width"}};
};

struct spreadColumns {
  static constexpr OpCode code = OpCode::spreadColumns;
  static constexpr operand::Buffer<spreadColumns, float> out{{0, "out"}};
  static constexpr operand::Buffer<spreadColumns, const float> x{{1, "x"}};
  static constexpr operand::Buffer<spreadColumns, const int32_t> columns{{2, "columns"}};
  static constexpr operand::Integer<spreadColumns> numRows{{3, "numRows"}};
  static constexpr operand::Integer<spreadColumns> width{{4, "width"}};
  static constexpr operand::Integer<spreadColumns> outWidth{{5, "outWidth"}};
};

struct sample {
  static constexpr OpCode code = OpCode::sample;
  static constexpr operand::Buffer<sample, const float> logits{{0, "logits"}};
  static constexpr operand::Integer<sample> numRows{{1, "numRows"}};
  static constexpr operand::Integer<sample> vocabSize{{2, "vocabSize"}};
  static constexpr operand::Buffer<sample, const double> params{{3, "params"}};
  static constexpr operand::Buffer<sample, const int32_t> history{{4, "history"}};
  static constexpr operand::Buffer<sample, const int32_t> biasIds{{5, "biasIds"}};
  static constexpr operand::Buffer<sample, const float> biasValues{{6, "biasValues"}};
  static constexpr operand::Buffer<sample, const int32_t> bannedIds{{7, "bannedIds"}};
  static constexpr operand::Buffer<sample, const int32_t> masks{{8, "masks"}};
  static constexpr operand::Buffer<sample, int32_t> outIds{{9, "outIds"}};
  static constexpr operand::Buffer<sample, float> outLogprobs{{10, "outLogprobs"}};
  static constexpr operand::Buffer<sample, int32_t> outRanks{{11, "outRanks"}};
  static constexpr operand::Buffer<sample, int32_t> topIds{{12, "topIds"}};
  static constexpr operand::Buffer<sample, float> topLogprobs{{13, "topLogprobs"}};
  static constexpr operand::Integer<sample> topStride{{14, "topStride"}};
};

struct pack {
  static constexpr OpCode code = OpCode::pack;
  static constexpr operand::Buffer<pack, uint8_t> out{{0, "out"}};
  static constexpr operand::Integer<pack> byteOffset{{1, "byteOffset"}};
  static constexpr operand::Weight<pack> weight{{2, "weight"}};
};

struct routeExperts {
  static constexpr OpCode code = OpCode::routeExperts;
  static constexpr operand::Buffer<routeExperts, int32_t> experts{{0, "experts"}};
  static constexpr operand::Buffer<routeExperts, float> weights{{1, "weights"}};
  static constexpr operand::Buffer<routeExperts, const float> logits{{2, "logits"}};
  static constexpr operand::Integer<routeExperts> numRows{{3, "numRows"}};
  static constexpr operand::Integer<routeExperts> numExperts{{4, "numExperts"}};
  static constexpr operand::Integer<routeExperts> numChosen{{5, "numChosen"}};
  static constexpr operand::Flag<routeExperts> normalises{{6, "normalises"}};
  static constexpr operand::Code<routeExperts, Scoring> scoring{{7, "scoring"}, 0, 2};
  static constexpr operand::Number<routeExperts> scale{{8, "scale"}};
  static constexpr operand::Integer<routeExperts> numGroups{{9, "numGroups"}};
  static constexpr operand::Integer<routeExperts> numUsedGroups{{10, "numUsedGroups"}};
  static constexpr operand::OptionalBuffer<routeExperts, const float> bias{{11, "bias"}};
  static constexpr operand::OptionalBuffer<routeExperts, const float> factors{{12, "factors"}};
};

struct groupExperts {
  static constexpr OpCode code = OpCode::groupExperts;
  static constexpr operand::Buffer<groupExperts, int32_t> groups{{0, "groups"}};
  static constexpr operand::Buffer<groupExperts, int32_t> places{{1, "places"}};
  static constexpr operand::Buffer<groupExperts, const int32_t> experts{{2, "experts"}};
  static constexpr operand::Integer<groupExperts> numRows{{3, "numRows"}};
  static constexpr operand::Integer<groupExperts> numExperts{{4, "numExperts"}};
  static constexpr operand::Integer<groupExperts> numChosen{{5, "numChosen"}};
};

struct dispatchRows {
  static constexpr OpCode code = OpCode::dispatchRows;
  static constexpr operand::Buffer<dispatchRows, uint8_t> out{{0, "out"}};
  static constexpr operand::Buffer<dispatchRows, const float> x{{1, "x"}};
  static constexpr operand::Buffer<dispatchRows, const int32_t> places{{2, "places"}};
  static constexpr operand::Integer<dispatchRows> numRows{{3, "numRows"}};
  static constexpr operand::Integer<dispatchRows> numChosen{{4, "numChosen"}};
  static constexpr operand::Integer<dispatchRows> width{{5, "width"}};
  static constexpr operand::Code<dispatchRows, ActivationFormat> format{{6, "format"}, 0, 6};
};

struct expertGatedLinear {
  static constexpr OpCode code = OpCode::expertGatedLinear;
  static constexpr operand::Buffer<expertGatedLinear, float> out{{0, "out"}};
  static constexpr operand::Buffer<expertGatedLinear, float> scratch{{1, "scratch"}};
  static constexpr operand::Activations<expertGatedLinear> gateX{{2, "gateX"}};
  static constexpr operand::Weights<expertGatedLinear> gateWeights{{3, "gateWeights"}};
  static constexpr operand::Activations<expertGatedLinear> upX{{4, "upX"}};
  static constexpr operand::Weights<expertGatedLinear> upWeights{{5, "upWeights"}};
  static constexpr operand::OptionalBuffer<expertGatedLinear, const float> gateBiases{{6, "gateBiases"}};
  static constexpr operand::OptionalBuffer<expertGatedLinear, const float> upBiases{{7, "upBiases"}};
  static constexpr operand::Buffer<expertGatedLinear, const int32_t> groups{{8, "groups"}};
  static constexpr operand::Integer<expertGatedLinear> numSlots{{9, "numSlots"}};
  static constexpr operand::Code<expertGatedLinear, Activation> kind{{10, "kind"}, 0, 5};
};

struct expertLinear {
  static constexpr OpCode code = OpCode::expertLinear;
  static constexpr operand::Buffer<expertLinear, float> out{{0, "out"}};
  static constexpr operand::Activations<expertLinear> x{{1, "x"}};
  static constexpr operand::Weights<expertLinear> weights{{2, "weights"}};
  static constexpr operand::OptionalBuffer<expertLinear, const float> biases{{3, "biases"}};
  static constexpr operand::Buffer<expertLinear, const int32_t> groups{{4, "groups"}};
  static constexpr operand::Integer<expertLinear> numSlots{{5, "numSlots"}};
};

struct combineExperts {
  static constexpr OpCode code = OpCode::combineExperts;
  static constexpr operand::Buffer<combineExperts, float> out{{0, "out"}};
  static constexpr operand::Buffer<combineExperts, const float> x{{1, "x"}};
  static constexpr operand::Buffer<combineExperts, const int32_t> places{{2, "places"}};
  static constexpr operand::Buffer<combineExperts, const float> weights{{3, "weights"}};
  static constexpr operand::Integer<combineExperts> numRows{{4, "numRows"}};
  static constexpr operand::Integer<combineExperts> numChosen{{5, "numChosen"}};
  static constexpr operand::Integer<combineExperts> width{{6, "width"}};
  static constexpr operand::OptionalBuffer<combineExperts, const float> bias{{7, "bias"}};
};

struct causalConv {
  static constexpr OpCode code = OpCode::causalConv;
  static constexpr operand::Buffer<causalConv, float> out{{0, "out"}};
  static constexpr operand::Buffer<causalConv, const float> x{{1, "x"}};
  static constexpr operand::Buffer<causalConv, const float> kernel{{2, "kernel"}};
  static constexpr operand::OptionalBuffer<causalConv, const float> bias{{3, "bias"}};
  static constexpr operand::Buffer<causalConv, float> state{{4, "state"}};
  static constexpr operand::Buffer<causalConv, const int32_t> sources{{5, "sources"}};
  static constexpr operand::Buffer<causalConv, const int32_t> targets{{6, "targets"}};
  static constexpr operand::OptionalBuffer<causalConv, const int32_t> copies{{7, "copies"}};
  static constexpr operand::Integer<causalConv> numRows{{8, "numRows"}};
  static constexpr operand::Integer<causalConv> numSlots{{9, "numSlots"}};
  static constexpr operand::Integer<causalConv> width{{10, "width"}};
  static constexpr operand::Integer<causalConv> taps{{11, "taps"}};
  static constexpr operand::Flag<causalConv> isActivated{{12, "isActivated"}};
};

struct deltaRule {
  static constexpr OpCode code = OpCode::deltaRule;
  static constexpr operand::Buffer<deltaRule, float> out{{0, "out"}};
  static constexpr operand::Buffer<deltaRule, const float> x{{1, "x"}};
  static constexpr operand::Buffer<deltaRule, const float> alpha{{2, "alpha"}};
  static constexpr operand::Buffer<deltaRule, const float> beta{{3, "beta"}};
  static constexpr operand::Buffer<deltaRule, const float> decay{{4, "decay"}};
  static constexpr operand::Buffer<deltaRule, const float> bias{{5, "bias"}};
  static constexpr operand::Buffer<deltaRule, float> state{{6, "state"}};
  static constexpr operand::Buffer<deltaRule, const int32_t> sources{{7, "sources"}};
  static constexpr operand::Buffer<deltaRule, const int32_t> targets{{8, "targets"}};
  static constexpr operand::OptionalBuffer<deltaRule, const int32_t> copies{{9, "copies"}};
  static constexpr operand::Integer<deltaRule> numRows{{10, "numRows"}};
  static constexpr operand::Integer<deltaRule> numSlots{{11, "numSlots"}};
  static constexpr operand::Integer<deltaRule> numKeyHeads{{12, "numKeyHeads"}};
  static constexpr operand::Integer<deltaRule> numValueHeads{{13, "numValueHeads"}};
  static constexpr operand::Integer<deltaRule> keyDim{{14, "keyDim"}};
  static constexpr operand::Integer<deltaRule> valueDim{{15, "valueDim"}};
  static constexpr operand::Flag<deltaRule> isTiled{{16, "isTiled"}};
  static constexpr operand::Number<deltaRule> eps{{17, "eps"}};
};

struct selectiveScan {
  static constexpr OpCode code = OpCode::selectiveScan;
  static constexpr operand::Buffer<selectiveScan, float> out{{0, "out"}};
  static constexpr operand::Buffer<selectiveScan, const float> x{{1, "x"}};
  static constexpr operand::Buffer<selectiveScan, const float> steps{{2, "steps"}};
  static constexpr operand::Buffer<selectiveScan, const float> decay{{3, "decay"}};
  static constexpr operand::Buffer<selectiveScan, const float> bias{{4, "bias"}};
  static constexpr operand::Buffer<selectiveScan, const float> skip{{5, "skip"}};
  static constexpr operand::Buffer<selectiveScan, float> state{{6, "state"}};
  static constexpr operand::Buffer<selectiveScan, const int32_t> sources{{7, "sources"}};
  static constexpr operand::Buffer<selectiveScan, const int32_t> targets{{8, "targets"}};
  static constexpr operand::OptionalBuffer<selectiveScan, const int32_t> copies{{9, "copies"}};
  static constexpr operand::Integer<selectiveScan> numRows{{10, "numRows"}};
  static constexpr operand::Integer<selectiveScan> numSlots{{11, "numSlots"}};
  static constexpr operand::Integer<selectiveScan> numHeads{{12, "numHeads"}};
  static constexpr operand::Integer<selectiveScan> numGroups{{13, "numGroups"}};
  static constexpr operand::Integer<selectiveScan> stateDim{{14, "stateDim"}};
  static constexpr operand::Integer<selectiveScan> valueDim{{15, "valueDim"}};
};

struct gatedNorm {
  static constexpr OpCode code = OpCode::gatedNorm;
  static constexpr operand::Buffer<gatedNorm, float> x{{0, "x"}};
  static constexpr operand::Buffer<gatedNorm, const float> gate{{1, "gate"}};
  static constexpr operand::Buffer<gatedNorm, const float> gain{{2, "gain"}};
  static constexpr operand::Integer<gatedNorm> numRows{{3, "numRows"}};
  static constexpr operand::Integer<gatedNorm> width{{4, "width"}};
  static constexpr operand::Integer<gatedNorm> numGroups{{5, "numGroups"}};
  static constexpr operand::Number<gatedNorm> eps{{6, "eps"}};
};

struct applyGate {
  static constexpr OpCode code = OpCode::applyGate;
  static constexpr operand::Buffer<applyGate, float> x{{0, "x"}};
  static constexpr operand::Buffer<applyGate, const float> gate{{1, "gate"}};
  static constexpr operand::Integer<applyGate> numRows{{2, "numRows"}};
  static constexpr operand::Integer<applyGate> width{{3, "width"}};
  static constexpr operand::Integer<applyGate> gateWidth{{4, "gateWidth"}};
  static constexpr operand::Code<applyGate, Gate> kind{{5, "kind"}, 0, 1};
};

struct encodeRows {
  static constexpr OpCode code = OpCode::encodeRows;
  static constexpr operand::Buffer<encodeRows, uint8_t> out{{0, "out"}};
  static constexpr operand::Buffer<encodeRows, const float> x{{1, "x"}};
  static constexpr operand::OptionalBuffer<encodeRows, const float> importance{{2, "importance"}};
  static constexpr operand::OptionalBuffer<encodeRows, const float> factor{{3, "factor"}};
  static constexpr operand::Integer<encodeRows> numRows{{4, "numRows"}};
  static constexpr operand::Integer<encodeRows> width{{5, "width"}};
  static constexpr operand::Code<encodeRows, BlockType> type{{6, "type"}, 0, 12};
};

struct roundToScales {
  static constexpr OpCode code = OpCode::roundToScales;
  static constexpr operand::Buffer<roundToScales, uint8_t> out{{0, "out"}};
  static constexpr operand::Buffer<roundToScales, const float> x{{1, "x"}};
  static constexpr operand::Buffer<roundToScales, const float> scales{{2, "scales"}};
  static constexpr operand::OptionalBuffer<roundToScales, const float> factor{{3, "factor"}};
  static constexpr operand::OptionalBuffer<roundToScales, const int32_t> order{{4, "order"}};
  static constexpr operand::Integer<roundToScales> numRows{{5, "numRows"}};
  static constexpr operand::Integer<roundToScales> width{{6, "width"}};
  static constexpr operand::Integer<roundToScales> group{{7, "group"}};
  static constexpr operand::Code<roundToScales, ScaledType> type{{8, "type"}, 0, 3};
};

struct addSquares {
  static constexpr OpCode code = OpCode::addSquares;
  static constexpr operand::Buffer<addSquares, double> sums{{0, "sums"}};
  static constexpr operand::Buffer<addSquares, const float> x{{1, "x"}};
  static constexpr operand::Integer<addSquares> numRows{{2, "numRows"}};
  static constexpr operand::Integer<addSquares> width{{3, "width"}};
};

struct keepLargest {
  static constexpr OpCode code = OpCode::keepLargest;
  static constexpr operand::Buffer<keepLargest, float> largest{{0, "largest"}};
  static constexpr operand::Buffer<keepLargest, const float> x{{1, "x"}};
  static constexpr operand::Integer<keepLargest> numRows{{2, "numRows"}};
  static constexpr operand::Integer<keepLargest> width{{3, "width"}};
};

struct addGram {
  static constexpr OpCode code = OpCode::addGram;
  static constexpr operand::Buffer<addGram, float> gram{{0, "gram"}};
  static constexpr operand::Buffer<addGram, const float> x{{1, "x"}};
  static constexpr operand::Integer<addGram> numRows{{2, "numRows"}};
  static constexpr operand::Integer<addGram> width{{3, "width"}};
};

struct factorise {
  static constexpr OpCode code = OpCode::factorise;
  static constexpr operand::Buffer<factorise, float> gram{{0, "gram"}};
  static constexpr operand::Integer<factorise> width{{1, "width"}};
  static constexpr operand::Number<factorise> damping{{2, "damping"}};
};

struct copyColumns {
  static constexpr OpCode code = OpCode::copyColumns;
  static constexpr operand::Buffer<copyColumns, float> out{{0, "out"}};
  static constexpr operand::Buffer<copyColumns, const float> x{{1, "x"}};
  static constexpr operand::OptionalBuffer<copyColumns, const int32_t> rows{{2, "rows"}};
  static constexpr operand::Integer<copyColumns> numRows{{3, "numRows"}};
  static constexpr operand::Integer<copyColumns> width{{4, "width"}};
  static constexpr operand::Integer<copyColumns> outWidth{{5, "outWidth"}};
  static constexpr operand::Integer<copyColumns> to{{6, "to"}};
  static constexpr operand::Integer<copyColumns> xWidth{{7, "xWidth"}};
  static constexpr operand::Integer<copyColumns> from{{8, "from"}};
};

}  // namespace ops
}  // namespace millrace
