import { expect, test } from "vitest";
import { bundledModelPath } from "../../formats/locate-model.js";
import { replacementCost, trafficOf } from "./replacement-cost.js";

const teacherTokens = { inputTokens: 400, outputTokens: 100 };
const studentTokens = { inputTokens: 500, outputTokens: 80 };
const recorded = { requests: 60_000, inputTokens: 1000, outputTokens: 300, usd: 240 };
const sides = {
  teacherPath: undefined,
  studentPath: bundledModelPath("mill-student"),
  teacherTokens,
  studentTokens,
};
const flags = { hardware: "cpu-16", trainingCost: 1000 };
const price = { name: "given", usdPerMillionInput: 1, usdPerMillionOutput: 2, date: "given" };

test("the student's tokens of recorded requests are in the ratio of the items", () => {
  expect(trafficOf(undefined, recorded, teacherTokens, studentTokens)).toEqual({
    teacher: { requestsPerMonth: 60_000, inputTokens: 1000, outputTokens: 300 },
    student: { requestsPerMonth: 60_000, inputTokens: 1250, outputTokens: 240 },
  });
  const given = trafficOf(24, undefined, teacherTokens, studentTokens);
  expect(given?.teacher).toEqual({ requestsPerMonth: 730, ...teacherTokens });
  expect(given?.student).toEqual({ requestsPerMonth: 730, ...studentTokens });
  expect(trafficOf(undefined, undefined, teacherTokens, studentTokens)).toBeUndefined();
});

test("what the ledger has is the teacher's cost, in proportion where more requests are asked for", async () => {
  const cost = await replacementCost({ ...flags, studentPrice: price }, sides, recorded);
  // 60,000 requests of 1,250 and 240 tokens at $1 and $2 a million.
  expect(cost).toMatchObject({ teacher: { usdPerMonth: 240 }, student: { usdPerMonth: 103.8 } });
  expect(cost).toMatchObject({ savedPerMonth: 136.2, paybackMonths: expect.closeTo(1000 / 136.2, 9) });
  const twice = await replacementCost(
    { ...flags, requestsPerDay: (60_000 * 24) / 365, studentPrice: price },
    sides,
    recorded,
  );
  expect(twice).toMatchObject({ teacher: { usdPerMonth: expect.closeTo(480, 9) } });
});

test("a student without a price is planned on the machine", async () => {
  const cost = await replacementCost({ ...flags, requestsPerDay: 1e5, teacherPrice: price }, sides, undefined);
  expect(cost).toMatchObject({ student: { source: expect.stringMatching(/^predicted for .*16/) } });
});

test("what is missing for a cost is said", async () => {
  expect(await replacementCost(flags, sides, undefined)).toContain("--requests-per-day");
  expect(await replacementCost({ ...flags, requestsPerDay: 1 }, sides, undefined)).toContain("--teacher-price");
});
