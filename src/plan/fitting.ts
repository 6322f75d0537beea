/** Whether a model fits: the narrowest instances that hold it, or the arithmetic that shows why none does. */
import { totalParameters, weightBytes } from "../model/description/sizes.js";
import { type Efficiencies, ENGINE_SPEED, GPU_CONSTANTS, HOST_EXPERTS } from "./data/constants.js";
import type { Machine } from "./data/device.js";
import { GPUS } from "./data/hardware.js";
import { KNOWN_MODELS } from "./data/models.js";
import { KV_TYPES, QUANTIZATIONS, type Quantization } from "./data/quantizations.js";
import { ALLOW_PUBLISHED, HOW_TO_MEASURE, weightsGrade } from "./evidence.js";
import { machineLabel } from "./hardware.js";
import { plannedModelOf } from "./known-model.js";
import { MOST_HOSTS, sharingsOf } from "./layouts.js";
import { CHUNKS, type MemoryDemand, planMemory } from "./memory.js";
import type { Drafting } from "./predict.js";
import type { PlanRequest } from "./request.js";
import { allowedKvTypes, chooseEngine, GGUF_TYPES, inEngine, takesGguf, weightChoices, widthsOf } from "./rules.js";
import { devicesOf, type Sharing, sharingOf } from "./sharing.js";
import { defaultEfficiencies, kvBytesPerDevice, type PlannedInstance, sequenceBytes } from "./step-time.js";

/** The smallest memory with which an engine can start. */
export const smallestDemand = ({ kind }: Machine): MemoryDemand => ({
  maxNumBatchedTokens: CHUNKS[kind].at(-1)!,
  maxNumSeqs: 1,
});

/** Memory as tools show it: a maker's "80 GB" card has 79.6 GiB. */
export const gibibytes = (bytes: number): string => `${(bytes / 2 ** 30).toFixed(bytes < 100 * 2 ** 30 ? 1 : 0)} GiB`;

/** The usual efficiencies, scaled by the speed of the engine's steps relative to vLLM's. */
function efficienciesOf(request: PlanRequest, quantization: Quantization): Efficiencies {
  const { machine } = request;
  const usual = defaultEfficiencies(machine, quantization);
  if (machine.kind === "cpu") return usual;
  const speed = ENGINE_SPEED[chooseEngine(request).engine].value;
  return {
    memoryShare: usual.memoryShare * speed,
    computeShare: usual.computeShare * speed,
    stepSeconds: usual.stepSeconds / speed,
    secondsPerLayer: usual.secondsPerLayer / speed,
    secondsPerSequence: usual.secondsPerSequence / speed,
  };
}

export function instanceFor(request: PlanRequest, quantization: Quantization, tensorParallel: number): PlannedInstance {
  const { model, machine } = request;
  const efficiencies = request.efficiencies ?? efficienciesOf(request, quantization);
  return { model, quantization, kv: KV_TYPES["16"], machine, tensorParallel, efficiencies };
}

/** A candidate's instance, with the candidate's sharing of its devices. */
export function instanceOf(request: PlanRequest, candidate: Sharing & Pick<PlannedInstance, "quantization" | "kv">) {
  const { quantization, kv, tensorParallel } = candidate;
  const instance: PlannedInstance = {
    ...instanceFor(request, quantization, tensorParallel),
    ...sharingOf(candidate),
    kv,
  };
  if ((candidate.numHostLayers ?? 0) > 0) {
    return { ...instance, hostBytesPerS: request.hostBytesPerS ?? HOST_EXPERTS.bytesPerS.value };
  }
  if ((candidate.pipelineParallel ?? 1) === 1) return instance;
  return { ...instance, networkBytesPerS: request.networkBytesPerS ?? GPU_CONSTANTS.networkBytesPerS.value };
}

/** Whether there is room for the weights, a step, and one sequence of the longest length. */
export function fits(
  instance: PlannedInstance,
  maxModelLen: number,
  demand = smallestDemand(instance.machine),
  drafting?: Drafting,
): boolean {
  return planMemory(instance, demand, drafting).kvBytes >= sequenceBytes(instance, maxModelLen);
}

