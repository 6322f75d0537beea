/** Warnings about a configuration: types that passed no quality gate, and keys that fill the memory. */
import { kvBytes } from "../model/description/sizes.js";
import { gibibytes } from "./fitting.js";
import type { PlannedModel } from "./planned-model.js";
import type { Configuration, PlanRequest } from "./request.js";

/** Key/value heads of most current models. */
const USUAL_KV_HEADS = 8;

function qualityWarning(
  { model, smallestRecovery }: PlanRequest,
  { quantization: { label, gate } }: Configuration,
): string[] {
  if (gate.recovery === undefined) {
    return [`quality: ${label} has passed no gate (${gate.evidence}); judge it on your own prompts (millrace eval)`];
  }
  if (gate.lowest === undefined || gate.lowest >= smallestRecovery) return [];
  const whose = gate.of.includes(model.name) ? "" : `, of ${gate.of.join(", ")}`;
  return [
    `quality: the lowest published figure of ${label}${whose} is ${gate.lowest} %, under the ${smallestRecovery} % asked for: no gate is passed, so judge it on your own prompts (millrace eval)`,
  ];
}

/**
 * Fewest key/value heads of a layer, in a model whose heads share no keys and number more than usual; else undefined.
 */
function headsOf({ layers }: PlannedModel): number | undefined {
  const heads = layers.map(({ mixer }) =>
    mixer.kind === "attention" && mixer.numHeads === mixer.numKvHeads ? mixer.numKvHeads : 0,
  );
  const fewest = Math.min(...heads);
  return fewest > USUAL_KV_HEADS ? fewest : undefined;
}

function groupsWarning({ model, inputTokens, outputTokens }: PlanRequest, { kv, seats }: Configuration): string[] {
  const numHeads = headsOf(model);
  if (numHeads === undefined) return [];
  const perToken = kvBytes(model, kv.vectorBytes, 1) / 1024;
  const perRequest = gibibytes(kvBytes(model, kv.vectorBytes, inputTokens + outputTokens));
  return [
    `KV memory: this model has no grouped-query attention, so a token takes ${perToken.toFixed(0)} KiB (${(perToken / (numHeads / USUAL_KV_HEADS)).toFixed(0)} with ${USUAL_KV_HEADS} groups) and a request ${perRequest}: ${seats} fit in an instance. A model with groups serves ${(numHeads / USUAL_KV_HEADS).toFixed(0)} times as many`,
  ];
}

export const warningsOf = (request: PlanRequest, configuration: Configuration): readonly string[] => [
  ...qualityWarning(request, configuration),
  ...groupsWarning(request, configuration),
];
