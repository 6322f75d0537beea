/**
 * The longest sequence that a configuration allows: the model's own context, or the longest for which one sequence's
 * keys and values fit. Seats follow the mean request, since a long limit takes memory only when a sequence is that
 * long.
 */
import { KV_SHARE_OF_ONE, QUALITY } from "./data/constants.js";
import { isLlamaCpp } from "./data/engines.js";
import type { Settled } from "./evaluate.js";
import { gibibytes } from "./fitting.js";
import type { Choice, PlanRequest } from "./request.js";
import { sequenceBytes } from "./step-time.js";

/** Lengths that memory limits are multiples of this. */
const STEP = 1024;

export interface LongestSequence {
  readonly numTokens: number;
  readonly because: string;
}

/** KV memory of one device for one longest sequence: llama.cpp's server divides its memory among its slots. */
const memoryOfOne = ({ engine, memory, maxNumSeqs }: Settled): number =>
  (KV_SHARE_OF_ONE.value * memory.kvBytes) / (isLlamaCpp(engine) ? maxNumSeqs : 1);

/** The most tokens, in whole steps, whose keys and values fit into `bytes` of a device. */
function tokensWithin({ instance }: Settled, bytes: number, most: number): number {
  if (sequenceBytes(instance, most) <= bytes) return most;
  let [low, high] = [0, Math.floor(most / STEP)];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (sequenceBytes(instance, middle * STEP) <= bytes) low = middle;
    else high = middle - 1;
  }
  return low * STEP;
}

/** A limit other than memory, and its reason; undefined: only the model's context limits. */
function boundOf({ model }: PlanRequest, { engine, quantization, maxNumBatchedTokens }: Settled) {
  const bounds = [
    {
      applies: quantization.id === "awq",
      most: QUALITY.longContext.value,
      because: QUALITY.longContext.source,
    },
    {
      applies: engine === "tgi",
      most: maxNumBatchedTokens,
      because: "TGI computes a prompt in one step, on GPUs for which it has no chunks",
    },
  ];
  return bounds.find(({ applies, most }) => applies && most < model.contextLength);
}

/** @param required the length that always has room: the requested one, or twice the mean request */
export function longestSequence(request: PlanRequest, settled: Settled, required: number): LongestSequence {
  const { inputTokens, outputTokens, maxModelLen: asked, model } = request;
  const mean = inputTokens + outputTokens;
  if (asked !== undefined) {
    return { numTokens: asked, because: `asked for with --max-model-len; a request of the load has ${mean}` };
  }
  const bound = boundOf(request, settled);
  const most = Math.max(required, bound?.most ?? model.contextLength);
  const bytes = memoryOfOne(settled);
  const numTokens = Math.max(required, tokensWithin(settled, bytes, most));
  const { instance } = settled;
  const taken = `${gibibytes(sequenceBytes(instance, numTokens))} of ${gibibytes(settled.memory.kvBytes)} for keys and values`;
  const where = instance.machine.kind === "gpu" ? `${taken} of each GPU` : taken;
  const seats = `it takes memory only when a sequence is so long, ${where}: seats are planned by requests of ${mean}`;
  const why =
    numTokens < most
      ? `as many of the model's ${model.contextLength} as there is room for`
      : (bound?.because ?? "the model was trained for no more");
  return { numTokens, because: `${why}; ${seats}` };
}

export const lengthChoice = ({ numTokens, because }: LongestSequence): Choice => ({
  about: "longest sequence",
  choice: `${numTokens} tokens`,
  because,
});
