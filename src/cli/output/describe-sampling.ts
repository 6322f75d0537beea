/** Describes sampling in one line. */
import { SAMPLING_FIELDS, type SamplingDefaults } from "../../formats/sampling-defaults.js";

/** @example describeSampling({ temperature: 0.6, top_k: 20 }) // "temperature 0.6, top_k 20" */
export function describeSampling(defaults: SamplingDefaults): string {
  return SAMPLING_FIELDS.flatMap((field) => {
    const value = defaults[field];
    return value === undefined ? [] : `${field} ${value}`;
  }).join(", ");
}
