/** Histograms of the instances' last scrapes, in Prometheus' text format. The library of the other metrics makes histograms only of what it has seen itself. */
import type { EngineMetrics, EngineTimes } from "../upstream/engine.js";
import type { Upstream } from "../upstream/upstream.js";

const TIMES = [
  [
    "perTokenTimes",
    "millrace:request_time_per_output_token_seconds",
    "First to last token, divided by the tokens after the first",
  ],
  ["queueTimes", "millrace:request_queue_time_seconds", "Arrival at the engine to admission"],
] as const satisfies readonly (readonly [keyof EngineMetrics, string, string])[];

const ESCAPES: Readonly<Record<string, string>> = { "\n": "\\n", '"': '\\"', "\\": "\\\\" };

const quoted = (text: string): string => text.replace(/[\n"\\]/g, (each) => ESCAPES[each]!);

export function timesText(upstreams: readonly Upstream[]): string {
  return TIMES.map(([key, name, help]) => {
    const lines = upstreams.flatMap((upstream) => {
      const times = upstream.metrics?.[key];
      return times === undefined ? [] : linesOf(name, upstream, times);
    });
    return [`# HELP ${name} ${help}`, `# TYPE ${name} histogram`, ...lines, ""].join("\n");
  }).join("\n");
}

function linesOf(name: string, { model, id, engine }: Upstream, { buckets, sumSeconds }: EngineTimes): string[] {
  const labels = `model="${quoted(model)}",instance="${quoted(id)}",engine="${engine}"`;
  const counted = buckets.map(([end, count]) => {
    const bound = end === Number.POSITIVE_INFINITY ? "+Inf" : String(end);
    return `${name}_bucket{le="${bound}",${labels}} ${count}`;
  });
  const sum = sumSeconds === undefined ? [] : [`${name}_sum{${labels}} ${sumSeconds}`];
  return [...counted, ...sum, `${name}_count{${labels}} ${buckets.at(-1)![1]}`];
}
