import { expect, test } from "vitest";
import { endUserOf } from "./end-user.js";

test.each([
  [{ user: "ann" }, "ann"],
  [{ user: "hash of bob", safety_identifier: "bob" }, "bob"],
  [{ metadata: { user_id: "carl" } }, "carl"],
  [{ user: "", metadata: { user_id: "carl" } }, "carl"],
  [{ user: 5, metadata: null }, ""],
  [{ user: "x".repeat(300) }, "x".repeat(128)],
])("%o is for %s", (body, name) => {
  expect(endUserOf({}, body)).toBe(name);
});

test("the header counts before the body's fields", () => {
  expect(endUserOf({ "x-millrace-user": "dora" }, { user: "ann" })).toBe("dora");
});
