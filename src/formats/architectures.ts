/** Which models the embedded engine loads: asked by its loader, and by plans before they choose it. */
import { MillraceError } from "../core/errors.js";
import type { JsonObject } from "./files/json.js";
import type { GgufMetadata } from "./gguf/types.js";

/** As GGUF files name them. */
const ARCHITECTURES = ["llama", "mistral", "qwen2", "qwen3", "gemma3", "phi3"] as const;
export type Architecture = (typeof ARCHITECTURES)[number];

/** `model_type` of config.json files → architecture. */
const MODEL_TYPES = {
  llama: "llama",
  mistral: "mistral",
  qwen2: "qwen2",
  qwen3: "qwen3",
  gemma3: "gemma3",
  gemma3_text: "gemma3",
  phi3: "phi3",
} as const satisfies Readonly<Record<string, Architecture>>;
export type ModelType = keyof typeof MODEL_TYPES;

export const architectureOf = (type: ModelType): Architecture => MODEL_TYPES[type];

/** Features that would silently change the answers if they were ignored. */
const UNSERVED_GGUF_KEYS = [
  "expert_count",
  "final_logit_softcapping",
  "attn_logit_softcapping",
  "attention.clamp_kqv",
] as const;
const UNSERVED_CONFIG_KEYS = [
  "final_logit_softcapping",
  "attn_logit_softcapping",
  "use_bidirectional_attention",
] as const;

const OTHERS = "The embedded engine serves these architectures; run other models through an external engine.";
const VARIANTS = "This variant of the architecture is not served yet.";

const unsupported = (message: string, hint: string): MillraceError =>
  new MillraceError("architecture_unsupported", message, { hint });

/** @throws architecture_unsupported, where the engine cannot load a file with this header */
export function ggufArchitecture(metadata: GgufMetadata): Architecture {
  const name = metadata.string("general.architecture");
  const known = ARCHITECTURES.find((candidate) => candidate === name);
  if (known === undefined) throw unsupported(`expected one of ${ARCHITECTURES.join(", ")}, got ${name}`, OTHERS);
  for (const key of UNSERVED_GGUF_KEYS) {
    const value = metadata.number(`${known}.${key}`);
    if (value !== undefined && value !== 0) throw unsupported(`expected no ${known}.${key}, got ${value}`, VARIANTS);
  }
  return known;
}

/**
 * @param type `model_type`
 * @param name what the key is called in an error
 * @throws architecture_unsupported
 */
export function servedModelType(type: string | undefined, name = "model_type"): ModelType {
  if (type !== undefined && Object.hasOwn(MODEL_TYPES, type)) return type as ModelType;
  throw unsupported(
    `expected ${name} to be one of ${Object.keys(MODEL_TYPES).join(", ")}, got ${type ?? "nothing"}`,
    OTHERS,
  );
}

/**
 * @param config config.json
 * @throws architecture_unsupported, where the engine cannot load a model with it
 */
export function configModelType(config: JsonObject): ModelType {
  const type = servedModelType(config.string("model_type"), config.nameOf("model_type"));
  // Multimodal wrappers keep the language model's part in an object of its own.
  const text = config.object("text_config") ?? config;
  for (const key of UNSERVED_CONFIG_KEYS) {
    const value = text.value(key);
    if (value !== undefined && value !== false && value !== 0) {
      throw unsupported(`expected no ${text.nameOf(key)}, got ${String(value)}`, VARIANTS);
    }
  }
  return type;
}

/** @returns why the embedded engine refuses what `check` looks at; undefined: it does not */
export function refusalOf(check: () => unknown): string | undefined {
  try {
    check();
    return undefined;
  } catch (error) {
    if (error instanceof MillraceError && error.code === "architecture_unsupported") return error.message;
    throw error;
  }
}
