/** A refused key is logged once per upstream and minute. */
import { expect, test } from "vitest";
import { recordingLogger } from "../../../test/helpers/fake-server.js";
import { KeyWarnings } from "./key-warnings.js";

test("once for each upstream and minute, and for the statuses of keys alone", () => {
  const { logger, lines } = recordingLogger();
  let nowMs = 0;
  const warnings = new KeyWarnings(logger, () => nowMs);
  const told = () => lines.map(({ fields: { instance, status } }) => `${instance} ${status}`);
  for (const status of [200, 400, 429, 500, 401, 402, 401]) warnings.answered("a", "openai", "m", status);
  warnings.answered("b", "openai", "m", 403);
  expect(told()).toEqual(["a 401", "b 403"]);
  nowMs = 59_999;
  warnings.answered("a", "openai", "m", 401);
  expect(told()).toHaveLength(2);
  nowMs = 60_000;
  warnings.answered("a", "openai", "m", 401);
  expect(told()).toEqual(["a 401", "b 403", "a 401"]);
});
