import { Command } from "commander";
import { expect, test } from "vitest";
import { packFolder } from "../../core/cache-folder.js";
import { allowedCpus } from "../../core/cpu.js";
import { DEFAULT_ENGINE_OPTIONS } from "../../engine/api/options.js";
import type { EngineSettings } from "../../local/start-engine.js";
import { addEngineOptions, type EngineFlags, engineSettingsFrom } from "./engine-options.js";

function parse(...args: readonly string[]): EngineSettings & { readonly modelPath: string } {
  const command = addEngineOptions(new Command("engine")).parse(args, { from: "user" });
  return { ...engineSettingsFrom(command.opts<EngineFlags>()), modelPath: "model.gguf" };
}

test("without flags the engine gets its own defaults, and a cache of packed weights", () => {
  const packCache = { folder: packFolder(), maxBytes: 50 * 2 ** 30 };
  const wanted = { ...DEFAULT_ENGINE_OPTIONS, modelPath: "model.gguf", numThreads: 3, packCache };
  expect(parse("--threads", "3")).toEqual(wanted);
  expect(parse().numThreads).toBeGreaterThan(0);
});

const CASES: readonly [readonly string[], Partial<EngineSettings>][] = [
  [["--max-model-len", "256"], { maxModelLen: 256 }],
  [["--max-num-seqs", "8"], { maxNumSeqs: 8 }],
  [["--pack-cache-size", "0"], { packCache: undefined }],
  [["--max-num-batched-tokens=2048"], { maxNumBatchedTokens: 2048 }],
  [["--block-size", "32"], { blockSize: 32 }],
  [["--kv-cache-dtype", "f32"], { kvCacheDtype: "f32" }],
  [["--kv-cache-dtype", "auto"], { kvCacheDtype: "f16" }],
  [["--kv-cache-dtype", "measured"], { kvCacheDtype: "measured" }],
  [["--kv-cache-dtype", "fp8"], { kvCacheDtype: "fp8_e4m3" }],
  [["--kv-cache-dtype", "fp4"], { kvCacheDtype: "fp4" }],
  [["--kv-cache-memory-bytes", "64MiB"], { kvCacheMemoryBytes: 64 * 2 ** 20 }],
  [["--no-enable-prefix-caching"], { enablePrefixCaching: false }],
  [["--enable-prefix-caching"], { enablePrefixCaching: true }],
  [["--no-enable-chunked-prefill"], { enableChunkedPrefill: false }],
  [["--batching", "static"], { batching: "static" }],
  [["--kv-layout", "contiguous"], { kvLayout: "contiguous" }],
  [["--scheduling-policy", "fcfs"], { schedulingPolicy: "fcfs" }],
  [["--max-waiting-requests", "0"], { maxWaitingRequests: 0 }],
  [["--pooling", "mean"], { pooling: "mean" }],
];

test.each(CASES)("%j", (args, expected) => {
  expect(parse(...args)).toMatchObject(expected);
});

test("--cpu-affinity takes CPUs this process may use, and as many threads", () => {
  const [first] = allowedCpus();
  if (first !== undefined) {
    expect(parse("--cpu-affinity", `${first}`)).toMatchObject({ cpuAffinity: [first], numThreads: 1 });
    expect(parse("--cpu-affinity", `${first}-${first}`, "--threads", "2")).toMatchObject({ numThreads: 2 });
  }
  for (const wrong of ["99999", "x", "", "1-"]) {
    expect(() => parse("--cpu-affinity", wrong)).toThrow(expect.objectContaining({ code: "invalid_option" }));
  }
});
