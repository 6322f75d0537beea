/** Divides a device's memory into weights, scratch of a step, the runtime, and keys and values in the rest. */

import { DEFAULT_MAX_NUM_SEQS, defaultBatchedTokens } from "../core/batched-tokens.js";
import { isAttending } from "../model/description/model-description.js";
import {
  innerWidth,
  isRecurrent,
  kvBytes,
  mixedOutputs,
  mostOf,
  numExpertLayers,
  stateBytes,
  weightBytes,
  weightBytesPerStep,
} from "../model/description/sizes.js";
import { CPU_CONSTANTS, GPU_CONSTANTS } from "./data/constants.js";
import { KV_TYPES, QUANTIZATIONS } from "./data/quantizations.js";
import type { PlannedModel } from "./planned-model.js";
import type { Drafting } from "./predict.js";
import { type PlannedInstance, sequenceBytes } from "./step-time.js";

/** Division of one device's memory, in bytes. */
export interface MemoryPlan {
  readonly totalBytes: number;
  /** Bytes left to other processes, or unused. */
  readonly headroomBytes: number;
  readonly weightBytes: number;
  readonly activationBytes: number;
  readonly runtimeBytes: number;
  /** Bytes of a drafter's weights; 0 without a drafter. */
  readonly drafterBytes: number;
  /** If negative: the bytes that are missing before the first token. */
  readonly kvBytes: number;
}

export interface MemoryDemand {
  readonly maxNumBatchedTokens: number;
  readonly maxNumSeqs: number;
}

/**
 * Prompt tokens of a step, largest first. On CPUs all sequences wait for a step, so steps are short; our own engine has
 * its own rule there (`core/batched-tokens.ts`).
 */
export const CHUNKS = { gpu: [8192, 4096, 2048, 1024, 512], cpu: [128, 64] } as const;

/** Bytes of a step's hidden states, widest intermediate and logits, in the types in which engines keep them. */
function activationBytes(
  instance: Pick<PlannedInstance, "model" | "tensorParallel" | "dataParallel">,
  { maxNumBatchedTokens, maxNumSeqs }: MemoryDemand,
): number {
  const { model, tensorParallel, dataParallel = 1 } = instance;
  const queries = mostOf(model, ({ mixer }) => {
    // Each head has a query over the latent vector, and a sum of such vectors.
    if (mixer.kind === "latent") return mixer.numHeads * (mixer.kvRank + mixer.ropeDim);
    return isAttending(mixer) || mixer.kind === "delta" ? mixer.numHeads * mixer.headDim : mixedOutputs(mixer);
  });
  const perToken = 4 * model.width + (2 * mostOf(model, innerWidth) + 2 * queries) / tensorParallel;
  // Each device of the experts gathers the rows of all groups, and returns their sums.
  const gathered = dataParallel === 1 ? 0 : 2 * dataParallel * model.width;
  return maxNumBatchedTokens * (perToken + gathered) * 2 + (maxNumSeqs * model.vocabSize * 4) / tensorParallel;
}

/**
 * Bytes of weights on one device: a part of its group's weights, and its share of the experts, which all groups have in
 * common.
 */
function weightsPerDevice({ model, quantization, ...sharing }: PlannedInstance): number {
  const { tensorParallel, dataParallel = 1, pipelineParallel = 1 } = sharing;
  const { numHostLayers = 0 } = sharing;
  const all = weightBytes(model, quantization);
  const ofExperts =
    dataParallel === 1 && numHostLayers === 0
      ? 0
      : weightBytesPerStep(model, quantization, Number.POSITIVE_INFINITY) - weightBytesPerStep(model, quantization, 0);
  const onGpus = numHostLayers === 0 ? 1 : 1 - numHostLayers / numExpertLayers(model);
  return (all - ofExperts + (ofExperts * onGpus) / dataParallel) / (tensorParallel * pipelineParallel);
}

export function planMemory(instance: PlannedInstance, demand: MemoryDemand, drafting?: Drafting): MemoryPlan {
  const { machine } = instance;
  const { memoryUtilization, runtimeBytes } = machine.kind === "gpu" ? GPU_CONSTANTS : CPU_CONSTANTS;
  const totalBytes = machine.device.memoryBytes;
  const usable = totalBytes * memoryUtilization.value;
  const weights = weightsPerDevice(instance);
  const activations = activationBytes(instance, demand);
  const drafter = (drafting?.weightBytes ?? 0) / (instance.tensorParallel * (instance.pipelineParallel ?? 1));
  return {
    totalBytes,
    headroomBytes: totalBytes - usable,
    weightBytes: weights,
    activationBytes: activations,
    runtimeBytes: runtimeBytes.value,
    drafterBytes: drafter,
    kvBytes: usable - weights - activations - runtimeBytes.value - drafter,
  };
}

/** Memory that one instance of the embedded engine needs, computed before it starts. */
export interface MemoryNeed {
  readonly weightBytes: number;
  /** Scratch of a step, and the process's own memory. */
  readonly workBytes: number;
  readonly contextTokens: number;
  /** KV of one sequence of so many tokens, at 16 bits, and its recurrent state. */
  readonly kvBytes: number;
  readonly totalBytes: number;
}

/** @param contextTokens of one sequence; the engine takes memory for more sequences if the machine has it */
export function memoryNeed(model: PlannedModel, contextTokens: number): MemoryNeed {
  const weights = weightBytes(model, QUANTIZATIONS[model.native ?? "bf16"]);
  const maxNumSeqs = DEFAULT_MAX_NUM_SEQS;
  const demand = { maxNumSeqs, maxNumBatchedTokens: defaultBatchedTokens(maxNumSeqs) };
  const workBytes = activationBytes({ model, tensorParallel: 1 }, demand) + CPU_CONSTANTS.runtimeBytes.value;
  const kvBytesOfOne = kvBytes(model, KV_TYPES["16"].vectorBytes, contextTokens) + stateBytes(model);
  return {
    weightBytes: weights,
    workBytes,
    contextTokens,
    kvBytes: kvBytesOfOne,
    totalBytes: weights + workBytes + kvBytesOfOne,
  };
}

/**
 * Sequences of `numTokens` tokens that fit at once in a group of devices, when they share the first `sharedTokens` of
 * them.
 * @param stateRoom recurrent states for which the engine reserves memory, per sequence
 */
export function seatsOf(
  instance: PlannedInstance,
  memory: MemoryPlan,
  numTokens: number,
  sharedTokens: number,
  stateRoom = 1,
): number {
  const further = (stateRoom - 1) * stateBytes(instance.model);
  const whole = sequenceBytes(instance, numTokens) + further;
  // A recurrent state belongs to one sequence; plans do not count on a shared prefix for it.
  const shared = isRecurrent(instance.model) ? 0 : Math.min(sequenceBytes(instance, sharedTokens), whole);
  const left = memory.kvBytes - shared;
  return left < whole - shared ? 0 : Math.floor(left / Math.max(1, whole - shared));
}
