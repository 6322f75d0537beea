/** Choosing a token, step by step as ops.ts lists the steps, with a full sort wherever an order is needed. */
import { type OperandName, SAMPLE_PARAM, SAMPLE_PARAMS } from "../../src/backend/ops.js";
import type { Operands } from "./operands.js";
import type { Work } from "./ops.js";

const LOWEST = Number.NEGATIVE_INFINITY;
const NO_TOKEN = -1;

/** One row's parameters, with its slices of the shared arrays. */
export interface SampleRow {
  readonly param: (name: keyof typeof SAMPLE_PARAM) => number;
  readonly promptIds: Int32Array;
  readonly outputIds: Int32Array;
  readonly biasIds: Int32Array;
  readonly biasValues: Float32Array;
  /** Added after the penalties. */
  readonly lateBiasIds: Int32Array;
  readonly lateBiasValues: Float32Array;
  readonly bannedIds: Int32Array;
  /** One bit an id; undefined: all may come. */
  readonly mask: Int32Array | undefined;
}

export function sample(operands: Operands<"sample">): Work {
  const numRows = operands.integer("numRows");
  const vocabSize = operands.integer("vocabSize", 1);
  const topStride = operands.integer("topStride");
  const logits = operands.f32("logits", numRows * vocabSize);
  const outIds = operands.i32("outIds", numRows);
  const outLogprobs = operands.f32("outLogprobs", numRows);
  const outRanks = operands.i32("outRanks", numRows);
  const topIds = operands.i32("topIds", numRows * topStride);
  const topLogprobs = operands.f32("topLogprobs", numRows * topStride);
  const rows = readRows(operands, numRows, vocabSize, topStride);
  return () => {
    rows.forEach((row, r) => {
      const raw = Float64Array.from(logits.subarray(r * vocabSize, (r + 1) * vocabSize), nanToLowest);
      const chosen = row.param("mode") === 1 ? row.param("target") : chooseToken(raw, row);
      outIds[r] = chosen;
      const numTop = row.param("numTop");
      if (numTop < 0) return;
      const logprob = logprobsOf(raw);
      const order = inOrder(raw);
      if (chosen !== NO_TOKEN) {
        outLogprobs[r] = logprob(chosen);
        outRanks[r] = order.indexOf(chosen) + 1;
      }
      order.slice(0, numTop).forEach((id, i) => {
        topIds[r * topStride + i] = id;
        topLogprobs[r * topStride + i] = logprob(id);
      });
    });
  };
}

function readRows(
  operands: Operands<"sample">,
  numRows: number,
  vocabSize: number,
  topStride: number,
): readonly SampleRow[] {
  const params = operands.f64("params", numRows * SAMPLE_PARAMS);
  const history = operands.allI32("history");
  const biasIds = operands.allI32("biasIds");
  const biasValues = operands.allF32("biasValues");
  const bannedIds = operands.allI32("bannedIds");
  const masks = operands.allI32("masks");
  const numMaskWords = Math.ceil(vocabSize / 32);
  return Array.from({ length: numRows }, (_, r) => {
    const param = (name: keyof typeof SAMPLE_PARAM): number => params[r * SAMPLE_PARAMS + SAMPLE_PARAM[name]]!;
    checkParams(operands, param, vocabSize, topStride);
    const ids = (operand: OperandName<"sample", "i32">, all: Int32Array, start: number, count: number): Int32Array => {
      if (start + count > all.length) operands.refuse(operand, `at least ${start + count} values long`, all.length);
      const slice = all.subarray(start, start + count);
      const stray = slice.find((id) => id < 0 || id >= vocabSize);
      if (stray !== undefined) operands.refuse(operand, `ids in [0, ${vocabSize})`, stray);
      return slice;
    };
    const maskStart = param("maskStart");
    if (maskStart >= 0 && maskStart + numMaskWords > masks.length) {
      operands.refuse("masks", `at least ${maskStart + numMaskWords} values long`, masks.length);
    }
    const biases = (start: number, count: number): readonly [Int32Array, Float32Array] => {
      if (count > 0 && start + count > biasValues.length) {
        operands.refuse("biasValues", `at least ${start + count} values`, biasValues.length);
      }
      return [ids("biasIds", biasIds, start, count), biasValues.subarray(start, start + count)];
    };
    const early = biases(param("biasStart"), param("numBiases"));
    const late = biases(param("lateBiasStart"), param("numLateBiases"));
    const numPromptTokens = param("numPromptTokens");
    const tokens = ids("history", history, param("historyStart"), numPromptTokens + param("numOutputTokens"));
    return {
      param,
      promptIds: tokens.subarray(0, numPromptTokens),
      outputIds: tokens.subarray(numPromptTokens),
      biasIds: early[0],
      biasValues: early[1],
      lateBiasIds: late[0],
      lateBiasValues: late[1],
      bannedIds: ids("bannedIds", bannedIds, param("banStart"), param("numBanned")),
      mask: maskStart < 0 ? undefined : masks.subarray(maskStart, maskStart + numMaskWords),
    };
  });
}