/** The narrowest of the widths that the engine and the machine allow; undefined: all are too narrow. */
export function narrowestWidth(
  request: PlanRequest,
  quantization: Quantization,
  maxModelLen: number,
): number | undefined {
  const { engine } = chooseEngine(request);
  const widths = sharingsOf(request, engine, quantization)
    .filter((sharing) =>
      allowedKvTypes(request, engine).some((kv) =>
        fits(instanceOf(request, { quantization, kv, ...sharing }), maxModelLen),
      ),
    )
    .map(devicesOf);
  return widths.length === 0 ? undefined : Math.min(...widths);
}

/**
 * @example "BF16: 131 GiB of weights and 1.3 GiB for one sequence of 4096 tokens; 2 × H100 SXM 80 GB have 144 GiB for
 *   them"
 */
export function missingSentence(request: PlanRequest, quantization: Quantization, maxModelLen: number): string {
  const { model, machine } = request;
  const widths = widthsOf(model, machine, chooseEngine(request).engine, quantization);
  return `${quantization.label}: ${missingAt(request, quantization, maxModelLen, widths.at(-1)!)}`;
}

/**
 * Memory that the model needs, and the memory of an instance on `numDevices` devices: with an engine's smallest step
 * and narrowest KV type.
 */
export function missingAt(
  request: PlanRequest,
  quantization: Quantization,
  maxModelLen: number,
  width: number,
): string {
  const { model, machine } = request;
  const kv = allowedKvTypes(request, chooseEngine(request).engine).at(-1)!;
  const instance = { ...instanceFor(request, quantization, width), kv };
  const { kvBytes: left, weightBytes: weights } = planMemory(instance, smallestDemand(machine));
  const usable = width * (left + weights);
  const needed = `${gibibytes(weightBytes(model, quantization))} of weights and ${gibibytes(kvBytesPerDevice(instance, maxModelLen) * width)} for one sequence of ${maxModelLen} tokens`;
  return `${needed}; ${machineLabel({ ...machine, count: width } as Machine)} ${width === 1 ? "has" : "have"} ${gibibytes(usable)} for them`;
}

function fitsSomehow(request: PlanRequest, maxModelLen: number): Quantization | undefined {
  const { choices } = weightChoices(request, maxModelLen);
  return choices.find(({ quantization }) => narrowestWidth(request, quantization, maxModelLen) !== undefined)
    ?.quantization;
}

function refusedTypeThatFits(request: PlanRequest, maxModelLen: number): string[] {
  const { model, machine } = request;
  if (model.stored !== undefined || model.native !== undefined) return [];
  const isFile = takesGguf(request);
  const found = Object.values(QUANTIZATIONS).find(
    (quantization) =>
      quantization.id !== "file" &&
      (isFile ? GGUF_TYPES[quantization.id] : machine.device.flops[quantization.arithmetic]) !== undefined &&
      quantization.gate.recovery === undefined &&
      narrowestWidth(request, inEngine(quantization, chooseEngine(request).engine), maxModelLen) !== undefined,
  );
  if (found === undefined) return [];
  return [`${found.label} would fit, but ${found.gate.evidence}: --quantization ${found.id} takes it nevertheless`];
}

/** A compressed type that would fit, but that the planner chooses only on request. */
function unaskedTypeThatFits(request: PlanRequest, maxModelLen: number): string[] {
  if (request.allowsPublished === true) return [];
  const found = fitsSomehow({ ...request, allowsPublished: true }, maxModelLen);
  if (found === undefined) return [];
  const what = weightsGrade(request.model, found) === "published" ? found.label : "keys and values in 8 bits";
  return [`${what} would fit, on published figures alone: ${ALLOW_PUBLISHED} takes it; ${HOW_TO_MEASURE}`];
}

