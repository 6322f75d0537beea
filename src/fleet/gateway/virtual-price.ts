/**
 * An upper bound of a virtual model's price: the most expensive model of a route, or all models of a cascade together.
 * A budget reserves at this price, and settles the actual cost.
 */
import type { Price, TieredPrice } from "../../gateway/usage/price.js";
import type { FleetConfig } from "../config/schema.js";

type Virtual = Pick<FleetConfig, "routes" | "cascades">;

/** Routes lead to cascades, and cascades lead to models. */
const MAX_DEPTH = 3;
/** Assumed: a prompt has at least this many times the tokens of a judge's reply. */
const JUDGE_SHARE = 16n;

/** Whether the name is one of an entry's names. */
export const isNamed =
  (name: string) =>
  (entry: { readonly name: string; readonly aliases: readonly string[] }): boolean =>
    entry.name === name || entry.aliases.includes(name);

function targetsOf({ rules, fallback }: Virtual["routes"][number]): readonly string[] {
  const targets = [...rules.flatMap(({ to }) => to.map(({ model }) => model)), ...Object.values(fallback).flat()];
  return [...new Set(targets.filter((each) => each !== undefined))];
}

/** All models that may answer for a name; for the name of a single model, that name. */
export function modelsBehind(config: Virtual, name: string, depth = 0): readonly string[] {
  const cascade = config.cascades.find(isNamed(name));
  if (cascade !== undefined) return [cascade.small, cascade.large];
  const route = config.routes.find(isNamed(name));
  if (route === undefined || depth >= MAX_DEPTH) return [name];
  return [...new Set(targetsOf(route).flatMap((each) => modelsBehind(config, each, depth + 1)))];
}

/** @returns undefined if a model has no price */
export function highestPrice(
  config: Virtual,
  name: string,
  priceOf: (model: string) => Price | undefined,
  depth = 0,
): Price | undefined {
  const cascade = config.cascades.find(isNamed(name));
  if (cascade !== undefined) {
    const { small, large, agreement, audit } = cascade;
    // Each sample of the small model is a paid answer.
    const answers = [...Array<string>(1 + (agreement?.samples ?? 0)).fill(small), large].map(priceOf);
    const judge = audit.judge === undefined ? [] : [judgedTwice(priceOf(audit.judge))];
    return combined([...answers, ...judge], (a, b) => a + b);
  }
  const route = config.routes.find(isNamed(name));
  if (route === undefined || depth >= MAX_DEPTH) return priceOf(name);
  const prices = targetsOf(route).map((each) => highestPrice(config, each, priceOf, depth + 1));
  return combined(prices, most);
}

/**
 * Cost of a judge's two replies, per token of the prompt and of one answer: it reads the prompt and both answers, in
 * both orders.
 */
function judgedTwice(price: Price | undefined): Price | undefined {
  if (price === undefined) return undefined;
  const read = [price.fresh, price.cacheRead, price.cacheWrite].reduce(most);
  // Assumed: the prompt is longer than the text around the answers, and than JUDGE_SHARE replies.
  const prompt = 2n * read + (2n * price.output) / JUDGE_SHARE + 1n;
  return { version: price.version, fresh: prompt, cacheRead: prompt, cacheWrite: prompt, output: 4n * read };
}

const most = (a: bigint, b: bigint): bigint => (a > b ? a : b);

/** The highest price per token, over all prompt lengths. */
export function highestTier(price: TieredPrice | undefined): Price | undefined {
  return price?.above === undefined ? price : combined([price, price.above.price], most);
}

function combined(prices: readonly (Price | undefined)[], by: (a: bigint, b: bigint) => bigint): Price | undefined {
  const known = prices.filter((price) => price !== undefined);
  const [first, ...rest] = known;
  if (first === undefined || known.length < prices.length) return undefined;
  return rest.reduce(
    (sum, each) => ({
      version: sum.version,
      fresh: by(sum.fresh, each.fresh),
      cacheRead: by(sum.cacheRead, each.cacheRead),
      cacheWrite: by(sum.cacheWrite, each.cacheWrite),
      output: by(sum.output, each.output),
    }),
    first,
  );
}
