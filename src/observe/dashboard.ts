/**
 * A Grafana dashboard for a server or a fleet, in the classic JSON model (schema version 39: Grafana 10.4 and later).
 */
import type { Dashboard, Panel, RowPanel, ThresholdsMode, VariableModel } from "@grafana/schema";
import { type PanelSpec, rowsOf } from "./board-rows.js";
import { modelLabel, type Watched } from "./watched.js";

const SOURCE = { type: "prometheus", uid: "$datasource" };
const WIDTH = 24;
const HEIGHT = 8;

/**
 * @returns the dashboard's JSON, for Grafana's import or provisioning, in the form of Grafana 11.6's published types
 */
export function dashboardOf(watched: Watched): Dashboard {
  const label = modelLabel(watched);
  const metric = watched.kind === "server" ? "millrace:num_requests_running" : "millrace_fleet:in_flight";
  const panels: (Panel | RowPanel)[] = [];
  let y = 0;
  for (const { title, panels: specs } of rowsOf(watched)) {
    panels.push({
      id: panels.length + 1,
      type: "row",
      title,
      collapsed: false,
      panels: [],
      gridPos: place(0, y++, WIDTH, 1),
    });
    const w = WIDTH / specs.length;
    specs.forEach((spec, index) => {
      panels.push({ id: panels.length + 1, ...panelOf(spec), gridPos: place(index * w, y, w, HEIGHT) });
    });
    y += HEIGHT;
  }
  return {
    uid: `millrace-${watched.kind}`,
    title: `millrace: ${watched.kind}`,
    description: "Written by millrace observe render.",
    tags: ["millrace"],
    schemaVersion: 39,
    version: 1,
    editable: true,
    graphTooltip: 1,
    timezone: "browser",
    refresh: "10s",
    time: { from: "now-1h", to: "now" },
    annotations: { list: [] },
    links: [],
    templating: {
      list: [
        { name: "datasource", label: "Data source", type: "datasource", query: "prometheus" },
        variable("job", "Job", `label_values(${metric}, job)`, watched.job, false),
        variable("model", "Model", `label_values(${metric}{job="$job"}, ${label})`, undefined, true),
      ],
    },
    panels,
  };
}

const place = (x: number, y: number, w: number, h: number): NonNullable<Panel["gridPos"]> => ({ x, y, w, h });

function variable(
  name: string,
  label: string,
  query: string,
  value: string | undefined,
  isMany: boolean,
): VariableModel {
  return {
    name,
    label,
    type: "query",
    datasource: SOURCE,
    query: { query, refId: name },
    refresh: 2,
    includeAll: isMany,
    multi: isMany,
    ...(isMany ? { allValue: ".*" } : {}),
    current: value === undefined ? { text: "All", value: "$__all" } : { text: value, value },
  };
}

function panelOf({ title, about, unit, queries, limit, isStacked = false }: PanelSpec): Panel {
  return {
    type: "timeseries",
    title,
    description: about,
    datasource: SOURCE,
    targets: queries.map(({ expr, legend }, index) => ({
      refId: String.fromCharCode(65 + index),
      datasource: SOURCE,
      expr,
      legendFormat: legend.trim(),
      range: true,
    })),
    fieldConfig: {
      defaults: {
        unit,
        min: 0,
        custom: {
          drawStyle: "line",
          lineWidth: 1,
          fillOpacity: 10,
          showPoints: "never",
          stacking: { mode: isStacked ? "normal" : "none", group: "A" },
          thresholdsStyle: { mode: limit === undefined ? "off" : "line" },
        },
        thresholds: {
          mode: "absolute" satisfies `${ThresholdsMode}` as ThresholdsMode,
          steps: [{ color: "green", value: null }, ...(limit === undefined ? [] : [{ color: "red", value: limit }])],
        },
      },
      overrides: [],
    },
    options: {
      legend: { displayMode: "list", placement: "bottom", showLegend: true },
      tooltip: { mode: "multi", sort: "desc" },
    },
  };
}
