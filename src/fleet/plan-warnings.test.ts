import { pino } from "pino";
import { expect, test } from "vitest";
import { parseConfig } from "./config/read-config.js";
import { warnOfPlan } from "./plan-warnings.js";

function warnings(keys: string): string {
  const lines: string[] = [];
  const logger = pino({}, { write: (line: string) => void lines.push(line) });
  warnOfPlan(parseConfig(`models: [{ name: m, model: a }]\n${keys}`, "millrace.yaml", {}), [], logger);
  return lines.join("");
}

test("operators with short keys are named, without the key", () => {
  const long = "k".repeat(22);
  const text = warnings(`admin-key: ${long}\noperators: [{ name: otto, role: viewer, key: hunter2 }]`);
  expect(text).toContain('"operators":["otto"]');
  expect(text).toContain("may be guessed");
  expect(text).not.toContain("hunter2");
  expect(warnings(`admin-key: ${long}`)).toBe("");
  expect(warnings("")).toBe("");
});
