/** Routes as administrators see them: each rule with the shares of its models, and the destinations of requests. */
import type { ModelRoute, RouteRule } from "./route-table.js";
import type { RouteTally } from "./route-tally.js";

/** Headers' values may be secrets, so only their names are shown. */
function shownRule({ when: { headers, ...when }, to }: RouteRule): object {
  const sum = to.reduce((all, { weight }) => all + weight, 0);
  return {
    when: { ...when, ...(headers === undefined ? {} : { headers: Object.keys(headers) }) },
    to: to.map(({ model, weight }) => ({ model, share: weight / sum })),
  };
}

interface Tallies {
  readonly routed: RouteTally;
  /** Counts of the models that requests went on from. */
  readonly fallbacks: RouteTally;
}

export function routeReport(route: ModelRoute, { routed, fallbacks }: Tallies): object {
  const { name, aliases, rules, fallback, maxAttempts } = route;
  return {
    name,
    aliases,
    rules: rules.map(shownRule),
    fallback: Object.entries(fallback).map(([errorClass, models]) => ({ error: errorClass, models })),
    maxAttempts,
    requests: routed.of(name).map(({ end: model, count }) => ({ model, count })),
    fallbacks: fallbacks.of(name).map(({ end: model, count }) => ({ model, count })),
  };
}
