import { expect, test } from "vitest";
import type { ServableModel } from "../model/description/servable.js";
import { DEFAULT_ENGINE_OPTIONS } from "./api/options.js";
import { checkOptions, optionsFor } from "./check-options.js";

test.each([
  { enablePrefixCaching: false },
  { kvLayout: "contiguous" } as const,
])("no disk without memory: %o", (more) => {
  const backend = { kvBlockMultiple: 8 };
  const disk = { folder: "f", maxBytes: 1 };
  const options = { ...DEFAULT_ENGINE_OPTIONS, modelPath: "m", numThreads: 1, prefixCacheDisk: disk };
  expect(() => checkOptions(options, backend, 128, 128)).not.toThrow();
  expect(() => checkOptions({ ...options, ...more }, backend, 128, 128)).toThrow(/for --prefix-cache-disk/);
});

test("eviction takes layers of one shape, and a window that no text leaves is no window", () => {
  const layer = (numKvHeads: number, window: number) => ({
    mixer: { kind: "attention", numKvHeads, headDim: 64, window },
  });
  const layers = [layer(4, 1024), layer(2, 0)];
  const config = { isCausal: true, contextLength: 4096, layers } as unknown as ServableModel;
  const kvEviction = { policy: "snapkv", budget: { share: 0.5 } } as const;
  const options = { ...DEFAULT_ENGINE_OPTIONS, modelPath: "m", numThreads: 1, kvEviction };
  expect(optionsFor(config, options)).toBe(options);
  expect(() => optionsFor(config, { ...options, maxModelLen: 512 })).toThrow(/one shape for --kv-eviction, got 4 × 64/);
});
