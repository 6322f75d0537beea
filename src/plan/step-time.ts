/**
 * The time of one step of an engine: bytes over bandwidth, operations over peak, and the fixed costs of each step and
 * each all-reduce. Pure functions.
 */
import {
  activeLinearParameters,
  attentionMacs,
  chosenExpertMacs,
  expertsOf,
  kvBytes,
  numExpertLayers,
  stateBytes,
  tableParameters,
  weightBytesPerStep,
} from "../model/description/sizes.js";
import { CPU_CONSTANTS, type Efficiencies, GPU_CONSTANTS, HOST_EXPERTS } from "./data/constants.js";
import type { Machine } from "./data/device.js";
import type { PlannedKvType, Quantization } from "./data/quantizations.js";
import { type ExpertLoad, expertLoad } from "./expert-load.js";
import { linkOf } from "./hardware.js";
import type { PlannedModel } from "./planned-model.js";
import type { Sharing } from "./sharing.js";

/** One instance: a model in given weight and KV types on some devices of a machine. */
export interface PlannedInstance extends Sharing {
  readonly model: PlannedModel;
  readonly quantization: Quantization;
  readonly kv: PlannedKvType;
  readonly machine: Machine;
  readonly efficiencies: Efficiencies;
  /** Groups with requests, among those that share the experts; absent: all. */
  readonly busyGroups?: number | undefined;
  /** Bandwidth between the hosts of a pipeline, per direction; absent: the pipeline is on one host. */
  readonly networkBytesPerS?: number | undefined;
  /** Bandwidth of the host's memory, where it holds experts. */
  readonly hostBytesPerS?: number | undefined;
}

export interface StepWork {
  /** Sequences that decode; a fraction is a mean over time. */
  readonly numDecoding: number;
  /** Tokens of each decoding sequence in the KV memory. */
  readonly context: number;
  /** Rows of each decoding sequence: 1, and 1 for each drafted token. */
  readonly rowsEach: number;
  /** Prompt tokens in this step. */
  readonly numPromptTokens: number;
  /** Prompts of these tokens. */
  readonly numPrompts: number;
  /** Tokens of each prompt that earlier steps computed, or that came from a cache. */
  readonly promptOffset: number;
  /** Groups with as many prompt tokens in this step, among those that share the experts; absent: this one alone. */
  readonly numPromptGroups?: number;
}

