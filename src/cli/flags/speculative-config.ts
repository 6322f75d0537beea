/** `--speculative-config`: the supported keys of vLLM's JSON. */

import { MillraceError } from "../../core/errors.js";
import { isPlainObject } from "../../core/is-plain-object.js";
import {
  DEFAULT_SPECULATIVE_CONFIG,
  isModelMethod,
  SPECULATIVE_METHODS,
  type SpeculativeConfig,
  type SpeculativeMethod,
} from "../../engine/api/speculative-config.js";

interface Values {
  readonly [name: string]: unknown;
  readonly method?: SpeculativeMethod;
  readonly model?: string;
  readonly adaptive?: boolean;
}

interface Key {
  readonly expected: string;
  accepts(value: unknown): boolean;
}

const integer = (min: number, max: number): Key => ({
  expected: `an integer in [${min}, ${max}]`,
  accepts: (value) => Number.isInteger(value) && (value as number) >= min && (value as number) <= max,
});

const KEYS: Readonly<Record<string, Key>> = {
  method: {
    expected: `one of ${SPECULATIVE_METHODS.join(", ")}`,
    accepts: (value) => (SPECULATIVE_METHODS as readonly unknown[]).includes(value),
  },
  model: {
    expected: "the path of a model or of trained heads",
    accepts: (value) => typeof value === "string" && value !== "",
  },
  num_speculative_tokens: integer(1, 64),
  prompt_lookup_min: integer(1, 16),
  // Accepted for compatibility: longer matches are always preferred.
  prompt_lookup_max: integer(1, 1 << 20),
  suffix_decoding_max_cached_requests: integer(0, 1_000_000),
  suffix_decoding_min_token_prob: {
    expected: "a number in [0, 1]",
    accepts: (value) => typeof value === "number" && value >= 0 && value <= 1,
  },
  alternatives: integer(0, 8),
  adaptive: { expected: "true or false", accepts: (value) => typeof value === "boolean" },
};

/** Throws invalid_option. */
export function parseSpeculativeConfig(text: string): SpeculativeConfig {
  const values = readSpeculativeObject(text);
  for (const [name, value] of Object.entries(values)) {
    const key = Object.hasOwn(KEYS, name) ? KEYS[name] : undefined;
    if (key === undefined) throw refused(`keys among ${Object.keys(KEYS).join(", ")}`, JSON.stringify(name));
    if (!key.accepts(value)) throw refused(`${name} to be ${key.expected}`, JSON.stringify(value));
  }
  const defaults = DEFAULT_SPECULATIVE_CONFIG;
  const numberOf = (name: string, otherwise: number) => (values[name] as number | undefined) ?? otherwise;
  const promptLookupMin = numberOf("prompt_lookup_min", defaults.promptLookupMin);
  const promptLookupMax = numberOf("prompt_lookup_max", promptLookupMin);
  if (promptLookupMin > promptLookupMax) {
    throw refused(`prompt_lookup_min of at most prompt_lookup_max ${promptLookupMax}`, `${promptLookupMin}`);
  }
  const method = values.method ?? (values.model === undefined ? defaults.method : "draft_model");
  const needsModel = isModelMethod(method);
  const takesModel = needsModel || method === "auto";
  if (values.model === undefined ? needsModel : !takesModel) {
    throw refused(`${needsModel ? "a" : "no"} model for method ${method}`, text);
  }
  return {
    method,
    draftModelPath: values.model,
    promptLookupMin,
    numSpeculativeTokens: numberOf("num_speculative_tokens", defaults.numSpeculativeTokens),
    suffixMaxCachedRequests: numberOf("suffix_decoding_max_cached_requests", defaults.suffixMaxCachedRequests),
    suffixMinTokenProb: numberOf("suffix_decoding_min_token_prob", defaults.suffixMinTokenProb),
    alternatives: numberOf("alternatives", defaults.alternatives),
    isAdaptive: values.adaptive ?? defaults.isAdaptive,
  };
}

/** Throws invalid_option. */
export function readSpeculativeObject(text: string): Values {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // Refused below, like JSON of other types.
  }
  if (isPlainObject(value)) return value as Values;
  throw refused('a JSON object such as {"method":"ngram","num_speculative_tokens":8}', JSON.stringify(text));
}

function refused(expected: string, got: string): MillraceError {
  return new MillraceError("invalid_option", `--speculative-config: expected ${expected}, got ${got}`, {
    hint: "run the command with --help to see its options",
  });
}
