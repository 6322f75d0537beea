/** Metrics of semantic caches: the outcomes of lookups, the vetoes, and the hits that judgements allow. */
import { Counter, Gauge, type Registry } from "prom-client";
import type { SemanticCounts, SemanticStatus } from "../../gateway/semantic/counters.js";

const PREFIX = "millrace_fleet:semantic_cache_";

/** Event → the count it adds to. */
const EVENTS: Readonly<Record<string, Exclude<keyof SemanticCounts, "objections">>> = {
  lookup: "lookups",
  candidate: "candidates",
  agreed: "agreed",
  served: "served",
  audited: "audited",
  judged_same: "judgedSame",
  judged_different: "judgedDifferent",
  unjudged: "unjudged",
  reported: "reported",
  stored: "stored",
  failed: "failures",
};

/** @param statuses of all caches, called at each scrape */
export function createSemanticMetrics(registry: Registry, statuses: () => readonly SemanticStatus[]): void {
  const registers = [registry];
  const events: Counter = new Counter({
    name: `${PREFIX}events_total`,
    help: `What became of questions since the start: ${Object.keys(EVENTS).join(", ")}`,
    labelNames: ["model", "event"],
    registers,
    collect: () => {
      events.reset();
      for (const { model, counts } of statuses()) {
        for (const [event, key] of Object.entries(EVENTS)) events.inc({ model, event }, counts[key]);
      }
    },
  });
  const objections: Counter = new Counter({
    name: `${PREFIX}objections_total`,
    help: "Objections to the nearest kept question since the start, by veto",
    labelNames: ["model", "veto"],
    registers,
    collect: () => {
      objections.reset();
      for (const { model, counts } of statuses()) {
        for (const [veto, number] of Object.entries(counts.objections)) objections.inc({ model, veto }, number);
      }
    },
  });
  const gauge = (name: string, help: string, figureOf: (status: SemanticStatus) => number): void => {
    const made: Gauge = new Gauge({
      name: `${PREFIX}${name}`,
      help,
      labelNames: ["model"],
      registers,
      collect: () => {
        made.reset();
        for (const status of statuses()) made.set({ model: status.model }, figureOf(status));
      },
    });
  };
  gauge("entries", "Kept questions", ({ entries }) => entries);
  gauge("bytes", "Bytes of kept questions, vectors and answers", ({ bytes }) => bytes);
  gauge("serving", "1 while hits may be served", ({ state }) => Number(state === "serve"));
  gauge("disabled", "1 after audits have contradicted max-error", ({ state }) => Number(state === "disabled"));
  gauge("judged", "Hits that were judged, the last 5000 at most", ({ trust }) => trust.judged);
  gauge("error_upper", "Upper 95 % bound of the share of wrong ones among them", ({ trust }) => trust.upperBound);
}
