/**
 * How long one step of an engine takes: bytes over bandwidth, operations over peak, what each step and each all-reduce
 * cost beside. Pure functions.
 */
import {
  activeLinearParameters,
  attentionMacs,
  kvBytes,
  stateBytes,
  tableParameters,
  weightBytesPerStep,
} from "../model/description/sizes.js";
import { CPU_CONSTANTS, type Efficiencies, GPU_CONSTANTS } from "./data/constants.js";
import type { Machine } from "./data/device.js";
import type { PlannedKvType, Quantization } from "./data/quantizations.js";
import { linkOf } from "./hardware.js";
import type { PlannedModel } from "./planned-model.js";

/** One instance: a model in its types on some devices of a machine. */
export interface PlannedInstance {
  readonly model: PlannedModel;
  readonly quantization: Quantization;
  readonly kv: PlannedKvType;
  readonly machine: Machine;
  /** Devices that share each layer. */
  readonly tensorParallel: number;
  /** Groups of so many devices that hold the layers one after another; 1: every device has a part of all layers. */
  readonly pipelineParallel?: number | undefined;
  readonly efficiencies: Efficiencies;
}

/** Devices that hold one copy of the weights. */
export const devicesOf = ({ tensorParallel, pipelineParallel = 1 }: PlannedInstance): number =>
  tensorParallel * pipelineParallel;

export interface StepWork {
  /** Sequences that decode; a fraction is a mean over time. */
  readonly numDecoding: number;
  /** Tokens of each decoding sequence in the KV memory. */
  readonly context: number;
  /** Rows of each decoding sequence: 1, and 1 for each drafted token. */
  readonly rowsEach: number;
  /** Prompt tokens in this step. */
  readonly numPromptTokens: number;
  /** Prompts that these tokens belong to. */
  readonly numPrompts: number;
  /** Tokens of each prompt that earlier steps computed, or a cache had. */
  readonly promptOffset: number;
}

export interface StepTime {
  readonly weightSeconds: number;
  readonly kvSeconds: number;
  readonly computeSeconds: number;
  readonly allReduceSeconds: number;
  readonly overheadSeconds: number;
  readonly totalSeconds: number;
  readonly bound: "memory" | "arithmetic";
}

export const DECODE: Omit<StepWork, "numDecoding" | "context"> = {
  rowsEach: 1,
  numPromptTokens: 0,
  numPrompts: 1,
  promptOffset: 0,
};

function defaultComputeShare(machine: Machine, { arithmetic }: Quantization): number {
  if (machine.kind === "cpu")
    return (arithmetic === "cpu4" ? CPU_CONSTANTS.computeShare4 : CPU_CONSTANTS.computeShare).value;
  return (arithmetic === "float16" ? GPU_CONSTANTS.computeShare : GPU_CONSTANTS.computeShare8).value;
}

export function defaultEfficiencies(machine: Machine, quantization: Quantization): Efficiencies {
  const { memoryShare, stepSeconds, secondsPerLayer, secondsPerSequence } =
    machine.kind === "gpu" ? GPU_CONSTANTS : CPU_CONSTANTS;
  return {
    memoryShare: memoryShare.value,
    computeShare: defaultComputeShare(machine, quantization),
    stepSeconds: stepSeconds.value,
    secondsPerLayer: secondsPerLayer.value,
    secondsPerSequence: secondsPerSequence.value,
  };
}

/** Operations per second of large products, before the share of it that is reached; 0: the device cannot. */
export function peakOf(machine: Machine, quantization: Quantization): number {
  return (machine.device.flops[quantization.arithmetic] ?? 0) * quantization.computeFactor;
}

/** What a sequence keeps on each of the devices that share the layers: keys and values, and recurrent states. */
export const kvBytesPerDevice = (instance: PlannedInstance, numTokens: number): number =>
  kvBytes(instance.model, instance.kv.vectorBytes, numTokens, instance.tensorParallel) + statesPerDevice(instance);

const statesPerDevice = ({ model, tensorParallel }: PlannedInstance): number => stateBytes(model) / tensorParallel;