const COUNTS = [
  "topK",
  "historyStart",
  "numPromptTokens",
  "numOutputTokens",
  "biasStart",
  "numBiases",
  "banStart",
  "numBanned",
  "lateBiasStart",
  "numLateBiases",
] as const;

/** Beyond this a parameter is a mistake, and f32 cannot hold it. */
const MAX_NUMBER = 3.4e38;

const NUMBER_RANGES = [
  ["temperature", 0, MAX_NUMBER],
  ["topP", 0, MAX_NUMBER],
  ["minP", 0, 1],
  ["presencePenalty", -MAX_NUMBER, MAX_NUMBER],
  ["frequencyPenalty", -MAX_NUMBER, MAX_NUMBER],
  ["repetitionPenalty", 1e-30, MAX_NUMBER],
  ["topNSigma", 0, MAX_NUMBER],
  ["typicalP", 0, MAX_NUMBER],
  ["xtcProbability", 0, 1],
  ["xtcThreshold", 0, 1],
  ["dynatempRange", 0, MAX_NUMBER],
  ["dynatempExponent", 0, MAX_NUMBER],
] as const;

function checkParams(
  operands: Operands<"sample">,
  param: (name: keyof typeof SAMPLE_PARAM) => number,
  vocabSize: number,
  topStride: number,
): void {
  const within = (name: keyof typeof SAMPLE_PARAM, min: number, max: number): void => {
    const value = param(name);
    if (!Number.isInteger(value) || value < min || value > max) {
      operands.refuse(`params.${name}`, `an integer in [${min}, ${max}]`, value);
    }
  };
  within("mode", 0, 1);
  if (param("mode") === 1) within("target", 0, vocabSize - 1);
  within("numTop", -1, topStride);
  within("maskStart", -1, 2 ** 31 - 1);
  for (const name of COUNTS) within(name, 0, 2 ** 31 - 1);
  within("seedHigh", 0, 2 ** 32 - 1);
  within("seedLow", 0, 2 ** 32 - 1);
  within("position", 0, Number.MAX_SAFE_INTEGER);
  for (const [name, min, max] of NUMBER_RANGES) {
    const value = param(name);
    if (!(value >= min && value <= max)) operands.refuse(`params.${name}`, `in [${min}, ${max}]`, value);
  }
}

function nanToLowest(logit: number): number {
  return Number.isNaN(logit) ? LOWEST : logit;
}

/** Log-softmax; the normaliser is summed in id order. */
export function logprobsOf(logits: Float64Array): (id: number) => number {
  const max = highest(logits);
  const logSum = Math.log(logits.reduce((sum, logit) => sum + Math.exp(below(logit, max)), 0));
  return (id) => (logits[id] === LOWEST ? LOWEST : below(logits[id]!, max) - logSum);
}

function highest(logits: Float64Array): number {
  return logits.reduce((a, b) => Math.max(a, b), LOWEST);
}

/** logit − max, where two equal infinities are 0 apart. */
function below(logit: number, max: number): number {
  return logit === max ? 0 : logit - max;
}

/** Ids by logit descending, then id ascending: the total order of every tie in the house. */
function inOrder(logits: Float64Array): number[] {
  return [...logits.keys()].sort((a, b) => {
    if (logits[a] === logits[b]) return a - b;
    return logits[a]! > logits[b]! ? -1 : 1;
  });
}

/** Below it the likeliest token is taken. */
const GREEDY = 1e-5;

/** The token that a row chooses of its logits; -1: none may come. */
export function chooseToken(raw: Float64Array, row: SampleRow): number {
  const adjusted = adjustLogits(raw, row);
  const mostLikely = adjusted.indexOf(highest(adjusted));
  if (adjusted[mostLikely] === LOWEST) return NO_TOKEN;
  if (adjusted[mostLikely] === Number.POSITIVE_INFINITY) return mostLikely;
  const kept = keptTokens(adjusted, row);
  const temperature = temperatureOf(adjusted, kept, row);
  if (temperature < GREEDY) return kept[0]!;
  const noise = (id: number): number => gumbel(row.param("seedHigh"), row.param("seedLow"), row.param("position"), id);
  const noisy = kept.map((id) => ({ id, score: adjusted[id]! / temperature + noise(id) }));
  return noisy.reduce((best, one) =>
    one.score > best.score || (one.score === best.score && one.id < best.id) ? one : best,
  ).id;
}