function shorterSequences(request: PlanRequest, maxModelLen: number): string[] {
  for (let length = maxModelLen / 2; length >= request.inputTokens + request.outputTokens; length /= 2) {
    const found = fitsSomehow({ ...request, maxModelLen: Math.floor(length) }, Math.floor(length));
    if (found !== undefined) return [`with --max-model-len ${Math.floor(length)} it fits in ${found.label}`];
  }
  return [];
}

function largerMachines(request: PlanRequest, maxModelLen: number): string[] {
  const machines = GPUS.flatMap((device) =>
    [1, 2, 4, 8]
      .filter((count) => count <= device.maxPerNode)
      .map((count): Machine => ({ kind: "gpu", device, count })),
  );
  const total = (machine: Machine): number => machine.count * machine.device.memoryBytes;
  const fitting = machines
    .filter((machine) => fitsSomehow({ ...request, machine, engine: undefined }, maxModelLen) !== undefined)
    .toSorted((a, b) => total(a) - total(b));
  const same = fitting.find((machine) => machine.device.id === request.machine.device.id);
  const found = [same, fitting.find((machine) => machine.device.id !== request.machine.device.id)];
  return found.flatMap((machine) => {
    if (machine === undefined) return [];
    const quantization = fitsSomehow({ ...request, machine, engine: undefined }, maxModelLen)!;
    return [
      `${machineLabel(machine)} (--hardware ${machine.device.id}x${machine.count}) holds it in ${quantization.label}`,
    ];
  });
}

/** Known models that fit, the largest of the same family or of any. */
function smallerModel(request: PlanRequest, maxModelLen: number): string[] {
  const own = totalParameters(request.model);
  const fitting = KNOWN_MODELS.map(plannedModelOf)
    .filter((model) => totalParameters(model) < own)
    // Weights published in 8 or 4 bits exist in no other type.
    .filter((model) => request.quantization === undefined || model.native === undefined)
    .flatMap((model) => {
      const asked = { ...request, model, engine: undefined };
      const quantization = fitsSomehow(asked, Math.min(maxModelLen, model.contextLength));
      return quantization === undefined ? [] : [{ model, quantization }];
    })
    .toSorted((a, b) => totalParameters(b.model) - totalParameters(a.model));
  const found = fitting.find(({ model }) => model.family === request.model.family) ?? fitting[0];
  return found === undefined ? [] : [`${found.model.name} fits on this machine in ${found.quantization.label}`];
}

/**
 * The fewest hosts that hold the model together: consecutive layers on each host, each layer on as many GPUs of its
 * host as can share it.
 */
function severalHosts(request: PlanRequest, maxModelLen: number): string[] {
  const { machine, hosts: given = 1 } = request;
  const { engine } = chooseEngine(request);
  if (machine.kind === "cpu") return [];
  const { choices } = weightChoices(request, maxModelLen);
  for (let hosts = given + 1; hosts <= MOST_HOSTS; hosts++) {
    for (const { quantization } of choices) {
      const holds = sharingsOf(request, engine, quantization, hosts).some((sharing) =>
        allowedKvTypes(request, engine).some((kv) =>
          fits(instanceOf(request, { quantization, kv, ...sharing }), maxModelLen),
        ),
      );
      if (!holds) continue;
      return [
        `${hosts} hosts of ${machineLabel(machine)} hold it together in ${quantization.label}: --hosts ${hosts} plans them, and millrace image render --nodes ${hosts} makes a LeaderWorkerSet of the plan's file for Kubernetes`,
      ];
    }
  }
  return [];
}

/** The nearest options that fit, for a model that does not. */
export function nearestFits(request: PlanRequest, maxModelLen: number): readonly string[] {
  const found = [
    ...unaskedTypeThatFits(request, maxModelLen),
    ...refusedTypeThatFits(request, maxModelLen),
    ...shorterSequences(request, maxModelLen),
    ...largerMachines(request, maxModelLen),
    ...severalHosts(request, maxModelLen),
    ...smallerModel(request, maxModelLen),
  ];
  return found.length > 0
    ? found
    : [`no machine of the table holds it, nor do ${MOST_HOSTS} hosts of this one with an engine's own distribution`];
}
