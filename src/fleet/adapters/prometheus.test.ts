/** Prometheus' text format: labels, ranks, values, and lines that are none. */
import fc from "fast-check";
import { describe, expect, it, test } from "vitest";
import { metricsByName, NO_METRICS, PrometheusText, vllmMetricNames } from "./prometheus.js";
import { vllm } from "./vllm.js";

describe("a metrics text", () => {
  it("is summed or averaged over labels, whatever their quoted values contain", () => {
    const text = new PrometheusText(
      [
        "# HELP x one } brace",
        "# TYPE x gauge",
        'x{rank="0",name="a} \\" {b"} 0.25',
        'x{rank="1"} 7.5e-1 1700000000',
        "y +Inf",
        "z NaN",
        "bare 3",
        "no value",
      ].join("\n"),
    );
    expect(text.sum(["missing", "x"])).toBe(1);
    expect(text.mean(["x"])).toBe(0.5);
    expect([text.sum(["y"]), text.sum(["z"]), text.sum(["no"])]).toEqual([undefined, undefined, undefined]);
    expect(text.sum(["bare"])).toBe(3);
    expect(text.label("x", "rank")).toBe("0");
    expect(text.label("x", "ank")).toBeUndefined();
    expect(text.label("x", "name")).toBe('a} \\" {b');
  });

  it("gives undefined for missing metrics", () => {
    const names = vllmMetricNames("vllm:");
    const text = 'vllm:num_requests_running{engine="0"} 2.0\nvllm:num_requests_running{engine="1"} 1.0\n';
    expect(metricsByName(text, names)).toEqual({ ...NO_METRICS, numRunning: 3 });
  });

  it("has histograms, summed over ranks; one that is not whole is none", () => {
    const buckets = (rank: number, counts: readonly number[]) =>
      ["0.5", "2.0", "+Inf"].map(
        (end, i) => `vllm:request_queue_time_seconds_bucket{engine="${rank}",le="${end}"} ${counts[i]}\n`,
      );
    const whole = [...buckets(0, [1, 2, 3]), ...buckets(1, [0, 1, 1]), "vllm:request_queue_time_seconds_sum 2.5\n"];
    const times = [
      [0.5, 1],
      [2, 3],
      [Number.POSITIVE_INFINITY, 4],
    ];
    expect(metricsByName(whole.join(""), vllmMetricNames("vllm:")).queueTimes).toEqual({
      buckets: times,
      sumSeconds: 2.5,
    });
    const part = whole.filter((line) => !line.includes("+Inf")).join("");
    expect(metricsByName(part, vllmMetricNames("vllm:"))).toEqual(NO_METRICS);
    const many = Array.from({ length: 5000 }, (_, i) => `vllm:request_queue_time_seconds_bucket{le="${i}"} 1\n`).join(
      "",
    );
    expect(metricsByName(many + whole.join(""), vllmMetricNames("vllm:")).queueTimes).toBeUndefined();
  });

  it("may be arbitrary without a crash", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (text) => {
        expect(new PrometheusText(text).sum(["x"]) ?? 0).not.toBeNaN();
      }),
    );
  });

  it("is read back unchanged", () => {
    const labels = fc.dictionary(fc.stringMatching(/^[a-z_]\w{0,5}$/), fc.string({ unit: "grapheme-ascii" }), {
      maxKeys: 3,
    });
    fc.assert(
      fc.property(fc.array(fc.tuple(labels, fc.nat()), { minLength: 1 }), (samples) => {
        const quoted = (value: string) => value.replace(/["\\]/g, "\\$&");
        const lines = samples.map(([own, value]) => {
          const text = Object.entries(own).map(([name, label]) => `${name}="${quoted(label)}"`);
          return `metric{${text.join(",")}} ${value}`;
        });
        const sum = samples.reduce((total, [, value]) => total + value, 0);
        expect(new PrometheusText(lines.join("\n")).sum(["metric"])).toBe(sum);
      }),
    );
  });
});

test.each(["1e308", "-1", "9e15\nvllm:num_requests_running 9e15"])("a load of %s is none", (load) => {
  expect(vllm.parseMetrics(`vllm:num_requests_running ${load}\n`).numRunning).toBeUndefined();
});
