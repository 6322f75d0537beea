/** When an engine rests between background steps, on a real model. How long is in background-rest.test.ts. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { type Completion, collect, request, runAlone } from "../../test/helpers/engine-requests.js";
import { writeRandomModel } from "../../test/helpers/random-model.js";
import { createCpuBackend } from "../backend/cpu/cpu-backend.js";
import { openModel } from "../model/open-model.js";
import { DEFAULT_ENGINE_OPTIONS } from "./api/options.js";
import { EngineCore } from "./engine-core.js";

const folder = mkdtempSync(join(tmpdir(), "millrace-rests-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

it("rests between background steps once others have been there, and never while one is", async () => {
  const modelPath = join(folder, "model.gguf");
  writeRandomModel(modelPath, { architecture: "llama", seed: 3 });
  const backend = createCpuBackend({ numThreads: 1 });
  try {
    const sizes = { modelPath, numThreads: 1, maxModelLen: 256, kvCacheMemoryBytes: 2 ** 22 };
    const core = await EngineCore.create(openModel(modelPath), { ...DEFAULT_ENGINE_OPTIONS, ...sizes }, backend);
    const line = { ...request([5, 6, 7, 5], { maxTokens: 200, temperature: 1 }), isBackground: true };
    core.add(1, line);
    const wanted: number[] = [];
    while (core.hasWork) {
      for (const { output } of await core.step()) wanted.push(...output.tokenIds);
      expect(core.restMs()).toBe(0);
    }
    await runAlone(core, request([9, 8]));

    const completions = new Map<number, Completion>();
    const step = async () => {
      for (const { requestId, output } of await core.step()) collect(completions, requestId, output);
    };
    core.add(2, line);
    while (core.restMs() === 0 && core.hasWork) await step();
    expect(core.restMs()).toBeGreaterThan(0);
    core.add(3, request([9, 8]));
    expect(core.restMs()).toBe(0);
    while (completions.get(3)?.finishReason === undefined) await step();
    expect(core.restMs()).toBeGreaterThan(0);
    core.rested(1000);
    expect(core.restMs()).toBe(0);
    while (core.hasWork) await step();
    expect(completions.get(2)!.tokenIds).toEqual(wanted);
    expect(core.restMs()).toBe(0);
  } finally {
    backend.destroy();
  }
});
