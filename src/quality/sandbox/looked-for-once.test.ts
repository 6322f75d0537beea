/** Facts about the machine that are remembered, and results of slow probes that are not. */
import { chmodSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import { tempTree } from "../../../test/scripts/temp-tree.js";
import type { Outcome } from "./run-confined.js";

const outcomes: Outcome[] = [];
vi.mock("./run-confined.js", () => ({ runProgram: async () => outcomes.shift() }));

afterEach(() => {
  vi.unstubAllEnvs();
  vi.resetModules();
});

test("a broken python3 is tried once", async () => {
  const folder = tempTree({ python3: '#!/bin/sh\necho asked >> "$(dirname "$0")/log"\nexit 1\n' });
  chmodSync(join(folder, "python3"), 0o755);
  vi.stubEnv("PATH", `${folder}:${process.env.PATH}`);
  const { pythonProgram } = await import("./python.js");
  expect([pythonProgram(), pythonProgram()]).toEqual([undefined, undefined]);
  expect(readFileSync(join(folder, "log"), "utf8")).toBe("asked\n");
});

test.runIf(process.platform === "linux")("a missing jail is remembered; a slow probe is not", async () => {
  const { whyUnconfined } = await import("./run-code.js");
  outcomes.push({ wallsMissing: "no answer", isLate: true }, { wallsMissing: "not permitted", isLate: false });
  expect(await whyUnconfined("typescript")).toBe("no answer");
  expect(await whyUnconfined("typescript")).toBe("not permitted");
  expect(await whyUnconfined("typescript")).toBe("not permitted");
});
