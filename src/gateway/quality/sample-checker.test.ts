import { expect, test } from "vitest";
import type { CheckAnswer, CheckJob } from "./check-job.js";
import { SampleChecker } from "./sample-checker.js";

test("a tenant takes half of the places at most, and others find theirs", async () => {
  const waiting: ((answer: CheckAnswer) => void)[] = [];
  const checker = new SampleChecker({ run: () => new Promise((resolve) => waiting.push(resolve)), end: () => {} });
  const job: CheckJob = { kind: "texts", texts: ["a"] };
  const ask = (tenant: string, count: number) => Array.from({ length: count }, () => checker.check(job, tenant));
  const flood = ask("a", 1000);
  expect(waiting).toHaveLength(128);
  const others = ask("b", 1000);
  expect(waiting).toHaveLength(128 + 64);
  for (const resolve of waiting.splice(0)) resolve({ kind: "unreadable" });
  const answers = await Promise.all([...flood, ...others]);
  expect(answers.filter((answer) => answer === "queue_full")).toHaveLength(2000 - 192);
  const [again] = ask("a", 1);
  for (const resolve of waiting) resolve({ kind: "unreadable" });
  expect(await again).toEqual({ kind: "unreadable" });
});
