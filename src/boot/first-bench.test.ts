import type * as ChildProcess from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { runFirstBench } from "./first-bench.js";

const stand = vi.hoisted(() => ({ script: "" }));
vi.mock("node:child_process", async (original) => {
  const real = await original<typeof ChildProcess>();
  return { ...real, spawn: () => real.spawn(process.execPath, ["-e", stand.script], { stdio: "ignore" }) };
});

test("a boot that ends asks its bench to end, which can then end its servers", async () => {
  const folder = mkdtempSync(join(tmpdir(), "first-bench-"));
  const ready = join(folder, "ready");
  stand.script = `process.on("SIGTERM", () => process.exit(7)); setInterval(() => {}, 1000);
    require("node:fs").writeFileSync(${JSON.stringify(ready)}, "")`;
  try {
    const files = { htmlFile: join(folder, "a.html"), jsonFile: join(folder, "a.json") };
    const ended = runFirstBench({ url: "http://127.0.0.1:1", modelPath: undefined, model: "m", apiKey: "", ...files });
    await vi.waitFor(() => expect(existsSync(ready)).toBe(true), 5000);
    process.listeners("exit").at(-1)!(0);
    expect(await ended).toBe(7);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
