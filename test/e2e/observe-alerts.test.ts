/** `millrace observe render`: promtool fires and silences each alert, and options that fit no file are refused. */
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parse, stringify } from "yaml";
import type { Watched } from "../../src/observe/watched.js";
import { PROMTOOL, rendered } from "../helpers/prometheus.js";
import { runMain } from "../helpers/run-main.js";
import { tempTree } from "../scripts/temp-tree.js";

interface Firing {
  readonly series: readonly (readonly [metric: string, values: string, labels?: string])[];
  readonly at: string;
  /** Between two values; a minute where it is absent. */
  readonly interval?: string;
  /** Labels of the alert beside its severity. */
  readonly labels?: Readonly<Record<string, string>>;
}

const ONE = { instance: "i", model_name: "m" };
const first = "millrace:time_to_first_token_seconds";

/** For each alert, series that fire it. */
const FIRING: Readonly<Record<Watched["kind"], Readonly<Record<string, Firing>>>> = {
  server: {
    MillraceDown: { series: [], at: "5m" },
    MillraceTargetDown: {
      series: [["up", "0x10"]],
      at: "5m",
      labels: { job: "millrace", instance: "i" },
    },
    MillraceFirstTokenLate: {
      series: [
        [`${first}_bucket`, "0+90x60", ',le="0.5"'],
        [`${first}_bucket`, "0+100x60", ',le="1"'],
        [`${first}_bucket`, "0+100x60", ',le="+Inf"'],
      ],
      at: "30m",
    },
    MillraceKvPressure: {
      series: [
        ["millrace:kv_cache_usage_perc", "0.95x20"],
        ["millrace:num_requests_waiting", "3x20"],
      ],
      at: "10m",
      labels: ONE,
    },
    MillracePreemptions: {
      series: [["millrace:num_preemptions_total", "0+60x60"]],
      at: "30m",
      labels: { model_name: "m" },
    },
    MillraceAcceptanceDrop: {
      series: [
        ["millrace:spec_decode_num_draft_tokens_total", "0+100x1600"],
        ["millrace:spec_decode_num_accepted_tokens_total", "0+80x1440 115220+20x160"],
      ],
      at: "26h",
      labels: { model_name: "m" },
    },
    MillraceTokenSurge: {
      series: [
        ["millrace:prompt_tokens_total", "0+300x2016 607800+3000x24"],
        ["millrace:generation_tokens_total", "0+0x2042"],
      ],
      interval: "5m",
      at: "169h50m",
      labels: { model_name: "m" },
    },
    MillraceFirstTokenFast: {
      series: [
        [`${first}_count`, "0+100x120"],
        [`${first}_bucket`, "0+10x120", ',le="0.5"'],
      ],
      at: "70m",
    },
    MillraceFirstTokenSlow: {
      series: [
        [`${first}_count`, "0+100x120"],
        [`${first}_bucket`, "0+50x120", ',le="0.5"'],
      ],
      at: "70m",
    },
    MillraceStalled: {
      series: [
        ["millrace:num_requests_running", "1x20"],
        ["millrace:engine_steps_total", "100x20"],
      ],
      at: "10m",
      labels: ONE,
    },
    MillraceQueue: {
      series: [
        ["millrace:request_queue_time_seconds_bucket", "0+90x60", ',le="5"'],
        ["millrace:request_queue_time_seconds_bucket", "0+100x60", ',le="10"'],
        ["millrace:request_queue_time_seconds_bucket", "0+100x60", ',le="+Inf"'],
      ],
      at: "40m",
      labels: { model_name: "m" },
    },
  },
  fleet: {
    MillraceErrors: {
      series: [
        ["millrace_fleet:requests_total", "0+10x60", ',outcome="failed"'],
        ["millrace_fleet:requests_total", "0+90x60", ',outcome="answered"'],
      ],
      at: "15m",
    },
    MillraceErrorsFast: {
      series: [
        ["millrace_fleet:requests_total", "0+20x120", ',outcome="failed"'],
        ["millrace_fleet:requests_total", "0+80x120", ',outcome="answered"'],
      ],
      at: "70m",
    },
    MillraceErrorsSlow: {
      series: [
        ["millrace_fleet:requests_total", "0+10x120", ',outcome="broken"'],
        ["millrace_fleet:requests_total", "0+90x120", ',outcome="answered"'],
      ],
      at: "70m",
    },
    MillraceBreakerOpen: {
      series: [["millrace_fleet:instance_breaker", "1x20", ',model="m",state="open"']],
      at: "10m",
      labels: { model: "m", instance: "i" },
    },
    MillraceEngineRestarts: {
      series: [["millrace_fleet:instance_starts", "1x10 2 3 4 5 5 5", ',model="m"']],
      at: "15m",
      labels: { model: "m", instance: "i" },
    },
    MillraceCascadeClosed: {
      series: [["millrace_fleet:cascade_open", "0x5", ',cascade="c"']],
      at: "5m",
      labels: { cascade: "c" },
    },
    MillraceSemanticCacheDisabled: {
      series: [["millrace_fleet:semantic_cache_disabled", "1x5", ',model="m"']],
      at: "5m",
      labels: { model: "m" },
    },
    MillraceCostAnomaly: {
      series: [["millrace_model:cost_dollars_total", "0+0.5x2016 1010+5x24", ',model="m"']],
      interval: "5m",
      at: "169h50m",
      labels: { model: "m" },
    },
    MillraceQualityDrift: {
      series: [["millrace_fleet:quality_drifted", "1x5", ',model="m",check="refusal"']],
      at: "5m",
      labels: { model: "m", check: "refusal" },
    },
  },
};

