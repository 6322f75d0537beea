import { expect, test } from "vitest";
import type { Rate } from "../usage/record.js";
import { HardwareMeter } from "./hardware-meter.js";
import { type BookSettings, ConfiguredPrices, type ModelPricing } from "./price-book.js";
import { listedRows, parsePriceList, priceFrom, readPriceList, rowAt } from "./price-list.js";
import { chargeOf, scaled } from "./tiered-price.js";

const counts = (fresh: number, output = 0) => ({ fresh, cacheRead: 0, cacheWrite: 0, output, reasoning: 0 });
const NOW = Date.parse("2026-06-01");

function book(models: Readonly<Record<string, ModelPricing>>, prices: BookSettings["prices"] = new Map()) {
  const settings = { models: new Map(Object.entries(models)), prices, batchThousandths: 250n };
  const list = readPriceList();
  return new ConfiguredPrices(
    () => settings,
    new HardwareMeter(() => 0),
    () => list,
    () => NOW,
  );
}

test("a model's own price comes first, then one by name, then its hardware's, then the list's; else there is none", () => {
  const own = priceFrom("own", { input: 1n, output: 2n });
  const named = priceFrom("named", { input: 3n, output: 4n });
  const models = {
    a: { price: own, nanoPerHour: 5n, listNames: ["gpt-4o"] },
    b: { nanoPerHour: 5n, listNames: ["named-there"] },
    c: { nanoPerHour: 5n, listNames: [] },
    d: { listNames: ["gpt-4o-2024-08-06"] },
    e: { listNames: ["some-model"] },
    f: { listNames: [] },
  };
  const prices = book(models, new Map([["named-there", named]]));
  expect([prices.priceOf("a"), prices.priceOf("b")]).toEqual([own, named]);
  expect(prices.priceOf("c")?.version).toMatch(/^hardware at \$0\.000000005\/h/);
  expect(prices.priceOf("d")).toMatchObject({
    fresh: 2_500_000_000n,
    cacheRead: 1_250_000_000n,
    output: 10_000_000_000n,
  });
  expect([prices.priceOf("e"), prices.priceOf("f"), prices.priceOf("g")]).toEqual([undefined, undefined, undefined]);
  expect(prices.priceOf("c", "batch")?.version).toMatch(/, batch$/);
  expect(prices.priceOf("c", "batch")).toBe(prices.priceOf("c", "batch"));
});

test.each([
  ["us.anthropic.claude-haiku-4-5-20251001-v1:0", "anthropic claude-haiku-4-5"],
  ["models/gemini-2.5-flash", "google gemini-2.5-flash"],
  ["gpt-5.1", "openai gpt-5.1"],
  ["claude-3-5-haiku-latest", "anthropic claude-3-5-haiku"],
])("%s is %s", (name, version) => {
  expect(rowAt(listedRows(readPriceList(), name), NOW)?.price.version).toContain(`${version} `);
});

test("lines of batches cost a share of the price on one's own hardware, and all of a paid API's", () => {
  const own = priceFrom("own", { input: 40n, output: 80n });
  const models = {
    here: { price: own, listNames: [] },
    api: { listNames: ["gpt-4o"] },
    apiToo: { price: own, listNames: ["x"] },
  };
  const prices = book(models);
  expect(prices.priceOf("here", "batch")).toEqual({
    version: "own, batch",
    fresh: 10n,
    cacheRead: 10n,
    cacheWrite: 10n,
    output: 20n,
  });
  for (const model of ["api", "apiToo"]) expect(prices.priceOf(model, "batch")).toBe(prices.priceOf(model));
});

test("a paid API's batch endpoint charges its share, each model its own, and only of the lines that it answers", () => {
  const own = priceFrom("own", { input: 40n, output: 80n });
  const api = { price: own, listNames: ["x"] };
  const prices = book({
    half: { ...api, batchThousandths: 500n },
    tenth: { ...api, batchThousandths: 100n },
    none: api,
  });
  const freshOf = (model: string, rate: Rate) => prices.priceOf(model, rate)?.fresh;
  const models = ["half", "tenth", "none"];
  expect(models.map((model) => freshOf(model, "provider-batch"))).toEqual([20n, 4n, 40n]);
  expect(prices.priceOf("half", "provider-batch")?.version).toBe("own, batch");
  for (const rate of ["full", "batch"] as const)
    expect(models.map((model) => freshOf(model, rate))).toEqual([40n, 40n, 40n]);
});

test("free is a price", () => {
  const free = priceFrom("own", { input: 0n, output: 0n });
  expect(book({ a: { price: free, listNames: [] } }).priceOf("a")).toBe(free);
});

test("long prompts have their own price, for all tokens of the request", () => {
  const price = book({ a: { listNames: ["anthropic/claude-sonnet-4-5-20250929"] } }).priceOf("a")!;
  expect(chargeOf(counts(200_000), price).nanoDollars).toBe(600_000_000n);
  expect(chargeOf(counts(200_001, 1000), price)).toEqual({
    nanoDollars: 200_001n * 6000n + 1000n * 22_500n,
    price: expect.stringMatching(/, long prompt$/),
  });
  expect(chargeOf(counts(200_001), scaled(price, 500n, "batch")).nanoDollars).toBe(200_001n * 3000n);
});

test("the row of the day counts", () => {
  const row = (from: string | undefined, input: string) => ({ model: "x", ...(from && { from }), input, output: "1" });
  const list = parsePriceList({
    lists: [
      {
        provider: "p",
        source: "s",
        seen: "2026-01",
        prices: [row(undefined, "3"), row("2026-03-01", "1"), row("2026-02-01", "2")],
      },
    ],
  });
  const at = (day: string) => rowAt(listedRows(list, "x"), Date.parse(day))?.price.fresh;
  expect(["2025-01-01", "2026-02-01", "2026-02-28", "2026-03-01", "2027-01-01"].map(at)).toEqual(
    [3n, 2n, 2n, 1n, 1n].map((dollars) => dollars * 1_000_000_000n),
  );
});

test("every listed price is of dollars above nothing, and reading from a cache is not dearer than computing", () => {
  const rows = [...readPriceList().values()].flat();
  expect(rows.length).toBeGreaterThan(30);
  for (const { price } of rows) {
    expect(price.fresh > 0n && price.cacheRead <= price.fresh && price.output >= 0n, price.version).toBe(true);
    if (price.above !== undefined) expect(price.above.price.fresh > price.fresh).toBe(true);
  }
});
