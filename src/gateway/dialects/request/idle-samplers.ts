/**
 * Samplers that paid APIs lack, with values that switch them off. Ollama's clients send its defaults with each request,
 * which must not be refused.
 */
import type { JsonObject } from "../../../core/json-body.js";

type Test = (body: JsonObject) => boolean;

/** Whether the field is absent or has the value with which it does nothing. */
const isAt = (name: string, idle: number): Test => {
  return ({ [name]: value }) => value === undefined || value === null || value === idle;
};
const hasNoDry: Test = (body) => isAt("dry_multiplier", 0)(body) || body.dry_penalty_last_n === 0;
const PENALTIES = [isAt("repetition_penalty", 1), isAt("presence_penalty", 0), isAt("frequency_penalty", 0)];

/** Tests by field: whether the answer is the same without the field. */
const IDLE: ReadonlyMap<string, Test> = new Map<string, Test>([
  ["min_p", isAt("min_p", 0)],
  ["typical_p", isAt("typical_p", 1)],
  ["top_n_sigma", ({ top_n_sigma: sigma }) => typeof sigma === "number" && sigma <= 0],
  ["repetition_penalty", isAt("repetition_penalty", 1)],
  ["repeat_last_n", (body) => PENALTIES.every((isOff) => isOff(body))],
  ["xtc_probability", isAt("xtc_probability", 0)],
  ["xtc_threshold", isAt("xtc_probability", 0)],
  ["dynatemp_range", isAt("dynatemp_range", 0)],
  ["dynatemp_exponent", isAt("dynatemp_range", 0)],
  ["dry_multiplier", hasNoDry],
  ["dry_base", hasNoDry],
  ["dry_allowed_length", hasNoDry],
  ["dry_penalty_last_n", hasNoDry],
  ["dry_sequence_breakers", hasNoDry],
]);

export function withoutIdleSamplers(body: JsonObject): JsonObject {
  const isKept = (name: string): boolean => IDLE.get(name)?.(body) !== true;
  const names = Object.keys(body);
  return names.every(isKept) ? body : Object.fromEntries(Object.entries(body).filter(([name]) => isKept(name)));
}
