import { expect, test } from "vitest";
import {
  hitRate,
  type ModelCounts,
  objectionsText,
  percent,
  purgeOf,
  type SemanticStatus,
  semanticState,
} from "./cache-figures.js";

const none: ModelCounts = {
  model: "m",
  hit: 0,
  joined: 0,
  miss: 0,
  stale: 0,
  bypass: 0,
  saved_prompt_tokens: 0,
  saved_output_tokens: 0,
};

test("the hit rate is of the requests that were looked up, of all models together", () => {
  expect(hitRate([{ ...none, bypass: 9 }])).toBe(undefined);
  expect(
    hitRate([
      { ...none, hit: 2, miss: 1 },
      { ...none, joined: 1, stale: 4, bypass: 9 },
    ]),
  ).toBe(3 / 8);
  expect([percent(undefined), percent(3 / 8)]).toEqual(["–", "37.5 %"]);
});

test.each([
  [{ model: "", tenant: "", prefix: "" }, "all=true", "all kept answers"],
  [{ model: "a&b", tenant: "", prefix: "" }, "model=a%26b", "the kept answers of a&b"],
  [
    { model: "m", tenant: "t", prefix: "doc:" },
    "model=m&tenant=t&prefix=doc%3A",
    "the kept answers of m for the tenant t with a tag that begins with doc:",
  ],
])("a purge by %o", (fields, query, words) => {
  expect(purgeOf(fields)).toEqual({ query, words });
});

const semantic = (
  state: SemanticStatus["state"],
  mode: SemanticStatus["mode"],
  trust: Partial<SemanticStatus["trust"]>,
): string =>
  semanticState({
    state,
    mode,
    min_judged: 300,
    max_error: 0.01,
    trust: { judged: 0, wrong: 0, upper_bound: 1, audited: 0, audited_wrong: 0, is_earned: false, ...trust },
  } as SemanticStatus);

test.each([
  ["it has judged too few", semantic("shadow", "serve", { judged: 120 }), /180 more/],
  [
    "too many may be wrong",
    semantic("shadow", "serve", { judged: 400, upper_bound: 0.031 }),
    /3\.1 % may be wrong, 1\.0 %/,
  ],
  [
    "the operator has not let it serve",
    semantic("shadow", "shadow", { judged: 400, is_earned: true }),
    /^could serve: mode/,
  ],
  ["it serves", semantic("serve", "serve", { judged: 400, is_earned: true }), /^serves hits$/],
  ["audits ended it", semantic("disabled", "serve", { judged: 400, is_earned: true }), /^stopped/],
])("the state says that %s", (_, text, words) => {
  expect(text).toMatch(words);
});

test("objections are shown from the most frequent", () => {
  expect(objectionsText({})).toBe("–");
  expect(objectionsText({ names: 2, quantities: 1234 })).toBe("quantities 1,234, names 2");
  expect(objectionsText({ a: 5, b: 4, c: 3, d: 2, e: 1 })).toBe("a 5, b 4, c 3, d 2, …");
});
