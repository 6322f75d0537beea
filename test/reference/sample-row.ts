/** The reference sampler's row for a request's parameters, made from them alone. */
import type { SAMPLE_PARAM } from "../../src/backend/ops.js";
import type { SamplingParams } from "../../src/engine/api/request.js";
import { dryPenalties } from "./dry.js";
import type { SampleRow } from "./sample.js";

/** Where a word has come up to its last token, that token may not come. */
function isBarred(id: number, output: readonly number[], sampling: SamplingParams): boolean {
  const { allowedTokenIds, badWords, thought } = sampling;
  const isTooLong = thought !== undefined && output.length >= thought.maxTokens && !output.includes(thought.closeId);
  if (isTooLong) return id !== thought.closeId;
  if (allowedTokenIds?.includes(id) === false) return true;
  return (badWords ?? []).some((word) => {
    const start = word.slice(0, -1);
    return word.at(-1) === id && start.every((token, i) => output[output.length - start.length + i] === token);
  });
}

/** The row that the parameters mean after these tokens. */
export function sampleRowOf(
  sampling: SamplingParams,
  prompt: readonly number[],
  output: readonly number[],
  vocabSize: number,
): SampleRow {
  const values: Partial<Record<keyof typeof SAMPLE_PARAM, number>> = {
    temperature: sampling.temperature,
    topK: sampling.topK,
    topP: sampling.topP,
    minP: sampling.minP,
    presencePenalty: sampling.presencePenalty,
    frequencyPenalty: sampling.frequencyPenalty,
    repetitionPenalty: sampling.repetitionPenalty,
    topNSigma: sampling.topNSigma ?? 0,
    typicalP: sampling.typicalP ?? 1,
    xtcProbability: sampling.xtc?.probability ?? 0,
    xtcThreshold: sampling.xtc?.threshold ?? 0,
    dynatempRange: sampling.dynamicTemperature?.range ?? 0,
    dynatempExponent: sampling.dynamicTemperature?.exponent ?? 1,
    seedHigh: Number(sampling.seed >> 32n),
    seedLow: Number(sampling.seed & 0xffff_ffffn),
    position: prompt.length + output.length,
  };
  const mask = new Int32Array(Math.ceil(vocabSize / 32));
  for (let id = 0; id < vocabSize; id++) {
    if (!isBarred(id, output, sampling)) mask[id >> 5]! |= 1 << (id & 31);
  }
  const text = [prompt, output].flatMap((ids, part) => ids.map((id) => ({ id, isOutput: part === 1 })));
  const read = text.slice(Math.max(text.length - (sampling.penaltyWindow ?? text.length), 0));
  const dry = sampling.dry === undefined ? [] : [...dryPenalties([...prompt, ...output], sampling.dry)];
  return {
    param: (name) => values[name]!,
    promptIds: Int32Array.from(read.filter(({ isOutput }) => !isOutput).map(({ id }) => id)),
    outputIds: Int32Array.from(read.filter(({ isOutput }) => isOutput).map(({ id }) => id)),
    biasIds: Int32Array.from(sampling.logitBias, ([id]) => id),
    biasValues: Float32Array.from(sampling.logitBias, ([, bias]) => bias),
    lateBiasIds: Int32Array.from(dry, ([id]) => id),
    lateBiasValues: Float32Array.from(dry, ([, penalty]) => -penalty),
    bannedIds: Int32Array.from(output.length < sampling.minTokens ? sampling.stopTokenIds : []),
    mask,
  };
}