export interface StepTime {
  readonly weightSeconds: number;
  readonly kvSeconds: number;
  readonly computeSeconds: number;
  /** Sums over devices, exchanges of rows with the devices of their experts, and hidden states between hosts. */
  readonly allReduceSeconds: number;
  /** Time for which the GPU waits for experts in the host's memory. */
  readonly hostSeconds: number;
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

/** Peak operations per second of large products; 0: the device lacks the arithmetic. */
export function peakOf(machine: Machine, quantization: Quantization): number {
  return (machine.device.flops[quantization.arithmetic] ?? 0) * quantization.computeFactor;
}

/** Bytes of a sequence's keys, values and recurrent states on each device that shares the layers. */
export const kvBytesPerDevice = (instance: PlannedInstance, numTokens: number): number =>
  kvBytes(instance.model, instance.kv.vectorBytes, numTokens, instance.tensorParallel) + statesPerDevice(instance);

/** The same bytes where each group of a pipeline has only its own layers' part. */
export const sequenceBytes = (instance: PlannedInstance, numTokens: number): number =>
  kvBytesPerDevice(instance, numTokens) / (instance.pipelineParallel ?? 1);

const statesPerDevice = ({ model, tensorParallel }: PlannedInstance): number => stateBytes(model) / tensorParallel;

function attentionPeak({ machine, quantization, efficiencies }: PlannedInstance): number {
  if (machine.kind === "gpu") return machine.device.flops.float16! * GPU_CONSTANTS.computeShare.value;
  // The factor that calibration finds for products also applies to attention.
  const found = efficiencies.computeShare / defaultComputeShare(machine, quantization);
  return machine.device.flops.cpuFloat! * CPU_CONSTANTS.attentionShare.value * found;
}

/** Rows of a step for the instance's experts: those of all groups that share them. */
function expertRowsOf(instance: PlannedInstance, work: StepWork): number {
  const { numDecoding, rowsEach, numPromptTokens, numPromptGroups = 1 } = work;
  const { dataParallel = 1, busyGroups = dataParallel } = instance;
  return numDecoding * rowsEach * busyGroups + numPromptTokens * numPromptGroups;
}

const EVEN: ExpertLoad = { read: 1, rows: 1 };

function loadOf(instance: PlannedInstance, numExpertRows: number): ExpertLoad {
  const { model, tensorParallel, dataParallel = 1, hasWholeExperts } = instance;
  const experts = hasWholeExperts === true ? expertsOf(model) : undefined;
  return experts === undefined ? EVEN : expertLoad(experts, numExpertRows, tensorParallel * dataParallel);
}

function computeSeconds(instance: PlannedInstance, work: StepWork, numExpertRows: number, load: ExpertLoad): number {
  const { model, quantization, machine, tensorParallel, dataParallel = 1, efficiencies } = instance;
  const { numDecoding, context, rowsEach, numPromptTokens, numPrompts, promptOffset } = work;
  const numRows = numDecoding * rowsEach + numPromptTokens;
  // Only the last row of a prompt goes through the output matrix.
  const numHeadRows = numDecoding * rowsEach + (numPromptTokens > 0 ? numPrompts : 0);
  const isShared = instance.hasWholeExperts === true;
  const inExperts = isShared ? chosenExpertMacs(model) : 0;
  const products =
    numRows * (activeLinearParameters(model) - inExperts) +
    numHeadRows * tableParameters(model) +
    (numExpertRows / dataParallel) * inExperts * load.rows;
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

/** Time of one sum, or half an exchange, of `numRows` hidden states in 16 bits among `numDevices`. */
function sumSeconds({ model, machine }: PlannedInstance, numDevices: number, numRows: number): number {
  if (machine.kind !== "gpu" || numDevices === 1) return 0;
  const link = linkOf(machine.device, numDevices);
  const { nvlinkSeconds, pcieSeconds, allReduceShare, allReducePcieShare } = GPU_CONSTANTS;
  const [latency, share] =
    link.kind === "nvlink"
      ? [nvlinkSeconds.value, allReduceShare.value]
      : [pcieSeconds.value, allReducePcieShare.value];
  const bytes = (2 * (numDevices - 1) * numRows * model.width * 2) / numDevices;
  return latency + bytes / (link.bytesPerS * share);
}

/**
 * Two sums per layer over the devices that share it. Groups with their own requests bring all rows to each device of
 * the experts, and sum the results in parts: the same bytes as one sum of all rows, in two messages.
 */
function linkSeconds(instance: PlannedInstance, numRows: number, numExpertRows: number): number {
  const { model, tensorParallel, dataParallel = 1, pipelineParallel = 1, networkBytesPerS } = instance;
  const ofSum = sumSeconds(instance, tensorParallel, numRows);
  const between =
    networkBytesPerS === undefined
      ? 0
      : (pipelineParallel - 1) * (GPU_CONSTANTS.networkSeconds.value + (numRows * model.width * 2) / networkBytesPerS);
  const numSums = 2 * model.layers.length;
  if (dataParallel === 1) return numSums * ofSum + between;
  const numDevices = tensorParallel * dataParallel;
  const exchange = sumSeconds(instance, numDevices, 0) + sumSeconds(instance, numDevices, numExpertRows);
  const numExchanges = numExpertLayers(model);
  return (numSums - numExchanges) * ofSum + numExchanges * exchange + between;
}

/** Bytes of weights that one device reads, from its group's weights and its share of the experts. */
function weightBytesRead(instance: PlannedInstance, numRows: number, numExpertRows: number, load: ExpertLoad): number {
  const { model, quantization, tensorParallel, dataParallel = 1 } = instance;
  const { numHostLayers = 0 } = instance;
  if (instance.hasWholeExperts !== true && numHostLayers === 0)
    return weightBytesPerStep(model, quantization, numRows) / tensorParallel;
  const onGpus = numHostLayers === 0 ? 1 : 1 - numHostLayers / numExpertLayers(model);
  const ofAll = weightBytesPerStep(model, quantization, 0);
  const ofExperts = weightBytesPerStep(model, quantization, numExpertRows) - ofAll;
  return (ofAll + (onGpus * ofExperts * load.read) / dataParallel) / tensorParallel;
}

/**
 * Experts in the host's memory: its CPU reads them for few rows; for many rows they come over the bus to the GPU. The
 * GPU waits either way, since layers run in sequence.
 */
function hostSecondsOf(instance: PlannedInstance, numRows: number): number {
  const { model, quantization, numHostLayers = 0, hostBytesPerS } = instance;
  if (numHostLayers === 0 || hostBytesPerS === undefined) return 0;
  const share = numHostLayers / numExpertLayers(model);
  const bytes = share * (weightBytesPerStep(model, quantization, numRows) - weightBytesPerStep(model, quantization, 0));
  const { memoryShare, busBytesPerS, mostHostRows } = HOST_EXPERTS;
  if (numRows >= mostHostRows.value) return bytes / busBytesPerS.value;
  const there = 2 * (GPU_CONSTANTS.pcieSeconds.value + (numRows * model.width * 4) / busBytesPerS.value);
  return bytes / (hostBytesPerS * memoryShare.value) + numHostLayers * there;
}

/** Total time where memory and arithmetic overlap imperfectly. */
function joined(memory: number, arithmetic: number, exponent: number): number {
  const larger = Math.max(memory, arithmetic);
  if (larger === 0) return 0;
  return larger * ((memory / larger) ** exponent + (arithmetic / larger) ** exponent) ** (1 / exponent);
}

export function stepTime(instance: PlannedInstance, work: StepWork): StepTime {
  const { model, quantization, machine, efficiencies } = instance;
  const { numDecoding, context, rowsEach, numPromptTokens, numPrompts } = work;
  const numRows = numDecoding * rowsEach + numPromptTokens;
  const numExpertRows = expertRowsOf(instance, work);
  const load = loadOf(instance, numExpertRows);
  const bytesPerS = machine.device.bytesPerS * efficiencies.memoryShare;
  const weightBytes = weightBytesRead(instance, numRows, numExpertRows, load) * (quantization.readFactor ?? 1);
  const weightSeconds = weightBytes / bytesPerS;
  // A step reads each state and writes it again.
  const kvSeconds = (numDecoding * (kvBytesPerDevice(instance, context) + statesPerDevice(instance))) / bytesPerS;
  const compute = computeSeconds(instance, work, numExpertRows, load);
  const allReduce = linkSeconds(instance, numRows, numExpertRows);
  const overheadSeconds =
    efficiencies.stepSeconds +
    model.layers.length * efficiencies.secondsPerLayer +
    (numDecoding + (numPromptTokens > 0 ? numPrompts : 0)) * efficiencies.secondsPerSequence;
  const { overlap } = machine.kind === "gpu" ? GPU_CONSTANTS : CPU_CONSTANTS;
  const hostSeconds = hostSecondsOf(instance, numRows);
  const memorySeconds = weightSeconds + kvSeconds;
  return {
    weightSeconds,
    kvSeconds,
    computeSeconds: compute,
    allReduceSeconds: allReduce,
    hostSeconds,
    overheadSeconds,
    totalSeconds: joined(memorySeconds, compute, overlap.value) + allReduce + hostSeconds + overheadSeconds,
    bound: memorySeconds >= compute ? "memory" : "arithmetic",
  };
}