/** A healthy day, in which nothing fires. */
const HEALTHY: Firing["series"] = [
  ["up", "1x1600"],
  ["millrace:kv_cache_usage_perc", "0.95x1600"],
  ["millrace:num_requests_waiting", "0x1600"],
  ["millrace:num_requests_running", "4x1600"],
  ["millrace:engine_steps_total", "0+600x1600"],
  ["millrace:num_preemptions_total", "0+1x1600"],
  ["millrace:spec_decode_num_draft_tokens_total", "0+100x1600"],
  ["millrace:spec_decode_num_accepted_tokens_total", "0+80x1600"],
  ["millrace:prompt_tokens_total", "0+600x1600"],
  ["millrace:generation_tokens_total", "0+60x1600"],
  ["millrace:request_queue_time_seconds_bucket", "0+100x1600", ',le="0.1"'],
  ["millrace:request_queue_time_seconds_bucket", "0+100x1600", ',le="+Inf"'],
  [`${first}_count`, "0+100x1600"],
  [`${first}_bucket`, "0+97x1600", ',le="0.5"'],
  [`${first}_bucket`, "0+100x1600", ',le="+Inf"'],
  ["millrace_fleet:time_to_first_byte_seconds_count", "0+100x1600"],
  ["millrace_fleet:time_to_first_byte_seconds_bucket", "0+97x1600", ',le="0.5"'],
  ["millrace_fleet:time_to_first_byte_seconds_bucket", "0+100x1600", ',le="+Inf"'],
  ["millrace_fleet:requests_total", "0+999x1600", ',outcome="answered"'],
  ["millrace_fleet:requests_total", "0+1x1600", ',outcome="failed"'],
  ["millrace_fleet:instance_breaker", "0x1600", ',state="open"'],
  ["millrace_fleet:instance_starts", "1x1600"],
  ["millrace_fleet:cascade_open", "1x1600", ',cascade="c"'],
  ["millrace_fleet:semantic_cache_disabled", "0x1600"],
  ["millrace_fleet:quality_drifted", "0x1600", ',check="refusal"'],
  ["millrace_model:cost_dollars_total", "0+0.5x1600", ',model="m"'],
];

/** Another week that rises as evenly, and one hour of a new model: neither is an anomaly. */
const CALM_COSTS: Firing["series"] = [
  ["millrace_model:cost_dollars_total", "0+0.5x2042", ',model="even"'],
  ["millrace_model:cost_dollars_total", "_x2016 0+5x24", ',model="new"'],
];

const jobOf = (metric: string): string => (metric.startsWith("millrace_model:") ? "millrace-tenants" : "millrace");

