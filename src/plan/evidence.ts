/** Published evidence on the quality that a weight type keeps, by model. None of it is measured here. */
import type { Quantization } from "./data/quantizations.js";
import type { PlannedModel } from "./planned-model.js";

export function evidenceText(
  { name }: PlannedModel,
  { gate: { of, lowest, evidence } }: Quantization,
  smallestRecovery: number,
): string {
  const whose = of.includes(name) ? "for this model" : `for ${of.join(", ")}, not for ${name}`;
  const published = `Published ${whose}: ${evidence}`;
  if (lowest === undefined || lowest >= smallestRecovery) return published;
  return `${published}. The lowest of it, ${lowest} %, is under the ${smallestRecovery} % asked for: no gate is passed, so judge it on your own prompts (millrace eval)`;
}
