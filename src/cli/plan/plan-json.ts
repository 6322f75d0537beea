/** A plan as JSON: every figure, reason and argument. */

import type { ExpertsFeedForward, LatentMixer, Layer } from "../../model/description/model-description.js";
import { expertsOf, summarizeLayers } from "../../model/description/sizes.js";
import type { Fit } from "../../plan/calibrate.js";
import type { PlannedModel } from "../../plan/planned-model.js";
import type { Configuration, Plan } from "../../plan/request.js";
import { warningsOf } from "../../plan/warnings.js";
import { jsonText } from "../output/format.js";
import { launchesOf, launchOf } from "./launch-command.js";

function configurationJson(configuration: Configuration): object {
  const { quantization, kv, grades, ...rest } = configuration;
  const { command, env, files, notices } = launchOf(configuration);
  const hosts = launchesOf(configuration).map((launch) => launch.command);
  return {
    ...rest,
    quantization: { id: quantization.id, label: quantization.label, gate: quantization.gate, grade: grades.weights },
    kv: { id: kv.id, label: kv.label, evidence: kv.evidence, grade: grades.kv },
    launch: {
      command,
      ...(hosts.length > 1 ? { hosts } : {}),
      env,
      ...(files === undefined ? {} : { files }),
      notices,
    },
  };
}

/** The model's layers as sums, since separate entries for hundreds of layers would be unreadable. */
function modelJson({ layers, ...rest }: PlannedModel): object {
  const { window, numWindowLayers, ...dimensions } = summarizeLayers({ layers });
  const experts = expertsOf({ layers });
  const latent = layers.find(({ mixer }) => mixer.kind === "latent")?.mixer;
  return {
    ...rest,
    ...dimensions,
    ...(experts === undefined ? {} : { experts: expertsJson(experts, layers) }),
    ...(latent?.kind === "latent" ? { latent: latentJson(latent) } : {}),
    ...(window === 0 ? {} : { window: { numTokens: window, numLayers: numWindowLayers } }),
  };
}

function expertsJson({ count, active, width, sharedWidth }: ExpertsFeedForward, layers: readonly Layer[]): object {
  const numDenseLayers = layers.filter(({ feedForward }) => feedForward.kind === "dense").length;
  return { count, active, width, sharedWidth, numDenseLayers };
}

function latentJson({ kvRank, ropeDim, queryRank, valueDim }: LatentMixer): object {
  return { kvRank, ropeDim, queryRank, valueDim };
}

export function jsonOf(
  { request, requiredLength, configurations, refusals, nearest, suggestions, splits }: Plan,
  fit: Fit | undefined,
): string {
  const report = {
    request: { ...request, model: modelJson(request.model) },
    ...(fit === undefined ? {} : { calibration: fit }),
    requiredLength,
    configurations: configurations.map(configurationJson),
    warnings: configurations.slice(0, 1).flatMap((best) => warningsOf(request, best)),
    refusals,
    nearest,
    suggestions,
    splits,
  };
  return jsonText(report, 2);
}
