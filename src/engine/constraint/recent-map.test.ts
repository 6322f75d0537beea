import { expect, test } from "vitest";
import { RecentMap } from "./recent-map.js";

test("the value set least recently is forgotten, and handed out", () => {
  const map = new RecentMap<number>(2);
  expect([map.set("a", 1), map.set("b", 2), map.set("a", 3), map.set("c", 4)]).toEqual([
    undefined,
    undefined,
    undefined,
    2,
  ]);
  expect([map.get("a"), map.has("b"), map.get("c")]).toEqual([3, false, 4]);
  map.clear();
  expect([map.has("a"), map.has("c")]).toEqual([false, false]);
});
