/**
 * The file of a trained router: a calibrated classifier for the probability that the small model's answer is as good as
 * the large one's.
 */
import { z } from "zod";
import { MillraceError } from "../../core/errors.js";
import { gotOf, readRegular } from "../../core/read-text.js";
import { FEATURE_NAMES } from "./features.js";
import { calibrated } from "./isotonic.js";
import { logisticScore } from "./logistic.js";

const VERSION = 1;
const MAX_BYTES = 4 * 1024 * 1024;

const numbers = (length?: number) => (length === undefined ? z.array(z.number()) : z.array(z.number()).length(length));

const routerFileSchema = z.object({
  version: z.literal(VERSION),
  /** Names of the models at the time of training, for the reader. */
  small: z.string(),
  large: z.string(),
  features: z.array(z.string()).min(1),
  logistic: z.object({ means: numbers(), scales: numbers(), weights: numbers(), bias: z.number() }),
  isotonic: z.object({ from: numbers().min(1), values: z.array(z.number().min(0).max(1)).min(1) }),
  /** The floor that training proposes, and the target it was chosen for. */
  floor: z.number().min(0).max(1),
  maxLoss: z.number(),
  trained: z.object({ numPairs: z.number(), numHeldOut: z.number(), label: z.string(), at: z.string() }),
});

export type RouterFile = z.infer<typeof routerFileSchema>;

export const ROUTER_VERSION = VERSION;

/** The probability that an answer with these features is as good as the large model's. */
export function routerScore({ logistic, isotonic }: RouterFile, features: readonly number[]): number {
  return calibrated(isotonic, logisticScore(logistic, features));
}

/** @throws MillraceError file_unreadable, and config_value for a file that is not a router of this version */
export function readRouterFile(path: string): RouterFile {
  let text: string;
  try {
    text = readRegular(path);
  } catch (cause) {
    throw new MillraceError("file_unreadable", `expected a router in ${path}, got ${gotOf(cause)}`, {
      hint: "make one with millrace route train",
      cause,
    });
  }
  return parseRouter(text, path);
}

export function parseRouter(text: string, source: string): RouterFile {
  const refuse = (got: string): never => {
    throw new MillraceError("config_value", `expected a router of millrace route train in ${source}, got ${got}`, {
      hint: "train it again with this version",
    });
  };
  if (text.length > MAX_BYTES) return refuse(`${text.length} characters`);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    return refuse(`invalid JSON: ${(cause as Error).message}`);
  }
  const parsed = routerFileSchema.safeParse(value);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    return refuse(`${issue?.path.join(".") || "it"}: ${issue?.message}`);
  }
  const { features, logistic, isotonic } = parsed.data;
  if (features.join() !== FEATURE_NAMES.join()) return refuse("other features than this version has");
  const lengths = [logistic.means, logistic.scales, logistic.weights].map(({ length }) => length);
  if (lengths.some((length) => length !== features.length)) return refuse("weights for other features");
  if (logistic.scales.some((scale) => !(scale > 0))) return refuse("a scale that is not above 0");
  if (isotonic.from.length !== isotonic.values.length) return refuse("an isotonic function of two lengths");
  return parsed.data;
}
