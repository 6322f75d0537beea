/**
 * How a model's makers would have it sampled: generation_config.json of a folder, `general.sampling.*` of a GGUF file.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { MillraceError } from "../core/errors.js";
import { readJsonFile } from "./files/json.js";
import type { GgufMetadata } from "./gguf/types.js";

/** By the names of request fields; absent fields keep the API's own defaults. */
export type SamplingDefaults = { readonly [field in SamplingField]?: number };

export const GENERATION_CONFIG_NAME = "generation_config.json";

const MAX_INTEGER = 2 ** 31 - 1;

type Range = readonly [expected: string, isValid: (value: number) => boolean];

const numberIn = (least: number, most: number): Range => [
  `a number in [${least}, ${most}]`,
  (value) => value >= least && value <= most,
];
const integerFrom = (least: number): Range => [
  `an integer of at least ${least}`,
  (value) => Number.isInteger(value) && value >= least && value <= MAX_INTEGER,
];

/** The ranges of requests' fields, which hold for a model's defaults too. */
const RANGES = {
  temperature: numberIn(0, 2),
  top_p: numberIn(0, 1),
  top_k: integerFrom(-1),
  min_p: numberIn(0, 1),
  repetition_penalty: ["a number in (0, 100]", (value) => value > 0 && value <= 100],
  presence_penalty: numberIn(-2, 2),
  frequency_penalty: numberIn(-2, 2),
  repeat_last_n: integerFrom(-1),
  typical_p: numberIn(0, 1),
  top_n_sigma: numberIn(-1, 100),
  xtc_probability: numberIn(0, 1),
  xtc_threshold: numberIn(0, 1),
  dynatemp_range: numberIn(0, 2),
  dynatemp_exponent: numberIn(0, 100),
} as const satisfies Readonly<Record<string, Range>>;

export type SamplingField = keyof typeof RANGES;

export const SAMPLING_FIELDS = Object.keys(RANGES) as readonly SamplingField[];

/** llama.cpp's names for the fields that it writes. It also writes `mirostat`, which our engine does not have. */
export const GGUF_SAMPLING_KEYS: { readonly [field in SamplingField]?: string } = {
  temperature: "general.sampling.temp",
  top_p: "general.sampling.top_p",
  top_k: "general.sampling.top_k",
  min_p: "general.sampling.min_p",
  repetition_penalty: "general.sampling.penalty_repeat",
  repeat_last_n: "general.sampling.penalty_last_n",
  xtc_probability: "general.sampling.xtc_probability",
  xtc_threshold: "general.sampling.xtc_threshold",
};

/** The fault of a field's value, or undefined. */
export function samplingComplaint(field: SamplingField, value: unknown): string | undefined {
  const [expected, isValid] = RANGES[field];
  return typeof value === "number" && isValid(value) ? undefined : expected;
}

/** @param read with the name under which the model has it, for messages */
function defaultsFrom(read: (field: SamplingField) => readonly [name: string, value: number | undefined]) {
  const defaults: Partial<Record<SamplingField, number>> = {};
  for (const field of SAMPLING_FIELDS) {
    const [name, value] = read(field);
    if (value === undefined) continue;
    const expected = samplingComplaint(field, value);
    if (expected !== undefined) {
      throw new MillraceError("model_config", `expected ${name} to be ${expected}, got ${value}`, {
        hint: "mend the model's file, or start with --generation-config none",
      });
    }
    defaults[field] = value;
  }
  return defaults;
}

/** A 32-bit float as the decimal number that it was written from: 0.9499999880790710 is 0.95. */
const asWritten = (value: number | undefined): number | undefined =>
  value === undefined ? undefined : Number(value.toPrecision(7));

/** Throws `gguf_metadata` or `model_config` for values that no request may have. */
export function readGgufSampling(metadata: GgufMetadata): SamplingDefaults {
  return defaultsFrom((field) => {
    const key = GGUF_SAMPLING_KEYS[field];
    return [key ?? field, key === undefined ? undefined : asWritten(metadata.number(key))];
  });
}

/** The same of a folder; without the file there are none. */
export function readHfSampling(folder: string): SamplingDefaults {
  const path = join(folder, GENERATION_CONFIG_NAME);
  if (!existsSync(path)) return {};
  const config = readJsonFile(path);
  return defaultsFrom((field) => [config.nameOf(field), config.number(field)]);
}
