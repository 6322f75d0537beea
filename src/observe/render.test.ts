/** The files for other programs: Grafana's dashboard within its grid, and a collector with complete pipelines. */
import type { Panel } from "@grafana/schema";
import { expect, it } from "vitest";
import { parse } from "yaml";
import { dashboardOf } from "./dashboard.js";
import { renderObserve } from "./render.js";
import { KINDS, type Watched } from "./watched.js";

/** For a gateway, with figures by tenant. */
const watched = (kind: Watched["kind"]): Watched => ({
  kind,
  tenantsKeyFile: kind === "fleet" ? "/etc/millrace.key" : undefined,
  job: "millrace",
  targets: ["127.0.0.1:8000"],
  ttftSeconds: 0.5,
});

it.each(KINDS)("a %s's board has panels of distinct ids that fill the grid without overlap", (kind) => {
  const panels = dashboardOf(watched(kind)).panels!;
  expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
  const taken = new Set<string>();
  for (const { gridPos } of panels as Panel[]) {
    const { x, y, w, h } = gridPos!;
    for (let column = x; column < x + w; column++) {
      for (let row = y; row < y + h; row++) {
        expect(column).toBeLessThan(24);
        expect(taken.has(`${column},${row}`)).toBe(false);
        taken.add(`${column},${row}`);
      }
    }
  }
  expect(taken.size % 24).toBe(0);
});

type Named = Readonly<Record<string, unknown>>;

it.each(KINDS)("a %s's collector defines each part that a pipeline names, and scrapes as Prometheus does", (kind) => {
  const files = renderObserve(watched(kind), "https://otlp.example:4318");
  const read = (name: string) => parse(files.find(({ path }) => path === name)!.text);
  const { service, ...parts } = read("otel-collector.yml") as Record<string, Named> & {
    service: { pipelines: Record<string, Record<"receivers" | "processors" | "exporters", string[]>> };
  };
  expect(Object.keys(service.pipelines)).toEqual(["traces", "metrics"]);
  for (const pipeline of Object.values(service.pipelines)) {
    for (const [part, names] of Object.entries(pipeline))
      expect(Object.keys(parts[part]!)).toEqual(expect.arrayContaining(names));
  }
  const { config } = parts.receivers!.prometheus as { config: Named };
  expect(config).toEqual({ scrape_configs: read("prometheus.yml").scrape_configs });
});

it("figures by tenant are scraped by a job of their own with the key, and without a key not at all", () => {
  const scrapes = (tenantsKeyFile: string | undefined) => {
    const [prometheus] = renderObserve({ ...watched("fleet"), tenantsKeyFile }, undefined);
    expect(prometheus!.text).not.toMatch(/[&*]\w/);
    return (parse(prometheus!.text) as { scrape_configs: Named[] }).scrape_configs;
  };
  const [all, byTenant, ...more] = scrapes("/etc/millrace.key");
  expect(byTenant).toEqual({
    ...all,
    job_name: "millrace-tenants",
    metrics_path: "/metrics/tenants",
    authorization: { credentials_file: "/etc/millrace.key" },
  });
  expect([more, scrapes(undefined)]).toEqual([[], [all]]);
  const titles = (tenantsKeyFile: string | undefined) =>
    dashboardOf({ ...watched("fleet"), tenantsKeyFile }).panels!.map(({ title }) => title);
  expect([titles("/etc/millrace.key").includes("Tenants"), titles(undefined).includes("Tenants")]).toEqual([
    true,
    false,
  ]);
});
