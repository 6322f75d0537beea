import { expect, test } from "vitest";
import { computedMs } from "../../../../test/helpers/computed-ms.js";
import type { UserPart } from "./conversation.js";
import { TurnList } from "./turns.js";

const text = (said: string): UserPart => ({ kind: "text", text: said });
const result = (id: string): UserPart => ({ kind: "result", id, parts: [], isError: false });

test("neighbours of one role are one turn, in which results come first, in their order", () => {
  const list = new TurnList();
  list.add("user", [text("a"), result("1")]);
  list.add("user", [text("")]);
  list.add("user", [text("b"), result("2")]);
  list.add("assistant", [{ kind: "text", text: "c" }]);
  list.add("user", [text("d")]);
  expect(list.numTurns).toBe(3);
  expect(list.turns).toEqual([
    { role: "user", parts: [result("1"), result("2"), text("a"), text("b")] },
    { role: "assistant", parts: [text("c")] },
    { role: "user", parts: [text("d")] },
  ]);
});

test("many items of one role take time linear in their number", () => {
  const list = new TurnList();
  const beginMs = computedMs();
  for (let i = 0; i < 30_000; i++) list.add("user", [i % 2 === 0 ? text("a") : result(String(i))]);
  expect(list.turns[0]!.parts).toHaveLength(30_000);
  expect(computedMs() - beginMs).toBeLessThan(2000);
});
