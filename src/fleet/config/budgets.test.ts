import { expect, test } from "vitest";
import { authorizeBy } from "../gateway/authorize.js";
import { highestPrice, highestTier, modelsBehind } from "../gateway/virtual-price.js";
import { checkConfig } from "./read-config.js";

const MODELS = "models:\n  - { name: m, model: m.gguf }\n";
const read = (text: string) => checkConfig(`${text}${MODELS}`, {});
const wrong = (text: string) => read(text).problems.map(({ path, code, message }) => `${path} ${code}: ${message}`);

test("a key has the limits of its organisation, its team and itself, in this order", () => {
  const { config } = read(`
orgs: { acme: { budget: { month: 100 }, soft-budget: { month: 80, day: "0.000000001" } } }
teams: { acme/web: { requests-per-minute: 60 } }
api-keys:
  - { tenant: shop, key: one, team: acme/web, limits: { budget: { hour: 0.15 }, concurrent-requests: 2 } }
  - { tenant: shop, key: two, team: acme/other, limits: { token-budget: { total: 9, day: 5 }, soft-token-budget: { day: 4 } } }
  - { tenant: free, key: three }
`);
  const limits = config!.apiKeys.map(({ scopes }) => scopes);
  const money = { requestsPerMinute: undefined, tokensPerMinute: undefined, concurrentRequests: undefined };
  const acme = {
    kind: "org",
    id: "acme",
    limits: {
      ...money,
      budgets: [
        { unit: "money", window: "day", hard: undefined, soft: 1n },
        { unit: "money", window: "month", hard: 100_000_000_000n, soft: 80_000_000_000n },
      ],
    },
  };
  const web = { kind: "team", id: "acme/web", limits: { ...money, requestsPerMinute: 60, budgets: [] } };
  const budgets = [{ unit: "money", window: "hour", hard: 150_000_000n, soft: undefined }];
  const own = { kind: "key", id: "shop", limits: { ...money, concurrentRequests: 2, budgets } };
  const ofTokens = [
    { unit: "tokens", window: "day", hard: 5n, soft: 4n },
    { unit: "tokens", window: "total", hard: 9n, soft: undefined },
  ];
  const other = { kind: "key", id: "shop#2", limits: { ...money, budgets: ofTokens } };
  expect(limits).toEqual([[acme, web, own], [acme, other], []]);
  const authorize = authorizeBy(config!.apiKeys);
  expect(authorize({ "x-api-key": "one" }).scopes).toEqual([acme, web, own]);
  expect(authorize({ "x-api-key": "three" }).scopes).toBeUndefined();
});

test("mistakes are told with their place", () => {
  expect(wrong("budgets: { url: redis://x }\n")).toEqual([
    "budgets.url config_conflict: expected redis or postgresql as the store beside url, got embedded",
  ]);
  expect(wrong("budgets: { store: redis }\n")).toEqual([
    "budgets.store config_conflict: expected url beside redis, got none",
  ]);
  expect(wrong("api-keys: [{ tenant: a, key: k, team: acme/web }]\n")).toEqual([
    "api-keys[0].team config_conflict: expected a team of teams, or of an organisation of orgs, got acme/web",
  ]);
  const [problem] = wrong("orgs: { acme: { budget: { day: -1 } } }\n");
  expect(problem).toMatch(
    /^orgs\.acme\.budget\.day config_value: expected .* to be dollars with at most nine decimals/,
  );
});

const price = (fresh: bigint, output: bigint) => ({ version: "1", fresh, cacheRead: fresh, cacheWrite: fresh, output });
const PRICES = new Map([
  ["a", price(1n, 10n)],
  ["b", price(3n, 5n)],
  ["c", price(100n, 100n)],
  ["e", price(1_000n, 8_000n)],
]);
const priceOf = (model: string) => PRICES.get(model);
const VIRTUAL = checkConfig(
  `
routes:
  - { name: r, aliases: [s], rules: [{ to: [{ model: a }, { model: b }] }], fallback: { timeout: [k] } }
  - { name: unpriced, rules: [{ to: d }] }
cascades:
  - { name: k, small: a, large: b, agreement: { samples: 2 } }
  - { name: judged, small: a, large: b, min-logprob: -1, audit: { judge: e } }
models:
${["a", "b", "c", "d", "e"].map((name) => `  - { name: ${name}, model: m.gguf }\n`).join("")}`,
  {},
).config!;

test("tokens of a virtual model are reserved for each of its models that may answer", () => {
  const token = price(1_000_000n, 1_000_000n);
  expect(highestPrice(VIRTUAL, "k", () => token)).toMatchObject({ fresh: 4_000_000n, output: 4_000_000n });
  expect(highestPrice(VIRTUAL, "unpriced", () => token)).toMatchObject({ fresh: 1_000_000n, output: 1_000_000n });
});

test("a virtual model is reserved at what its models cost at most", () => {
  expect(modelsBehind(VIRTUAL, "s")).toEqual(["a", "b"]);
  expect(modelsBehind(VIRTUAL, "c")).toEqual(["c"]);
  expect(highestPrice(VIRTUAL, "c", priceOf)).toMatchObject({ fresh: 100n });
  // Three answers of the small model, and one of the large.
  expect(highestPrice(VIRTUAL, "k", priceOf)).toMatchObject({ fresh: 6n, output: 35n });
  expect(highestPrice(VIRTUAL, "r", priceOf)).toMatchObject({ fresh: 6n, output: 35n });
  // The judge reads the prompt and both answers in both orders, and replies twice in a few tokens.
  const judge = { fresh: 2_001n + 1_000n, output: 4_000n };
  expect(highestPrice(VIRTUAL, "judged", priceOf)).toMatchObject({
    fresh: 4n + judge.fresh,
    output: 15n + judge.output,
  });
  expect(highestPrice(VIRTUAL, "unpriced", priceOf)).toBeUndefined();
  const tiered = { ...price(1n, 9n), above: { promptTokens: 5, price: price(2n, 8n) } };
  expect(highestTier(tiered)).toMatchObject({ fresh: 2n, output: 9n });
});
