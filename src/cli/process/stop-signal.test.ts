import { expect, test, vi } from "vitest";
import { exitOnSignals } from "./measure-servers.js";
import { onStopSignals, withoutRepeats } from "./stop-signal.js";

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

test("Ctrl-C, SIGTERM and a closed terminal all stop a command, until it no longer listens", () => {
  const stop = vi.fn();
  const names = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
  const before = names.map((name) => process.listenerCount(name));
  const stopListening = onStopSignals(stop);
  for (const name of names) process.emit(name, name);
  expect(stop.mock.calls).toEqual([[130], [143], [129]]);
  stopListening();
  expect(names.map((name) => process.listenerCount(name))).toEqual(before);
});

test("a command that saves nothing ends at a closed terminal, and its servers with it", () => {
  const exit = vi.spyOn(process, "exit").mockImplementation(() => undefined as never);
  exitOnSignals();
  process.emit("SIGHUP", "SIGHUP");
  expect(exit.mock.calls).toEqual([[129]]);
  for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.off(name, process.listeners(name).at(-1)!);
  exit.mockRestore();
});
