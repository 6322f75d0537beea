/** The evidence for a compression, and its grade. */
import type { PlannedEngine } from "./data/engines.js";
import type { KvTypeId, PlannedKvType, Quantization } from "./data/quantizations.js";
import type { PlannedModel } from "./planned-model.js";

/**
 * Strongest first. `measured`: a report on this very file. `published-checked`: published figures, and the engine
 * measures the loss on the model at its start and falls back where it is too large. `published`: only published
 * figures. `unknown`: no evidence.
 */
type Grade = "measured" | "published-checked" | "published" | "unknown";

/** Grades of a configuration; undefined: the configuration compresses nothing beyond the authors' published weights. */
export interface Grades {
  readonly weights: Grade | undefined;
  readonly kv: Grade | undefined;
}

export const ALLOW_PUBLISHED = "--allow-published-quantization";
export const HOW_TO_MEASURE = "millrace quantize --evals measures it on your questions";

const UNCOMPRESSED = /^(BF16|F16|F32)$/;

/** @returns undefined where nothing is compressed, or the model's authors published these weights */
export function weightsGrade(model: PlannedModel, { id, gate }: Quantization): Grade | undefined {
  if (model.stored !== undefined) {
    if (model.measured !== undefined) return "measured";
    return UNCOMPRESSED.test(model.stored.label) ? undefined : "unknown";
  }
  if (id === "bf16" || id === model.native) return undefined;
  return gate.recovery === undefined ? "unknown" : "published";
}

/** Our engine measures KV types when it starts (`--kv-cache-dtype measured`); other engines take the given type. */
export function kvGrade(id: KvTypeId, engine: PlannedEngine): Grade | undefined {
  if (id === "16") return undefined;
  return engine === "millrace" ? "published-checked" : "published";
}

/** Whether the planner may choose the type unasked. */
export const isUnasked = (
  { allowsPublished }: { readonly allowsPublished?: boolean | undefined },
  grade: Grade | undefined,
): boolean => grade === "published" && allowsPublished !== true;

export const unaskedText = (evidence: string): string =>
  `published figures alone speak for it (${evidence}): ${ALLOW_PUBLISHED} takes it`;

/** @returns a sentence without its full stop; "" where nothing is compressed */
export function evidenceText(model: PlannedModel, quantization: Quantization): string {
  const grade = weightsGrade(model, quantization);
  if (grade === undefined) return "";
  const { of, evidence } = quantization.gate;
  if (grade === "measured") return `Grade of evidence: measured. ${model.measured}`;
  if (model.stored !== undefined)
    return `Grade of evidence: unknown. No report of millrace quantize on this file lies beside it; ${HOW_TO_MEASURE}`;
  if (grade === "unknown") return `Grade of evidence: unknown. ${evidence}`;
  const whose = of.includes(model.name) ? "for this model" : `for ${of.join(", ")}, not for ${model.name}`;
  return `Grade of evidence: published. Published ${whose}: ${evidence}`;
}

/** The same for types of keys and values. */
export function kvEvidenceText({ id, evidence }: PlannedKvType, engine: PlannedEngine): string {
  const grade = kvGrade(id, engine);
  if (grade === undefined) return "";
  const check = grade === "published-checked" ? ", and checked: the start measures it on the model" : "";
  return `Grade of evidence: published${check}. Published: ${evidence}`;
}
