import { expect, it } from "vitest";
import { acceptsOpenMetrics, Exemplars, toOpenMetrics } from "./open-metrics.js";

const TEXT = `# HELP a:hits_total Hits
# TYPE a:hits_total counter
a:hits_total{model="m"} 3

# HELP a:seconds Time
# TYPE a:seconds histogram
a:seconds_bucket{le="0.5",model="m \\"x\\"",instance="i"} 1
a:seconds_bucket{le="+Inf",model="m \\"x\\"",instance="i"} 2
a:seconds_sum{model="m \\"x\\"",instance="i"} 9
a:seconds_count{model="m \\"x\\"",instance="i"} 2
`;

it("gives each bucket the trace of its last request, and counters' families the names that the format wants", () => {
  const exemplars = new Exemplars("a:seconds", [0.5]);
  const labels = { model: 'm "x"', instance: "i" };
  exemplars.add(labels, 0.1, "first");
  exemplars.add(labels, 0.5, "last");
  exemplars.add(labels, 8.5, "late");
  const lines = toOpenMetrics(TEXT, [exemplars]).split("\n");
  const exemplar = (trace: string, value: number) =>
    expect.stringMatching(new RegExp(` # \\{trace_id="${trace}"\\} ${value} \\d{10}(\\.\\d+)?$`));
  expect(lines).toEqual([
    "# HELP a:hits Hits",
    "# TYPE a:hits counter",
    'a:hits_total{model="m"} 3',
    "# HELP a:seconds Time",
    "# TYPE a:seconds histogram",
    exemplar("last", 0.5),
    exemplar("late", 8.5),
    'a:seconds_sum{model="m \\"x\\"",instance="i"} 9',
    'a:seconds_count{model="m \\"x\\"",instance="i"} 2',
    "# EOF",
    "",
  ]);
});

it("is for scrapers that ask for it", () => {
  const prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.4,*/*;q=0.1";
  expect(acceptsOpenMetrics(prometheus)).toBe(true);
  expect(acceptsOpenMetrics("text/plain")).toBe(false);
  expect(acceptsOpenMetrics(undefined)).toBe(false);
});