/** The probabilities of the tokens that a row may choose; 0 for all others. */
export function sampledProbabilities(raw: Float64Array, row: SampleRow): Float64Array {
  const adjusted = adjustLogits(raw, row);
  const kept = keptTokens(adjusted, row);
  const temperature = temperatureOf(adjusted, kept, row);
  const weights = kept.map((id) => Math.exp((adjusted[id]! - adjusted[kept[0]!]!) / temperature));
  const total = weights.reduce((a, b) => a + b, 0);
  const probabilities = new Float64Array(raw.length);
  kept.forEach((id, i) => {
    probabilities[id] = weights[i]! / total;
  });
  return probabilities;
}

/** The tokens that all samplers leave, likeliest first. */
function keptTokens(adjusted: Float64Array, row: SampleRow): readonly number[] {
  const temperature = row.param("temperature");
  const isReshaped = row.param("typicalP") < 1 || row.param("xtcProbability") > 0 || row.param("dynatempRange") > 0;
  if (temperature === 0 && !isReshaped) return inOrder(adjusted).slice(0, 1);
  const filtered = filterCandidates(adjusted, temperature === 0 ? 1 : temperature, row);
  return withoutTopChoices(adjusted, keepTypical(adjusted, filtered, row.param("typicalP")), row);
}

/** Of tokens in order, at temperature 1. */
function weightsOf(adjusted: Float64Array, ids: readonly number[]): { weights: number[]; total: number } {
  const weights = ids.map((id) => Math.exp(adjusted[id]! - adjusted[ids[0]!]!));
  return { weights, total: weights.reduce((a, b) => a + b, 0) };
}

function entropyOf(adjusted: Float64Array, ids: readonly number[]): number {
  const { weights, total } = weightsOf(adjusted, ids);
  return weights.reduce((sum, weight) => (weight === 0 ? sum : sum - (weight / total) * Math.log(weight / total)), 0);
}

/** Meister et al., arXiv 2202.00666: the tokens whose information is nearest to the entropy. */
function keepTypical(adjusted: Float64Array, ids: readonly number[], p: number): readonly number[] {
  if (p >= 1) return ids;
  const { weights, total } = weightsOf(adjusted, ids);
  // −ln p − H is the depth below the likeliest token, less the mean depth: equal logits have equal distances.
  const depths = ids.map((id) => adjusted[ids[0]!]! - adjusted[id]!);
  const meanDepth = depths.reduce((sum, depth, i) => sum + weights[i]! * depth, 0) / total;
  const typical = ids.map((id, i) => ({ id, i, distance: Math.abs(depths[i]! - meanDepth) }));
  typical.sort((a, b) => a.distance - b.distance || a.i - b.i);
  let reached = 0;
  const last = typical.findIndex(({ i }) => {
    reached += weights[i]!;
    return reached > p * total;
  });
  const kept = new Set(typical.slice(0, last === -1 ? undefined : last + 1).map(({ id }) => id));
  return ids.filter((id) => kept.has(id));
}

/** XTC, as llama.cpp has it: of the tokens that reach the threshold, only the least likely one stays. */
function withoutTopChoices(adjusted: Float64Array, ids: readonly number[], row: SampleRow): readonly number[] {
  const chance = uniform(row.param("seedHigh"), row.param("seedLow"), row.param("position"), -1);
  if (chance > row.param("xtcProbability")) return ids;
  const { weights, total } = weightsOf(adjusted, ids);
  const numAbove = weights.filter((weight) => weight >= row.param("xtcThreshold") * total).length;
  return ids.slice(Math.max(numAbove - 1, 0));
}

/** llama.cpp's dynamic temperature: by the entropy's share of the greatest that so many tokens could have. */
function temperatureOf(adjusted: Float64Array, ids: readonly number[], row: SampleRow): number {
  const temperature = row.param("temperature");
  const range = row.param("dynatempRange");
  if (range === 0 || ids.length === 1) return temperature;
  const lowest = Math.max(0, temperature - range);
  const share = entropyOf(adjusted, ids) / Math.log(ids.length);
  return lowest + (temperature + range - lowest) * Math.max(share, 0) ** row.param("dynatempExponent");
}

