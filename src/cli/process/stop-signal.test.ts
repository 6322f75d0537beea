import { expect, test, vi } from "vitest";
import { withoutRepeats } from "./stop-signal.js";

test("a signal that npm repeats counts once; other signals, and the same one later, count again", () => {
  const handle = vi.fn();
  let nowMs = 5;
  const onSignal = withoutRepeats(handle, () => nowMs);
  onSignal("SIGINT");
  nowMs = 100;
  onSignal("SIGINT");
  expect(handle.mock.calls).toEqual([["SIGINT"]]);
  onSignal("SIGTERM");
  nowMs = 400;
  onSignal("SIGTERM");
  expect(handle.mock.calls).toEqual([["SIGINT"], ["SIGTERM"], ["SIGTERM"]]);
});
