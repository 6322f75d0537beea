import { EventEmitter } from "node:events";
import { expect, test, vi } from "vitest";
import { FleetSignals } from "./fleet-signals.js";

test("signals end a start at once, and a fleet when its requests are done; a reload waits for the fleet; a signal that npm repeats counts once", async () => {
  vi.spyOn(process.stderr, "write").mockReturnValue(true);
  const own = Object.assign(new EventEmitter(), { exit: vi.fn() });
  const signals = new FleetSignals(true, own as never);
  for (const name of ["SIGTERM", "SIGINT", "SIGHUP", "SIGHUP"]) own.emit(name);
  expect(own.exit.mock.calls).toEqual([[143], [130]]);
  const reload = vi.fn();
  signals.fleetIsThere({ drain: async () => {} }, reload);
  expect(reload).toHaveBeenCalledTimes(1);
  for (const name of ["SIGHUP", "SIGTERM", "SIGTERM", "SIGINT"]) own.emit(name);
  expect(reload).toHaveBeenCalledTimes(2);
  expect(own.exit.mock.calls.slice(2)).toEqual([[130]]);
  await vi.waitFor(() => expect(own.exit).toHaveBeenLastCalledWith(0));
  vi.restoreAllMocks();
});