function mayCome(mask: Int32Array | undefined, id: number): boolean {
  return mask === undefined || ((mask[id >> 5]! >> (id & 31)) & 1) === 1;
}

/**
 * Mask, biases, bans, then penalties as vLLM defines them: repetition over prompt and output, frequency and presence
 * over the output; late biases.
 */
function adjustLogits(raw: Float64Array, row: SampleRow): Float64Array {
  const logits = raw.map((logit, id) => (mayCome(row.mask, id) ? logit : LOWEST));
  row.biasIds.forEach((id, i) => {
    logits[id] = logits[id]! + row.biasValues[i]!;
  });
  for (const id of row.bannedIds) logits[id] = LOWEST;
  const repetition = row.param("repetitionPenalty");
  for (const id of new Set([...row.promptIds, ...row.outputIds])) {
    logits[id] = logits[id]! > 0 ? logits[id]! / repetition : logits[id]! * repetition;
  }
  const counts = new Map<number, number>();
  for (const id of row.outputIds) counts.set(id, (counts.get(id) ?? 0) + 1);
  for (const [id, count] of counts) {
    logits[id] = logits[id]! - count * row.param("frequencyPenalty") - row.param("presencePenalty");
  }
  row.lateBiasIds.forEach((id, i) => {
    logits[id] = logits[id]! + row.lateBiasValues[i]!;
  });
  return logits.map(nanToLowest);
}

/** The ids that top-n-sigma, min-p, top-k and top-p keep, in order; at least one. */
function filterCandidates(logits: Float64Array, temperature: number, row: SampleRow): readonly number[] {
  const candidates = inOrder(logits);
  const max = logits[candidates[0]!]!;
  const weightOf = (id: number): number => Math.exp(below(logits[id]!, max) / temperature);
  const least = leastOfSigma(logits, row.param("topNSigma"));
  const minP = row.param("minP");
  const topK = row.param("topK");
  const topP = row.param("topP");
  let kept = candidates.filter((id) => logits[id] !== LOWEST && logits[id]! >= least && weightOf(id) >= minP);
  if (kept.length === 0) kept = candidates.slice(0, 1);
  if (topK > 0) kept = kept.slice(0, topK);
  if (topP >= 1) return kept;
  const total = kept.reduce((sum, id) => sum + weightOf(id), 0);
  let cumulative = 0;
  const last = kept.findIndex((id) => {
    cumulative += weightOf(id);
    return cumulative >= topP * total;
  });
  return last === -1 ? kept : kept.slice(0, last + 1);
}

/** n standard deviations of all logits below the highest one. */
function leastOfSigma(logits: Float64Array, n: number): number {
  if (n === 0) return LOWEST;
  const finite = logits.filter((logit) => logit !== LOWEST);
  const mean = finite.reduce((a, b) => a + b, 0) / finite.length;
  const variance = finite.reduce((sum, logit) => sum + (logit - mean) ** 2, 0) / finite.length;
  return highest(logits) - n * Math.sqrt(variance);
}

/** Standard Gumbel noise. */
function gumbel(seedHigh: number, seedLow: number, position: number, id: number): number {
  return -Math.log(-Math.log(uniform(seedHigh, seedLow, position, id)));
}

/** (bits + ½) · 2⁻²⁴ */
function uniform(seedHigh: number, seedLow: number, position: number, id: number): number {
  return (noiseBits(seedHigh, seedLow, position, id) + 0.5) * 2 ** -24;
}

const MASK_64 = (1n << 64n) - 1n;

/** 24 bits of the counter-based hash; the same integers as native/cpu/kernels. */
function noiseBits(seedHigh: number, seedLow: number, position: number, id: number): number {
  const seed = (BigInt(seedHigh) << 32n) | BigInt(seedLow);
  const atPosition = mix64(seed + 0x9e3779b97f4a7c15n * (BigInt(position) + 1n));
  const atId = mix64(atPosition + 0x9e3779b97f4a7c15n * (BigInt(id) + 1n));
  return Number(atId >> 40n);
}

/** The finaliser of splitmix64 (Steele, Lea & Flood 2014). */
function mix64(value: bigint): bigint {
  let z = value & MASK_64;
  z = ((z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n) & MASK_64;
  z = ((z ^ (z >> 27n)) * 0x94d049bb133111ebn) & MASK_64;
  return z ^ (z >> 31n);
}
