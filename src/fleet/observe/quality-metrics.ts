/** Metrics of sampled answers: their number, the results of their checks, and the dropped ones. */
import { Counter, Gauge, type Registry } from "prom-client";
import type { QualityCounts } from "../../gateway/quality/quality.js";

const PREFIX = "millrace_fleet:quality_";

/** @param counts called at each scrape; undefined: nothing is sampled */
export function createQualityMetrics(registry: Registry, counts: () => QualityCounts | undefined): void {
  const registers = [registry];
  const counter = (
    name: string,
    help: string,
    labelNames: readonly string[],
    set: (made: Counter, now: QualityCounts) => void,
  ): void => {
    const made: Counter = new Counter({
      name: `${PREFIX}${name}_total`,
      help,
      labelNames,
      registers,
      collect: () => {
        made.reset();
        const now = counts();
        if (now !== undefined) set(made, now);
      },
    });
  };
  counter("samples", "Answers that were sampled and judged", ["model"], (made, { samples }) => {
    for (const [model, count] of samples) made.inc({ model }, count);
  });
  counter(
    "dropped",
    "Samples that were lost: queue_full, too_large, unreadable, failed",
    ["reason"],
    (made, { drops }) => {
      for (const [reason, count] of Object.entries(drops)) made.inc({ reason }, count);
    },
  );
  const ofChecks = (name: string, help: string, figure: "count" | "failing"): void =>
    counter(name, help, ["model", "check"], (made, { judged }) => {
      for (const [model, checks] of judged) {
        for (const [check, counted] of checks) made.inc({ model, check }, counted[figure]);
      }
    });
  ofChecks("judged", "Verdicts on sampled answers, and feedback, by check", "count");
  ofChecks("failing", "Verdicts that fail", "failing");
  const drifted: Gauge = new Gauge({
    name: `${PREFIX}drifted`,
    help: "1 while the share of failing answers is above its usual level, for all tenants or for one",
    labelNames: ["model", "check"],
    registers,
    collect: () => {
      drifted.reset();
      const now = counts();
      for (const [model, checks] of now?.judged ?? []) {
        for (const check of checks.keys()) drifted.set({ model, check }, 0);
      }
      for (const { model, name: check } of now?.drifted ?? []) drifted.set({ model, check }, 1);
    },
  });
  const bytes: Gauge = new Gauge({
    name: `${PREFIX}text_bytes`,
    help: "Bytes of the texts of samples and feedback that are kept",
    registers,
    collect: () => bytes.set(counts()?.textBytes ?? 0),
  });
}
