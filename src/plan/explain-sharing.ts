/**
 * Reasons for the number of GPUs of an instance, for their way of sharing the model, and for the number of instances.
 */
import { expertsOf, weightBytesPerStep } from "../model/description/sizes.js";
import { beside, type Context } from "./beside.js";
import { GPU_CONSTANTS, HOST_EXPERTS } from "./data/constants.js";
import type { Evaluation } from "./evaluate.js";
import { missingAt } from "./fitting.js";
import { hostChoice } from "./host-experts.js";
import type { Choice } from "./request.js";
import { widthsOf } from "./rules.js";
import { devicesOf, type Sharing, sharingOf, sharingText } from "./sharing.js";
import { DECODE, stepTime } from "./step-time.js";

/**
 * Compares the width with the best configuration of another width or, if there is none, states the memory that the next
 * narrower width lacks.
 */
function widthChoice(context: Context, mine: Evaluation): Choice {
  const { request, required } = context;
  const { machine, model } = request;
  if (machine.kind === "cpu") {
    const because =
      machine.count > 1
        ? "one instance a memory node: its cores read their own memory"
        : "one instance on all of them: they share the memory's bandwidth";
    return { about: "cores", choice: String(machine.device.numCores), because };
  }
  const numDevices = devicesOf(mine);
  const about = { about: "GPUs an instance", choice: String(numDevices) };
  const reason = beside(context, mine, (other) => devicesOf(other) !== numDevices);
  if (reason !== undefined) return { ...about, ...reason };
  const widths = widthsOf(model, machine, mine.engine, mine.quantization);
  const narrower = widths.filter((width) => width < numDevices).at(-1);
  if (narrower === undefined) {
    return {
      ...about,
      because: machine.count === 1 ? "there is one" : `${mine.engine} takes no other width of this model`,
    };
  }
  return {
    ...about,
    because: `below it there is no room: ${missingAt(request, mine.quantization, required, narrower)}`,
  };
}

/**
 * Milliseconds of a step under the plan's load in which one device reads weights, and in which it waits for its links.
 */
function stepParts({ request }: Context, { instance, instances, prediction }: Evaluation, sharing: Sharing): string {
  const { dataParallel: _, hasWholeExperts: __, ...rest } = instance;
  const shared = { ...rest, ...sharing };
  const numDecoding = Math.max(1, prediction.numDecoding / instances);
  const { dataParallel = 1 } = sharing;
  const busyGroups = Math.min(dataParallel, Math.max(1, Math.floor(numDecoding)));
  const context = request.inputTokens + request.outputTokens / 2;
  const work = { ...DECODE, numDecoding: numDecoding / busyGroups, context };
  const { weightSeconds, kvSeconds, allReduceSeconds } = stepTime({ ...shared, busyGroups }, work);
  const ms = (seconds: number): string => (1000 * seconds).toFixed(2);
  return `${ms(weightSeconds)} ms for weights, ${ms(kvSeconds)} for keys and values, ${ms(allReduceSeconds)} on the links`;
}

const SKEW =
  "Predicted, not measured: tokens are taken to choose experts evenly, and of a step all wait for the fullest GPU";

/** Compares whole experts on one GPU each with experts cut into a part for each GPU. */
function expertChoices(context: Context, mine: Evaluation): readonly Choice[] {
  const { instance, tensorParallel, dataParallel = 1, hasWholeExperts } = mine;
  const numDevices = tensorParallel * dataParallel;
  const experts = expertsOf(instance.model);
  if (experts === undefined || numDevices === 1) return [];
  const isWhole = hasWholeExperts === true;
  const groups =
    dataParallel === 1 ? "" : `; attention in ${dataParallel} groups of ${tensorParallel} with requests of their own`;
  const choice = isWhole
    ? `${experts.count / numDevices} of ${experts.count} on each GPU (expert parallel)${groups}`
    : `each cut into ${numDevices} parts (tensor parallel)`;
  const reason = beside(
    context,
    mine,
    (other) => (other.hasWholeExperts === true) !== isWhole && devicesOf(other) === devicesOf(mine),
  );
  const cut = { tensorParallel: numDevices };
  const own = stepParts(context, mine, sharingOf(mine));
  const steps = isWhole
    ? `A step of the load: ${own}; cut into parts it were ${stepParts(context, mine, cut)}. ${SKEW}`
    : `A step of the load: ${own}`;
  const because =
    reason === undefined ? `no other layout of so many GPUs fits here. ${steps}` : `${reason.because}. ${steps}`;
  return [{ about: "experts", choice, ...reason, because }];
}

function hostChoices({ request, required }: Context, mine: Evaluation): readonly Choice[] {
  const { pipelineParallel = 1, tensorParallel, quantization, instance } = mine;
  if (pipelineParallel === 1 || instance.networkBytesPerS === undefined) return [];
  const gigabits = Math.round((8 * instance.networkBytesPerS) / 1e9);
  const source = request.networkBytesPerS === undefined ? ` (${GPU_CONSTANTS.networkBytesPerS.source})` : "";
  const missing = missingAt(request, quantization, required, tensorParallel);
  return [
    {
      about: "hosts",
      choice: `${pipelineParallel}, layers one host after another (pipeline parallel)`,
      because: `one does not hold it: ${missing}. Sums of a layer stay on a host's own links; hidden states pass over ${gigabits} Gbit/s between hosts${source}. A request alone waits for all hosts in turn. Predicted, not measured`,
    },
  ];
}

function instancesChoice(context: Context, mine: Evaluation): Choice {
  const { machine } = context.request;
  const { instances } = mine;
  const about = { about: "instances", choice: String(instances) };
  const shape = sharingText(mine);
  const isOther = (other: Evaluation) => sharingText(other) === shape && other.instances !== instances;
  const reason = beside(context, mine, isOther);
  const used = instances * devicesOf({ ...mine, pipelineParallel: 1 });
  const left = used < machine.count ? `${used} of ${machine.count} GPUs are used; ` : "";
  if (reason !== undefined) return { ...about, ...reason, because: `${left}${reason.because}` };
  return { ...about, because: `${left}there is room for one of this width` };
}

/** Compares with the host alone, which reads all of a token's weights at the bandwidth of its memory. */
function onHostChoices({ request }: Context, mine: Evaluation): readonly Choice[] {
  const { instance, quantization } = mine;
  if (instance.hostBytesPerS === undefined) return [];
  const context = request.inputTokens + request.outputTokens / 2;
  const own = 1 / stepTime(instance, { ...DECODE, numDecoding: 1, context }).totalSeconds;
  const bytes = weightBytesPerStep(instance.model, quantization, 1);
  const alone = (instance.hostBytesPerS * HOST_EXPERTS.memoryShare.value) / bytes;
  return hostChoice(request, quantization, mine, alone, own);
}

export const sharingChoices = (context: Context, mine: Evaluation): readonly Choice[] => [
  widthChoice(context, mine),
  ...expertChoices(context, mine),
  ...hostChoices(context, mine),
  ...onHostChoices(context, mine),
  instancesChoice(context, mine),
];
