import { Registry } from "prom-client";
import { expect, test } from "vitest";
import type { QualityCounts } from "../../gateway/quality/quality.js";
import { createQualityMetrics } from "./quality-metrics.js";

test("counts are read at each scrape, and a drift that lasts is 1", async () => {
  const judged = new Map([
    ["refusal", { count: 7, failing: 2 }],
    ["length", { count: 7, failing: 0 }],
  ]);
  const counts: QualityCounts = {
    samples: new Map([["m", 7]]),
    judged: new Map([["m", judged]]),
    drops: { queue_full: 3, too_large: 0, unreadable: 0, failed: 0 },
    drifted: [{ model: "m", name: "refusal" }],
    textBytes: 512,
  };
  let now: QualityCounts | undefined;
  const registry = new Registry();
  createQualityMetrics(registry, () => now);
  expect(await registry.metrics()).not.toContain('model="m"');
  now = counts;
  await registry.metrics();
  const text = await registry.metrics();
  for (const line of [
    'samples_total{model="m"} 7',
    'dropped_total{reason="queue_full"} 3',
    'judged_total{model="m",check="length"} 7',
    'failing_total{model="m",check="refusal"} 2',
    'drifted{model="m",check="refusal"} 1',
    'drifted{model="m",check="length"} 0',
    "text_bytes 512",
  ]) {
    expect(text).toContain(`millrace_fleet:quality_${line}`);
  }
});
