import { expect, test } from "vitest";
import { authorizeBy } from "./authorize.js";
import { Secret } from "./config/values.js";

const authorize = authorizeBy([
  { tenant: "search", key: new Secret("sk-1") },
  { tenant: "support", key: new Secret("sk-2") },
]);

test("a key speaks for its tenant, in either header", () => {
  expect(authorize({ authorization: "Bearer sk-1" })).toEqual({ tenant: "search" });
  expect(authorize({ "x-api-key": "sk-2" })).toEqual({ tenant: "support" });
});

test.each([{}, { authorization: "Bearer sk-3" }, { "x-api-key": "" }])("%j is nobody", (headers) => {
  expect(() => authorize(headers)).toThrow(/expected a valid API key/);
});

test("without keys everybody may", () => {
  expect(authorizeBy([])({})).toEqual({ tenant: "" });
});
