/**
 * Rendered files before other people's validators, each where it is installed: on PATH, or in MILLRACE_VALIDATORS (bin/
 * with programs, crds/ with CustomResourceDefinitions as their projects publish them). docs/guides/deploy.md says where
 * each is from.
 */
import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { Ajv } from "ajv";
import { afterAll, beforeAll, describe, expect, type TestContext, test } from "vitest";
import { parse, stringify } from "yaml";
import { demandQuery } from "../../src/image/kubernetes.js";
import { runMain } from "../helpers/run-main.js";

const own = process.env.MILLRACE_VALIDATORS;
const path = [...(own === undefined ? [] : [join(own, "bin")]), ...(process.env.PATH ?? "").split(delimiter)];

const folder = mkdtempSync(join(tmpdir(), "millrace-validators-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A machine with and one without GPUs; on Kubernetes also an instance over two nodes. */
const PRESETS = { cpu: ["cpu-8b", "--model", "hf:org/repo:Q4_K_M"], nvidia: ["rtx4090-70b"] } as const;
const VARIANTS = ["cpu", "nvidia"] as const;
const at = (...parts: readonly string[]): string => join(folder, ...parts);

beforeAll(async () => {
  const render = async (
    target: string,
    variant: (typeof VARIANTS)[number],
    out: string,
    ...more: readonly string[]
  ) => {
    const [preset, ...model] = PRESETS[variant];
    const packages = target === "kubernetes" ? [] : ["--package", "0.1.0"];
    const args = ["--target", target, "--preset", preset, ...model, ...packages, ...more];
    expect((await runMain("image", "render", ...args, "--out", at(out, variant))).stderr).toBe("");
  };
  for (const variant of VARIANTS) {
    for (const target of ["compose", "cloud-init", "packer", "systemd"]) await render(target, variant, target);
    await render("kubernetes", variant, "kubernetes", "--image", "registry.example/millrace:1");
  }
  await render("kubernetes", "nvidia", "nodes", "--image", "registry.example/millrace:1", "--nodes", "2");
});

/** Runs the first of the programs that is there; skips aloud where none is. @returns everything it said */
function validate(
  context: TestContext,
  programs: readonly (readonly string[])[],
  cwd: string,
  ...args: readonly string[]
): string {
  for (const [program = "", ...first] of programs) {
    const file = path.map((each) => join(each, program)).find(existsSync);
    if (file === undefined) continue;
    try {
      const env = { ...process.env, MILLRACE_API_KEY: "k" };
      return execFileSync("sh", ["-c", 'exec "$@" 2>&1', "sh", file, ...first, ...args], {
        cwd,
        env,
        encoding: "utf8",
      });
    } catch (thrown) {
      throw new Error(`${program} refuses: ${(thrown as { stdout?: string }).stdout}`);
    }
  }
  // Other people's programs, which a clone does not bring along: named, so that the summary says what was not checked.
  return context.skip(`needs ${programs.map(([program]) => program).join(" or ")}`);
}

describe.each(VARIANTS)("%s", (variant) => {
  test("hadolint accepts the Dockerfile", (context) => {
    expect(validate(context, [["hadolint"]], at("compose", variant), "Dockerfile")).toBe("");
  });

  test("docker-compose accepts the project, and reports a missing key", (context) => {
    const compose = [["docker-compose"]];
    expect(validate(context, compose, at("compose", variant), "-f", "compose.yaml", "config")).toMatch(
      /MILLRACE_API_KEY: k/,
    );
  });

  test.for([
    ["cloud-init", "user-data"],
    ["packer", "cidata/user-data"],
  ] as const)("cloud-init schema accepts %s's %s", ([target, file], context) => {
    const said = validate(context, [["cloud-init"]], at(target, variant), "schema", "--config-file", file);
    expect(said).toMatch(/^Valid (cloud-config|schema)/m);
  });

  test("packer validate accepts the template", (context) => {
    // Without the block for releases from 1.7 on, which would fetch the plugin; and without fetching the image's
    // checksum.
    const template = at("packer-alone", variant);
    cpSync(at("packer", variant), template, { recursive: true });
    rmSync(join(template, "plugins.pkr.hcl"));
    validate(context, [["packer"]], template, "validate", "-var", "iso_checksum=none", ".");
  });

  test("systemd-analyze verify accepts the units", (context) => {
    const units = readdirSync(at("systemd", variant, "root/etc/systemd/system")).filter((name) =>
      /\.(service|timer)$/.test(name),
    );
    expect(units).toHaveLength(3);
    const said = validate(
      context,
      [["systemd-analyze"]],
      at("systemd", variant, "root/etc/systemd/system"),
      "verify",
      ...units.map((name) => `./${name}`),
    );
    expect(said).toBe("");
  });

  test("sh parses the installer", (context) => {
    expect(validate(context, [["sh"]], at("systemd", variant), "-n", "install.sh")).toBe("");
  });

  test("promtool accepts the rules and KEDA's query", (context) => {
    const query = { groups: [{ name: "keda", rules: [{ record: "demand", expr: demandQuery("millrace/x", 12.8) }] }] };
    writeFileSync(at("query.yaml"), stringify(query, { lineWidth: 0 }));
    const rules = at("kubernetes", variant, "prometheus-rules.yaml");
    expect(validate(context, [["promtool"]], folder, "check", "rules", rules, "query.yaml")).toMatch(
      /SUCCESS: \d+ rules/,
    );
  });
});

/** What promtool itself computes from made-up series. */
test("promtool: alerts fire as intended, and KEDA's query counts the spare pod", (context) => {
  const job = "millrace/millrace-rtx4090-70b";
  const series = (metric: string, values: string, labels = "") => ({
    series: `${metric}{job="${job}"${labels}}`,
    values,
  });
  const cases = {
    rule_files: [at("kubernetes/nvidia/prometheus-rules.yaml")],
    evaluation_interval: "1m",
    tests: [
      {
        interval: "1m",
        input_series: [
          series("up", "1+0x30"),
          series("millrace_fleet:queue_depth", "10+0x30"),
          series("millrace_fleet:in_flight", "16+0x30"),
          series("millrace_fleet:instance_state", "1+0x30", ',state="ready"'),
          series("millrace_fleet:requests_total", "0+20x30", ',outcome="failed"'),
          series("millrace_fleet:requests_total", "0+80x30", ',outcome="answered"'),
        ],
        alert_rule_test: [
          { eval_time: "20m", alertname: "MillraceDown", exp_alerts: [] },
          ...["MillraceFull", "MillraceErrorsFast"].map((alertname) => ({
            eval_time: "20m",
            alertname,
            exp_alerts: [{ exp_labels: { severity: alertname === "MillraceFull" ? "warning" : "critical" } }],
          })),
        ],
        promql_expr_test: [
          { expr: demandQuery(job, 12.8), eval_time: "5m", exp_samples: [{ labels: "{}", value: 10 + 16 + 12.8 }] },
        ],
      },
      {
        interval: "1m",
        input_series: [],
        alert_rule_test: [
          { eval_time: "5m", alertname: "MillraceDown", exp_alerts: [{ exp_labels: { severity: "critical" } }] },
        ],
      },
    ],
  };
  // Annotations are sentences: only that they are there is of interest.
  const rules = parse(readFileSync(cases.rule_files[0]!, "utf8")) as {
    groups: { rules: { annotations?: object }[] }[];
  };
  for (const rule of rules.groups.flatMap(({ rules: each }) => each)) delete rule.annotations;
  writeFileSync(at("rules-alone.yaml"), stringify(rules, { lineWidth: 0 }));
  writeFileSync(at("cases.yaml"), stringify({ ...cases, rule_files: ["rules-alone.yaml"] }, { lineWidth: 0 }));
  expect(validate(context, [["promtool"]], folder, "test", "rules", "cases.yaml")).toMatch(/SUCCESS/);
});

interface Definition {
  readonly spec: {
    readonly names: { readonly kind: string };
    readonly versions: readonly { readonly name: string; readonly schema: { readonly openAPIV3Schema: object } }[];
  };
}

/** Unknown fields are dropped by the API server without a word: here they are mistakes. */
function strict(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(strict);
  if (typeof schema !== "object" || schema === null) return schema;
  // Go's expressions have a flag that JavaScript's do not.
  const entries = Object.entries(schema).filter(([key, value]) => key !== "pattern" || !String(value).includes("(?i)"));
  const all = Object.fromEntries(entries.map(([key, value]) => [key, strict(value)]));
  const isClosed =
    all.properties !== undefined &&
    all.additionalProperties === undefined &&
    all["x-kubernetes-preserve-unknown-fields"] !== true;
  return isClosed ? { ...all, additionalProperties: false } : all;
}

const ownKinds = ["ScaledObject", "PodMonitor", "PrometheusRule", "LeaderWorkerSet", "Kustomization"];

describe.each([
  ["kubernetes", "cpu"],
  ["kubernetes", "nvidia"],
  ["nodes", "nvidia"],
])("kubernetes objects: %s, %s", (target, variant) => {
  const objects = (): (readonly [string, { kind: string; spec: unknown }])[] =>
    (parse(readFileSync(at(target, variant, "kustomization.yaml"), "utf8")).resources as string[]).map((name) => [
      name,
      parse(readFileSync(at(target, variant, name), "utf8")),
    ]);

  test("kubernetes-validate accepts every built-in object in strict mode", (context) => {
    const builtIn = objects()
      .filter(([, { kind }]) => !ownKinds.includes(kind))
      .map(([name]) => name);
    expect(builtIn.length).toBeGreaterThanOrEqual(6);
    const said = validate(context, [["kubernetes-validate"]], at(target, variant), "--strict", ...builtIn);
    expect(said.match(/ passed for resource /g)).toHaveLength(builtIn.length);
  });

  test("the definitions of KEDA, the Prometheus operator and LeaderWorkerSet accept their objects in strict mode", (context) => {
    const crds = own === undefined ? undefined : join(own, "crds");
    // The projects' own files, too large to keep here.
    if (crds === undefined || !existsSync(crds))
      return context.skip("needs CustomResourceDefinitions in MILLRACE_VALIDATORS/crds");
    const definitions = readdirSync(crds).map((name) => parse(readFileSync(join(crds, name), "utf8")) as Definition);
    const custom = objects().filter(([, { kind }]) => ownKinds.includes(kind));
    expect(custom.length).toBeGreaterThanOrEqual(3);
    for (const [name, object] of custom) {
      const definition = definitions.find(({ spec }) => spec.names.kind === object.kind);
      if (definition === undefined) throw new Error(`expected the definition of ${object.kind} in ${crds}, got none`);
      const schema = strict(definition.spec.versions[0]!.schema.openAPIV3Schema) as {
        properties: { metadata: object };
      };
      schema.properties.metadata = { type: "object" };
      const check = new Ajv({ strict: false, validateFormats: false, logger: false }).compile(schema);
      expect(check(object) ? [] : check.errors, name).toEqual([]);
      expect(check({ ...object, spec: { ...(object.spec as object), misspelt: 1 } }), name).toBe(false);
    }
  });
});
