/**
 * How a model's makers would have it sampled: generation_config.json of a folder, `general.sampling.*` of a GGUF file.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { MillraceError } from "../core/errors.js";
import { readJsonFile } from "./files/json.js";
import type { GgufMetadata } from "./gguf/types.js";

/** By the names of request fields; absent fields keep the API's own defaults. */
export interface SamplingDefaults {
  readonly temperature?: number;
  readonly top_p?: number;
  readonly top_k?: number;
  readonly min_p?: number;
  readonly repetition_penalty?: number;
}

export type SamplingField = keyof SamplingDefaults;

export const GENERATION_CONFIG_NAME = "generation_config.json";

const MAX_TOP_K = 2 ** 31 - 1;

/** The ranges of requests' fields, which hold for a model's defaults too. */
const RANGES: Readonly<Record<SamplingField, readonly [expected: string, isValid: (value: number) => boolean]>> = {
  temperature: ["a number in [0, 2]", (value) => value >= 0 && value <= 2],
  top_p: ["a number in [0, 1]", (value) => value >= 0 && value <= 1],
  top_k: ["an integer of at least -1", (value) => Number.isInteger(value) && value >= -1 && value <= MAX_TOP_K],
  min_p: ["a number in [0, 1]", (value) => value >= 0 && value <= 1],
  repetition_penalty: ["a number in (0, 100]", (value) => value > 0 && value <= 100],
};

export const SAMPLING_FIELDS = Object.keys(RANGES) as readonly SamplingField[];

/** The names that llama.cpp gives them. */
export const GGUF_SAMPLING_KEYS: Readonly<Record<SamplingField, string>> = {
  temperature: "general.sampling.temp",
  top_p: "general.sampling.top_p",
  top_k: "general.sampling.top_k",
  min_p: "general.sampling.min_p",
  repetition_penalty: "general.sampling.penalty_repeat",
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
  return defaultsFrom((field) => [GGUF_SAMPLING_KEYS[field], asWritten(metadata.number(GGUF_SAMPLING_KEYS[field]))]);
}

/** The same of a folder; without the file there are none. */
export function readHfSampling(folder: string): SamplingDefaults {
  const path = join(folder, GENERATION_CONFIG_NAME);
  if (!existsSync(path)) return {};
  const config = readJsonFile(path);
  return defaultsFrom((field) => [config.nameOf(field), config.number(field)]);
}
