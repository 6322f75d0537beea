/**
 * The text of a config.json. transformers checks the types of some values, and Python reads a number without a point as
 * an integer.
 */

/** Keys whose numbers are floats in transformers, also in lists. */
const FLOAT_KEYS: ReadonlySet<string> = new Set([
  "rms_norm_eps",
  "attn_logit_softcapping",
  "final_logit_softcapping",
  "attention_multiplier",
  "embedding_multiplier",
  "residual_multiplier",
  "logits_scaling",
  "partial_rotary_factor",
  "rope_theta",
  "rope_local_base_freq",
  "factor",
  "attention_factor",
  "low_freq_factor",
  "high_freq_factor",
  "beta_fast",
  "beta_slow",
  "llama_4_scaling_beta",
  "short_factor",
  "long_factor",
]);

/** @example configJson({ rope_theta: 10000, hidden_size: 64 }) // rope_theta is written as 10000.0 */
export function configJson(config: object): string {
  return `${written(config, "", "\n")}\n`;
}

/**
 * The form of JSON.stringify with an indent of two.
 * @param key of the value, or of the list around it
 * @param lineStart line end and indent of the value's own line
 */
function written(value: unknown, key: string, lineStart: string): string {
  if (typeof value === "number" && FLOAT_KEYS.has(key)) return floatText(value);
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const inner = `${lineStart}  `;
  const isList = Array.isArray(value);
  const items = isList
    ? value.map((item) => written(item, key, inner))
    : Object.entries(value)
        .filter(([, item]) => item !== undefined)
        .map(([name, item]) => `${JSON.stringify(name)}: ${written(item, name, inner)}`);
  const [start, end] = isList ? "[]" : "{}";
  return items.length === 0 ? `${start}${end}` : `${start}${inner}${items.join(`,${inner}`)}${lineStart}${end}`;
}

function floatText(value: number): string {
  const text = JSON.stringify(value);
  // A number with an exponent is a float already; null stands for infinity.
  return /^-?\d+$/.test(text) ? `${text}.0` : text;
}
