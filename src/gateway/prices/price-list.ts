/** The dated list prices of paid APIs, from assets/api-prices.json. Prices in the configuration override them. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { packageRoot } from "../../core/package-root.js";
import { parseDollars } from "../money.js";
import type { Price, TieredPrice } from "../usage/price.js";

const dollars = z.string().transform((written, context) => {
  const nano = parseDollars(written);
  if (nano !== undefined) return nano;
  context.addIssue({ code: "custom", message: `expected dollars such as 0.15, got ${written}` });
  return z.NEVER;
});

const amounts = {
  input: dollars,
  cacheRead: dollars.optional(),
  cacheWrite: dollars.optional(),
  output: dollars,
};

const row = z.strictObject({
  model: z.string(),
  /** First day of the price; absent: the price also holds for all days before. */
  from: z.iso.date().optional(),
  ...amounts,
  above: z.strictObject({ promptTokens: z.number().int().positive(), ...amounts }).optional(),
});

const file = z.strictObject({
  lists: z.array(
    z.strictObject({
      provider: z.string(),
      source: z.string(),
      /** Month in which the prices were read. */
      seen: z.string().regex(/^\d{4}-\d{2}$/),
      prices: z.array(row),
    }),
  ),
});

interface ListedPrice {
  readonly price: TieredPrice;
  readonly fromMs: number;
}

/** Rows by the model's name, each list from the newest to the oldest. */
export type PriceList = ReadonlyMap<string, readonly ListedPrice[]>;

/** Nano-dollars per million tokens, as in price lists and configurations. */
export interface Amounts {
  readonly input: bigint;
  readonly cacheRead?: bigint | undefined;
  readonly cacheWrite?: bigint | undefined;
  readonly output: bigint;
}

/** Cached tokens without a price of their own cost as much as others. */
export function priceFrom(version: string, { input, cacheRead, cacheWrite, output }: Amounts): Price {
  return { version, fresh: input, cacheRead: cacheRead ?? input, cacheWrite: cacheWrite ?? input, output };
}

export function parsePriceList(json: unknown): PriceList {
  const list = new Map<string, ListedPrice[]>();
  for (const { provider, seen, prices } of file.parse(json).lists) {
    for (const { model, from, above, ...own } of prices) {
      const version = `${provider} ${model} ${from ?? seen}`;
      const price: TieredPrice = {
        ...priceFrom(version, own),
        above: above && { promptTokens: above.promptTokens, price: priceFrom(`${version}, long prompt`, above) },
      };
      const fromMs = from === undefined ? 0 : Date.parse(from);
      const rows = list.get(model) ?? [];
      rows.push({ price, fromMs });
      list.set(
        model,
        rows.sort((a, b) => b.fromMs - a.fromMs),
      );
    }
  }
  return list;
}

export function readPriceList(): PriceList {
  return parsePriceList(JSON.parse(readFileSync(join(packageRoot(), "assets/api-prices.json"), "utf8")));
}

/** Bedrock's names have a region and a maker before the model's name, and a revision after it. */
const BEDROCK = /^(?:[a-z]+\.)?(?:anthropic|amazon|meta|mistral|cohere)\.(.+?)(?:-v\d+(?::\d+)?)?$/;
const VERSION = /-(?:latest|\d{8}|\d{4}-\d{2}-\d{2})$/;

/**
 * The rows of a model. Names may have a provider and a slash before them, and a version's date or `latest` after them.
 */
export function listedRows(list: PriceList, name: string): readonly ListedPrice[] {
  const last = name.slice(name.lastIndexOf("/") + 1);
  const bare = BEDROCK.exec(last)?.[1] ?? last;
  return list.get(name) ?? list.get(bare) ?? list.get(bare.replace(VERSION, "")) ?? [];
}

/** The row in force at a time. */
export function rowAt(rows: readonly ListedPrice[], atMs: number): ListedPrice | undefined {
  return rows.find(({ fromMs }) => fromMs <= atMs);
}
