import { expect, test } from "vitest";
import { isCacheScope } from "../../core/cache-scope.js";
import { Secret } from "../../core/config-values.js";
import { authorizeBy } from "./authorize.js";

const authorize = authorizeBy([
  { tenant: "search", key: new Secret("sk-1") },
  { tenant: "support", key: new Secret("sk-2") },
]);

test("a key identifies its tenant, in either header", () => {
  expect(authorize({ authorization: "Bearer sk-1" })).toMatchObject({ tenant: "search" });
  expect(authorize({ "x-api-key": "sk-2" })).toMatchObject({ tenant: "support" });
});

test("by default two tenants do not share cached prefixes, and the keys of one tenant do", () => {
  const keys = ["a", "a", "b"].map((tenant, i) => ({ tenant, key: new Secret(`sk-${i}`) }));
  const scopes = (all: typeof keys, isIsolated?: boolean) =>
    all.map(({ key }) => authorizeBy(all, isIsolated)({ "x-api-key": key.reveal() }).cacheScope);
  const [first, second, third] = scopes(keys);
  expect([isCacheScope(first!), second, third === first]).toEqual([true, first, false]);
  expect(scopes(keys, false)).toEqual([undefined, undefined, undefined]);
  expect(scopes(keys.slice(0, 2))).toEqual([undefined, undefined]);
  expect(scopes(keys.slice(0, 1), true)).toEqual([first]);
  // A client can name a scope only if it knows one of the scope's keys.
  expect(scopes([{ tenant: "a", key: new Secret("other") }], true)).not.toEqual([first]);
});

test.each([{}, { authorization: "Bearer sk-3" }, { "x-api-key": "" }])("%j is refused", (headers) => {
  expect(() => authorize(headers)).toThrow(/expected a valid API key/);
});

test("without configured keys every request is allowed", () => {
  expect(authorizeBy([])({})).toEqual({ tenant: "" });
});
