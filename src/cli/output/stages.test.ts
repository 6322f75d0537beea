import { afterEach, expect, test, vi } from "vitest";
import { stagesTo } from "./stages.js";

afterEach(() => void vi.useRealTimers());

test("progress rewrites its line on a terminal and is a line every ten seconds elsewhere", () => {
  vi.useFakeTimers();
  const told = (isTTY: boolean): readonly string[] => {
    const write = vi.fn();
    const stage = stagesTo({ isTTY, write })("training");
    for (let step = 1; step <= 30; step++) {
      vi.advanceTimersByTime(1000);
      stage.update(`step ${step}`);
    }
    return write.mock.calls.map(([text]) => String(text));
  };
  expect(told(false)).toEqual([10, 20, 30].map((step) => `  training      step ${step}\n`));
  expect(told(true)).toHaveLength(30);
  expect(told(true)[0]).toBe("\r\u001b[2K  training      step 1");
});
