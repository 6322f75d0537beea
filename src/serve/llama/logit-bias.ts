/**
 * llama-server's `logit_bias`: pairs, or an object as in OpenAI's API; tokens by id, or texts that stand for their
 * tokens.
 */
import { MillraceError } from "../../core/errors.js";
import type { PlanContext, PromptContext } from "../http/context.js";
import { checked } from "../openai/schema-parts.js";

const MAX_BIASES = 1024;
const MAX_TEXT_LENGTH = 256;
/**
 * Stands for −∞, since the engine accepts only finite biases. No logit comes near it, and divided by the lowest
 * temperature it is still a finite float.
 */
const FORBIDDEN = -1e30;

/** False forbids the token. */
type Bias = number | false;
type Pair = readonly [token: number | string, bias: Bias];
type BiasField = readonly Pair[] | Readonly<Record<string, Bias>>;

const isBias = (value: unknown): boolean => value === false || (typeof value === "number" && Math.abs(value) <= 100);

function isToken(value: unknown): boolean {
  if (typeof value === "string") return value !== "" && value.length <= MAX_TEXT_LENGTH;
  return Number.isInteger(value) && (value as number) >= 0;
}

function isBiasField(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return false;
  const pairs: readonly unknown[] = Array.isArray(value) ? value : Object.entries(value);
  if (pairs.length > MAX_BIASES) return false;
  return pairs.every((pair) => Array.isArray(pair) && pair.length === 2 && isToken(pair[0]) && isBias(pair[1]));
}

export const biasField = checked<BiasField>(
  `up to ${MAX_BIASES} pairs of a token and a bias in [-100, 100] or false, or an object of such biases; ` +
    `a token is an id or a text of 1 to ${MAX_TEXT_LENGTH} characters`,
  isBiasField,
);

/** A key of digits in an object is an id, since JSON's keys are strings. */
function pairsOf(field: BiasField): readonly Pair[] {
  if (Array.isArray(field)) return field as readonly Pair[];
  return Object.entries(field as Readonly<Record<string, Bias>>).map(
    ([key, bias]): Pair => [/^\d{1,10}$/.test(key) ? Number(key) : key, bias],
  );
}

/** The biases by id, in the form of OpenAI's requests. A text's bias applies to each of its tokens. */
export async function biasesOf(
  context: PromptContext & PlanContext,
  field: BiasField | undefined,
): Promise<Record<string, number> | undefined> {
  if (field === undefined) return undefined;
  const pairs = pairsOf(field);
  const texts = pairs.flatMap(([token]) => (typeof token === "string" ? [token] : []));
  const encoded = (await context.asyncTokenizer.encode(texts, { addSpecial: false, parseSpecial: false })).values();
  const biases: Record<string, number> = {};
  for (const [token, bias] of pairs) {
    const ids = typeof token === "string" ? encoded.next().value!.ids : [token];
    for (const id of ids) biases[id] = bias === false ? FORBIDDEN : bias;
  }
  const numBiases = Object.keys(biases).length;
  if (numBiases <= MAX_BIASES) return biases;
  throw new MillraceError(
    "invalid_parameter",
    `logit_bias: expected texts of at most ${MAX_BIASES} tokens in all, got ${numBiases}`,
    { param: "logit_bias" },
  );
}
