import { spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { ProcessWatch } from "./process-usage.js";

test.skipIf(process.platform !== "linux")("a busy child counts with its parent, memory too", async () => {
  const busy = "const a = Buffer.alloc(1 << 27, 1); console.log(1); for (;;) a[0]++;";
  const spawnChild = `require('child_process').spawn(process.execPath, ['-e', '${busy}'], { stdio: 'inherit' })`;
  const parent = spawn(process.execPath, ["-e", spawnChild], { stdio: ["ignore", "pipe", "ignore"] });
  // The child reports that it has its memory, however long its start takes.
  await once(parent.stdout, "data");
  const watch = new ProcessWatch(parent.pid!);
  await sleep(1500);
  const usage = watch.finish()!;
  const child = spawn("pkill", ["-P", String(parent.pid)]);
  await new Promise((resolve) => child.once("exit", resolve));
  parent.kill();
  expect(usage.peakMemoryBytes).toBeGreaterThan(1 << 27);
  expect(usage.cpuCores).toBeGreaterThan(0.05);
  expect(usage.cpuCores).toBeLessThan(2.5);
});

test("a missing process has undefined usage", () => {
  expect(new ProcessWatch(2 ** 30).finish()).toBeUndefined();
});
