import { readFileSync } from "node:fs";
import { expect, test, vi } from "vitest";
import { silentStages } from "../../core/stages.js";
import { type DiskStage, runProgram } from "./run-program.js";

const isRunning = (pid: number): boolean => {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
};

test.skipIf(process.platform !== "linux")("a stopped build ends its program and the children of that", async () => {
  const stopping = new AbortController();
  let pid = 0;
  const stage: DiskStage = {
    ...silentStages("test"),
    signal: stopping.signal,
    update: (line) => {
      pid = Number(line);
      stopping.abort();
    },
  };
  const command = ["unshare", "sh", "-c", "sleep 60 & echo $!; wait"] as const;
  await expect(runProgram(stage, command)).rejects.toMatchObject({ name: "AbortError" });
  expect(pid).toBeGreaterThan(0);
  // The program's output closes a moment before its end.
  await vi.waitFor(() => expect(isRunning(pid)).toBe(false), { timeout: 20_000 });
  await expect(runProgram(stage, command)).rejects.toMatchObject({ name: "AbortError" });
});