function attentionPeak({ machine, quantization, efficiencies }: PlannedInstance): number {
  if (machine.kind === "gpu") return machine.device.flops.float16! * GPU_CONSTANTS.computeShare.value;
  // The factor that calibration finds for products holds for attention in proportion.
  const found = efficiencies.computeShare / defaultComputeShare(machine, quantization);
  return machine.device.flops.cpuFloat! * CPU_CONSTANTS.attentionShare.value * found;
}

function computeSeconds(instance: PlannedInstance, work: StepWork): number {
  const { model, quantization, machine, tensorParallel, efficiencies } = instance;
  const { numDecoding, context, rowsEach, numPromptTokens, numPrompts, promptOffset } = work;
  const numRows = numDecoding * rowsEach + numPromptTokens;
  // Of a prompt's rows, only the last one goes through the output matrix.
  const numHeadRows = numDecoding * rowsEach + (numPromptTokens > 0 ? numPrompts : 0);
  const products = numRows * activeLinearParameters(model) + numHeadRows * tableParameters(model);
  const attention =
    numDecoding * rowsEach * attentionMacs(model, context) +
    numPromptTokens * attentionMacs(model, promptOffset + numPromptTokens / numPrompts / 2);
  const small =
    machine.kind === "gpu"
      ? 0
      : (numRows * model.layers.length * CPU_CONSTANTS.secondsPerTokenLayer.value * model.width) /
        2048 /
        machine.device.numCores;
  const productSeconds = (2 * products) / (peakOf(machine, quantization) * efficiencies.computeShare);
  return (productSeconds + (2 * attention) / attentionPeak(instance)) / tensorParallel + small;
}

/** Two sums over all devices in each layer, of the rows' hidden states in 16 bits. */
function allReduceSeconds({ model, machine, tensorParallel }: PlannedInstance, numRows: number): number {
  if (machine.kind !== "gpu" || tensorParallel === 1) return 0;
  const link = linkOf(machine.device, tensorParallel);
  const { nvlinkSeconds, pcieSeconds, allReduceShare, allReducePcieShare } = GPU_CONSTANTS;
  const [latency, share] =
    link.kind === "nvlink"
      ? [nvlinkSeconds.value, allReduceShare.value]
      : [pcieSeconds.value, allReducePcieShare.value];
  const bytes = (2 * (tensorParallel - 1) * numRows * model.width * 2) / tensorParallel;
  return 2 * model.layers.length * (latency + bytes / (link.bytesPerS * share));
}

/** Memory and arithmetic overlap, though not perfectly. */
function joined(memory: number, arithmetic: number, exponent: number): number {
  const larger = Math.max(memory, arithmetic);
  if (larger === 0) return 0;
  return larger * ((memory / larger) ** exponent + (arithmetic / larger) ** exponent) ** (1 / exponent);
}

export function stepTime(instance: PlannedInstance, work: StepWork): StepTime {
  const { model, quantization, machine, tensorParallel, efficiencies } = instance;
  const { numDecoding, context, rowsEach, numPromptTokens, numPrompts } = work;
  const numRows = numDecoding * rowsEach + numPromptTokens;
  const bytesPerS = machine.device.bytesPerS * efficiencies.memoryShare;
  const weightBytes = weightBytesPerStep(model, quantization, numRows) * (quantization.readFactor ?? 1);
  const weightSeconds = weightBytes / tensorParallel / bytesPerS;
  // A state is read, and written anew.
  const kvSeconds = (numDecoding * (kvBytesPerDevice(instance, context) + statesPerDevice(instance))) / bytesPerS;
  const compute = computeSeconds(instance, work);
  const allReduce = allReduceSeconds(instance, numRows);
  const overheadSeconds =
    efficiencies.stepSeconds +
    model.layers.length * efficiencies.secondsPerLayer +
    (numDecoding + (numPromptTokens > 0 ? numPrompts : 0)) * efficiencies.secondsPerSequence;
  const { overlap } = machine.kind === "gpu" ? GPU_CONSTANTS : CPU_CONSTANTS;
  const memorySeconds = weightSeconds + kvSeconds;
  return {
    weightSeconds,
    kvSeconds,
    computeSeconds: compute,
    allReduceSeconds: allReduce,
    overheadSeconds,
    totalSeconds: joined(memorySeconds, compute, overlap.value) + allReduce + overheadSeconds,
    bound: memorySeconds >= compute ? "memory" : "arithmetic",
  };
}
