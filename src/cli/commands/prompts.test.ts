import { join } from "node:path";
import { expect, test } from "vitest";
import { runMain } from "../../../test/helpers/run-main.js";
import { tempTree } from "../../../test/scripts/temp-tree.js";

const request = (second: number) => {
  const rules = "Answer briefly, name the source, and promise nothing that is not in the given passage. ".repeat(4);
  const system = { role: "system", content: `Now: 2026-11-27T10:00:0${second}Z\n${rules}` };
  return JSON.stringify({ messages: [system, { role: "user", content: '{\n    "a":     1\n}' }] });
};
const audit = async (...args: string[]) => {
  const folder = tempTree({ "requests.jsonl": [1, 2, 3].map(request).join("\n") });
  return (await runMain("prompts", "audit", join(folder, "requests.jsonl"), ...args)).stdout;
};

test("without prices there is no money; savings are positive", async () => {
  const text = await audit();
  expect(text).not.toMatch(/\$|a month/);
  const [, requests, , cached] = /^early differences +(\d+) +(-?\d+) +(-?\d+)/m.exec(text)!;
  expect([Number(requests), Number(cached) > 0]).toEqual([3, true]);
  expect(text).not.toMatch(/ -\d/);
});

test("with prices alone the money is that of the requests, however little; with a number it is a month's", async () => {
  const prices = ["--prices", "0.25,0.025,2"];
  const few = await audit(...prices);
  expect(few).toMatch(/; \$0\.0000\d+ for these requests$/m);
  expect(few).toMatch(/saves for these requests/);
  expect(few).not.toContain("a month");
  const many = await audit(...prices, "--per-month", "1000000");
  expect(many).toMatch(/; \$\d+(\.\d+)? a month$/m);
  expect(many).toContain("saves a month");
});