test.skipIf(PROMTOOL === undefined).each(["server", "fleet"] as const)(
  "each alert of a %s fires on its cause and rests otherwise",
  async (kind) => {
    // What costs is known from the path of operators alone.
    const more = kind === "fleet" ? ["--tenants-key-file", join(tempTree({ key: "k\n" }), "key")] : [];
    const folder = await rendered(kind, ...more);
    const { groups } = parse(readFileSync(join(folder, "rules.yml"), "utf8")) as {
      groups: { rules: { alert: string; labels: { severity: string }; annotations?: object }[] }[];
    };
    const rules = groups.flatMap((group) => group.rules);
    // Annotations are sentences: only that they are there is of interest.
    for (const rule of rules) {
      expect(rule.annotations).toMatchObject({ summary: expect.stringMatching(/^[A-Z].*\.$/) });
      delete rule.annotations;
    }
    const inputOf = (series: Firing["series"]) =>
      series.map(([metric, values, labels = ""]) => ({
        series: `${metric}{job="${jobOf(metric)}",instance="i"${metric.startsWith("millrace:") ? ',model_name="m"' : ""}${labels}}`,
        values,
      }));
    const firing = FIRING[kind];
    const named = rules.filter(({ alert }) => alert in firing);
    expect(named.map(({ alert }) => alert).sort()).toEqual(Object.keys(firing).sort());
    /** Runs with no other rules than these, which Prometheus would evaluate over all of the weeks. */
    const testFile = (name: string, alerts: readonly string[], test: object): string => {
      const own = groups.map((group) => ({
        ...group,
        rules: group.rules.filter(({ alert }) => alerts.includes(alert)),
      }));
      const rest = own.filter((group) => group.rules.length > 0);
      writeFileSync(join(folder, `${name}.rules.yml`), stringify({ groups: rest }, { lineWidth: 0 }));
      const file = join(folder, `${name}.tests.yml`);
      const whole = { rule_files: [`${name}.rules.yml`], evaluation_interval: "5m", tests: [test] };
      writeFileSync(file, stringify(whole, { lineWidth: 0 }));
      return file;
    };
    const all = rules.map(({ alert }) => alert);
    const calm = all.filter((alert) => alert === "MillraceCostAnomaly");
    const files = [
      testFile("healthy", all, {
        interval: "1m",
        input_series: inputOf(HEALTHY),
        alert_rule_test: rules.map(({ alert }) => ({ eval_time: "26h", alertname: alert, exp_alerts: [] })),
      }),
      testFile("calm", calm, {
        interval: "5m",
        input_series: inputOf(CALM_COSTS),
        alert_rule_test: calm.map((alert) => ({ eval_time: "169h50m", alertname: alert, exp_alerts: [] })),
      }),
      ...named.map(({ alert, labels: { severity } }) =>
        testFile(alert, [alert], {
          interval: firing[alert]!.interval ?? "1m",
          input_series: inputOf(firing[alert]!.series),
          alert_rule_test: [
            {
              eval_time: firing[alert]!.at,
              alertname: alert,
              exp_alerts: [{ exp_labels: { severity, ...firing[alert]!.labels } }],
            },
          ],
        }),
      ),
    ];
    const said = execFileSync(PROMTOOL!, ["test", "rules", ...files], { encoding: "utf8" });
    expect(said.match(/SUCCESS/g)).toHaveLength(files.length);
    expect(execFileSync(PROMTOOL!, ["check", "config", join(folder, "prometheus.yml")], { encoding: "utf8" })).toMatch(
      /SUCCESS/,
    );
  },
);

test.skipIf(PROMTOOL === undefined)(
  "limits of whole seconds are found under Prometheus 3's names of buckets too",
  async () => {
    const folder = await rendered("server", "--ttft-ms", "10000");
    for (const le of ["10", "10.0"]) {
      const series = [
        { series: `${first}_count{job="millrace"}`, values: "0+100x120" },
        { series: `${first}_bucket{job="millrace",le="${le}"}`, values: "0+10x120" },
      ];
      const rules = {
        eval_time: "70m",
        alertname: "MillraceFirstTokenFast",
        exp_alerts: [
          {
            exp_labels: { severity: "critical" },
            exp_annotations: { summary: "Too many requests wait longer than 10000 ms for their first token." },
          },
        ],
      };
      const tests = [{ interval: "1m", input_series: series, alert_rule_test: [rules] }];
      const file = join(folder, `${le}.yml`);
      writeFileSync(file, stringify({ rule_files: ["rules.yml"], evaluation_interval: "5m", tests }, { lineWidth: 0 }));
      expect(execFileSync(PROMTOOL!, ["test", "rules", file], { encoding: "utf8" })).toMatch(/SUCCESS/);
    }
  },
);

test("a URL as target, a job that breaks a query, and a collector that sends to itself are refused", async () => {
  for (const [args, message] of [
    [["--targets", "http://127.0.0.1:8000/"], "host:port each"],
    [["--job", 'a"b'], "letters, digits"],
    [["--ttft-ms", "700"], "one of 1, 1.25, 1.6"],
    [["--otlp-endpoint", "http://127.0.0.1:4318"], "another place"],
    [["--kind", "fleet", "--tenants-key-file", "key"], "an absolute path"],
    [["--tenants-key-file", "/etc/key"], "with --kind fleet"],
  ] as const) {
    const ended = await runMain("observe", "render", "--out", join(tempTree({}), "watch"), ...args);
    expect(ended).toMatchObject({ exitCode: 2, stderr: expect.stringContaining(message) });
  }
});
