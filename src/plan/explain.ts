/** Why a configuration is as it is: each of its choices with the rule behind it, in figures of this plan. */
import { SPECULATION } from "./data/constants.js";
import type { Evaluation } from "./evaluate.js";
import { linkOf } from "./hardware.js";
import { kvBytes } from "./model-shape.js";
import { expectedTokens } from "./predict.js";
import type { Choice, PlanRequest } from "./request.js";
import { chooseEngine } from "./rules.js";

function kvChoice({ kv, instance, seats, wantedSeats, engine }: Evaluation): Choice {
  const perToken = `${(kvBytes(instance.model, kv, 1) / 1024).toFixed(0)} KiB a token`;
  const because =
    kv.id !== "16"
      ? `at 16 bits too few of ${wantedSeats} sequences an instance would fit. Gate: ${kv.evidence}`
      : seats >= wantedSeats
        ? `${seats} sequences fit at 16 bits, ${wantedSeats} are there at once: nothing to gain from fewer`
        : `${engine} on this device has no narrower type that is gated: ${seats} of ${wantedSeats} sequences fit, the rest waits`;
  return { about: "KV memory", choice: `${kv.label}, ${perToken}`, because };
}

function instancesChoice({ machine, objective }: PlanRequest, { instances, tensorParallel }: Evaluation): Choice {
  const used = instances * tensorParallel;
  const because =
    used < machine.count
      ? objective === "cost"
        ? `${used} of ${machine.count} GPUs carry the load: rent no more`
        : `${machine.count - used} GPUs are left over by this width`
      : instances === 1
        ? "the machine holds one of this width"
        : "several narrow instances before one wide one: no all-reduce between them, and one can fail or be replaced alone";
  return { about: "instances", choice: String(instances), because };
}

function draftChoice({ objective, model, slo }: PlanRequest, { drafting, wantedSeats, engine }: Evaluation): Choice {
  const about = "speculation";
  if (drafting !== undefined) {
    const tokens = expectedTokens(drafting).toFixed(1);
    const because = `latency matters and ${wantedSeats} sequences leave arithmetic idle: ${tokens} tokens a step are expected at an acceptance of ${drafting.acceptance} (${SPECULATION.eagle3Acceptance.source})`;
    return { about, choice: `EAGLE-3, ${drafting.depth} drafts`, because };
  }
  if (engine === "millrace") {
    return {
      about,
      choice: "auto",
      because: "lossless, and switched off wherever it does not pay; not counted in the prediction",
    };
  }
  const because =
    objective !== "latency" && slo.tpotMs === undefined
      ? "no latency target asks for it, and verifying drafts costs throughput in full batches"
      : model.eagle3 === undefined
        ? "no drafter for this model is known here; prompt lookup (method ngram) costs nothing to try where answers repeat the prompt"
        : "the batch is full enough that verifying drafts would cost more than they win, or the targets hold without";
  return { about, choice: "off", because };
}

function limitChoices(
  request: PlanRequest,
  { maxNumSeqs, maxNumBatchedTokens, sustainableConcurrency, instances, seats }: Evaluation,
): Choice[] {
  const { ttftMs, tpotMs } = request.slo;
  const hasTargets = ttftMs !== undefined || tpotMs !== undefined;
  return [
    {
      about: "sequences at once",
      choice: `${maxNumSeqs} an instance`,
      because:
        hasTargets && sustainableConcurrency > 0
          ? `${Math.floor(sustainableConcurrency / instances)} keep the latency targets, ${seats} fit in memory`
          : `twice what the load takes, for bursts, or what fits: ${seats}`,
    },
    {
      about: "tokens in a step",
      choice: String(maxNumBatchedTokens),
      because:
        request.machine.kind === "cpu"
          ? "the kernels are as fast per token in short chunks, and a short step is what everybody waits for"
          : tpotMs === undefined
            ? "large chunks of prompts use the arithmetic best; no time per token is asked for"
            : `the largest chunk of a prompt that holds up the others for at most four times the ${tpotMs} ms, with room for a row of everybody`,
    },
  ];
}

/** Width: as narrow as fits, unless a latency asks for more or narrow ones starve. */
function widthChoice(request: PlanRequest, evaluation: Evaluation, narrow: Evaluation): Choice {
  const { machine, objective, slo } = request;
  const width = evaluation.tensorParallel;
  const about = "GPUs an instance";
  if (machine.kind === "cpu") {
    return {
      about: "cores",
      choice: String(machine.device.numCores),
      because:
        machine.count > 1
          ? "one instance a memory node: its cores read their own memory"
          : "one instance on all of them: they share the memory's bandwidth",
    };
  }
  const link = linkOf(machine.device, Math.max(2, width)).kind === "nvlink" ? "NVLink" : "PCIe, which costs";
  const price = `two all-reduces a layer go over ${link}`;
  const because = (): string => {
    const gain = `each token's weights are read by ${width} GPUs at once`;
    const wider = `wider than the ${narrow.tensorParallel} it takes to fit`;
    if (width === 1) return "the model fits on one GPU: no all-reduce in any layer, and instances fail one by one";
    if (width === narrow.tensorParallel)
      return `the narrowest that fits: below it, weights leave no room for a sequence; ${price}`;
    if (objective === "latency" || slo.tpotMs !== undefined || slo.ttftMs !== undefined) {
      return `${wider}, as a latency asks for it: ${gain}`;
    }
    if (narrow.seats < narrow.wantedSeats) {
      return `${wider}: so narrow, ${narrow.seats} of ${narrow.wantedSeats} sequences find room; ${price}`;
    }
    if (narrow.kv.id !== evaluation.kv.id) {
      return `${wider}: so narrow, sequences find room only with keys and values in ${narrow.kv.label}; ${price}`;
    }
    return `${wider}: at so few requests a GPU ${gain}, and ${price}; it had to win a tenth with each doubling, and full batches would turn that round`;
  };
  return { about, choice: String(width), because: because() };
}

/** @param narrow the same weights in the narrowest instances that fit */
export function explain(
  request: PlanRequest,
  evaluation: Evaluation,
  weightsBecause: string,
  narrow: Evaluation,
): readonly Choice[] {
  const { engine, quantization } = evaluation;
  const { prefixShare } = request;
  return [
    { about: "engine", choice: engine, because: chooseEngine(request).because },
    { about: "weights", choice: quantization.label, because: weightsBecause },
    widthChoice(request, evaluation, narrow),
    instancesChoice(request, evaluation),
    kvChoice(evaluation),
    {
      about: "prefix caching",
      choice: "on",
      because:
        prefixShare > 0
          ? `${Math.round(100 * prefixShare)} % of each prompt need not be computed again`
          : "costs under 1 % where nothing is shared, and saves whole prompts where something is",
    },
    draftChoice(request, evaluation),
    ...limitChoices(request, evaluation),
  ];
}
