/** Published evidence on the quality that a weight type keeps, by model. None of it is measured here. */
import type { Quantization } from "./data/quantizations.js";
import type { PlannedModel } from "./planned-model.js";

export function evidenceText({ name }: PlannedModel, { gate: { of, evidence } }: Quantization): string {
  const whose = of.includes(name) ? "for this model" : `for ${of.join(", ")}, not for ${name}`;
  return `Published ${whose}: ${evidence}`;
}
