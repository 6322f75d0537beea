/** docs/reference/metrics.md lists what a server and a fleet show under /metrics. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { LedgerFigures } from "../../src/fleet/observe/ledger-figures.js";
import { createFleetMetrics } from "../../src/fleet/observe/metrics.js";
import { createQualityMetrics } from "../../src/fleet/observe/quality-metrics.js";
import { createRouteMetrics } from "../../src/fleet/observe/route-metrics.js";
import { createSemanticMetrics } from "../../src/fleet/observe/semantic-metrics.js";
import { createMetrics } from "../../src/serve/generation/metrics.js";
import { FakeEngine } from "../helpers/fake-engine.js";
import { repositoryRoot } from "../helpers/fixtures.js";

const FILE = join(repositoryRoot(), "docs/reference/metrics.md");

/** A table of a Prometheus text: its lines "# HELP name text" and "# TYPE name kind". */
function tableOf(text: string): string {
  const kinds = new Map([...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name, kind]) => [name, kind]));
  const rows = [...text.matchAll(/^# HELP (\S+) (.*)$/gm)].map(
    ([, name, help]) => `| \`${name}\` | ${kinds.get(name)} | ${help} |`,
  );
  expect(rows.length).toBeGreaterThan(5);
  return ["| Name | Kind | Meaning |", "| --- | --- | --- |", ...rows].join("\n");
}

test("docs/reference/metrics.md lists every metric (UPDATE_DOCS=1 writes them)", async () => {
  const pool = { models: () => [], upstreams: () => [], onChange: () => () => {}, reportFailure: async () => {} };
  const gauges = {
    numWaiting: () => 0,
    numInFlight: () => 0,
    breakerState: () => "closed" as const,
    modelOf: () => undefined,
  };
  const fleet = createFleetMetrics(pool, gauges);
  createQualityMetrics(fleet.registry, () => undefined);
  createRouteMetrics(fleet.registry, () => []);
  createSemanticMetrics(fleet.registry, () => []);
  const tables = {
    server: tableOf(await createMetrics(new FakeEngine(), "m").render()),
    fleet: tableOf(await fleet.render()),
    tenants: tableOf(new LedgerFigures(() => undefined).text()),
  };
  let written = readFileSync(FILE, "utf8");
  for (const [name, table] of Object.entries(tables)) {
    const place = new RegExp(`<!-- ${name} -->[\\s\\S]*<!-- /${name} -->`);
    expect(written).toMatch(place);
    written = written.replace(place, () => `<!-- ${name} -->\n${table}\n<!-- /${name} -->`);
  }
  if (process.env.UPDATE_DOCS === "1") writeFileSync(FILE, written);
  expect(readFileSync(FILE, "utf8")).toBe(written);
});
