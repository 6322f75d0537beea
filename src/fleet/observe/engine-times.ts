/**
 * Histograms of the instances' last scrapes, in Prometheus' text format. The library of the other metrics only exports
 * its own observations.
 */
import type { EngineMetrics } from "../upstream/engine.js";
import type { Upstream } from "../upstream/upstream.js";
import { familyText, histogramLines, labelsText } from "./metric-text.js";

const TIMES = [
  [
    "perTokenTimes",
    "millrace:request_time_per_output_token_seconds",
    "First to last token, divided by the tokens after the first",
  ],
  ["interTokenTimes", "millrace:inter_token_latency_seconds", "Between one token and the next"],
  ["queueTimes", "millrace:request_queue_time_seconds", "Arrival at the engine to admission"],
] as const satisfies readonly (readonly [keyof EngineMetrics, string, string])[];

export function timesText(upstreams: readonly Upstream[]): string {
  return TIMES.map(([key, name, help]) => {
    const lines = upstreams.flatMap(({ model, id, engine, metrics }) => {
      const times = metrics?.[key];
      if (times === undefined) return [];
      return histogramLines(name, labelsText({ model, instance: id, engine }), times.buckets, times.sumSeconds);
    });
    return familyText(name, help, "histogram", lines);
  }).join("\n");
}
