/** Metrics of virtual models: the targets of routes, and the kept and lost answers of cascades. */
import { Counter, Gauge, type Registry } from "prom-client";
import type { CascadeReport, RouteCounts } from "../../gateway/cascade/cascade-report.js";

const PREFIX = "millrace_fleet:";

/** @param reports the state of all cascades, called at each scrape */
export function createRouteMetrics(registry: Registry, reports: () => readonly CascadeReport[]): RouteCounts {
  const registers = [registry];
  const routed = new Counter({
    name: `${PREFIX}route_requests_total`,
    help: "Requests that a route sent to a model, fallbacks included",
    labelNames: ["route", "model"],
    registers,
  });
  const fallbacks = new Counter({
    name: `${PREFIX}route_fallbacks_total`,
    help: "Errors of a model after which a route sent the request to another one, by class",
    labelNames: ["route", "model", "class"],
    registers,
  });
  const decisions = new Counter({
    name: `${PREFIX}cascade_requests_total`,
    help: "Requests of a cascade, by decision: kept, escalated, audited, closed, bypassed",
    labelNames: ["cascade", "decision"],
    registers,
  });
  const gauge = (name: string, help: string, figureOf: (report: CascadeReport) => number): void => {
    const made: Gauge = new Gauge({
      name: `${PREFIX}${name}`,
      help,
      labelNames: ["cascade"],
      registers,
      collect: () => {
        made.reset();
        for (const report of reports()) made.set({ cascade: report.name }, figureOf(report));
      },
    });
  };
  gauge("cascade_open", "1 while the small model may answer, 0 after the guard has closed the cascade", ({ isOpen }) =>
    Number(isOpen),
  );
  gauge("cascade_samples", "Audited requests that the estimate of the loss is made of", ({ numSamples }) => numSamples);
  gauge("cascade_loss", "Estimated share of requests with a worse answer than the large model's", ({ loss }) =>
    Number.isNaN(loss.mean) ? 0 : loss.mean,
  );
  gauge("cascade_loss_upper", "Upper end of its 95 % confidence sequence", ({ loss }) => loss.high);
  return {
    routed: (route, model) => routed.inc({ route, model }),
    fellBack: (route, model, errorClass) => fallbacks.inc({ route, model, class: errorClass }),
    decided: (cascade, decision) => decisions.inc({ cascade, decision }),
  };
}
