import { expect, test } from "vitest";
import { DEFAULT_ENGINE_OPTIONS } from "./api/options.js";
import { checkOptions } from "./check-options.js";

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
