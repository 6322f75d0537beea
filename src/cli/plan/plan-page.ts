/**
 * A plan as one HTML page: figures, the Pareto frontier, the roofline, memory, reasons. It shares style and drawing
 * with
 * the benchmark's pages.
 */

import { lineChart, type Series } from "../../bench/report/charts.js";
import { htmlDocument } from "../../bench/report/html-style.js";
import { escapeXml } from "../../bench/report/svg.js";
import { formatUsd } from "../../core/quantities.js";
import { hasTargets } from "../../plan/evaluate.js";
import { gibibytes } from "../../plan/fitting.js";
import { machineLabel } from "../../plan/hardware.js";
import { loadCurve } from "../../plan/load-curve.js";
import type { Configuration, Plan } from "../../plan/request.js";
import { warningsOf } from "../../plan/warnings.js";
import { launchOf } from "./launch-command.js";
import { HEADERS, loadText, rounded, rowOf, shapeText } from "./plan-text.js";
import { rooflineChart } from "./roofline-chart.js";

const MOST_SERIES = 6;

export function pageOf(plan: Plan): string {
  const { request, configurations, refusals, suggestions } = plan;
  const title = `${request.model.name} on ${machineLabel(request.machine)}`;
  const best = configurations[0]!;
  const isCpu = request.machine.kind === "cpu";
  const shown = distinct(configurations, isCpu).slice(0, MOST_SERIES);
  const body = [
    `<header><p class="brand">millrace plan</p><h1>${escapeXml(title)}</h1><p class="note">${escapeXml(loadText(request))}</p></header>`,
    cards(best),
    section(
      "Pareto frontier and roofline",
      `<div class="charts">${frontier(plan, shown, isCpu)}${figure("Roofline of one device", "each step's bytes and operations", rooflineChart(plan, shown))}</div>`,
    ),
    section(
      "Configurations",
      table([HEADERS, ...configurations.map((each, i) => rowOf(each, i, isCpu, hasTargets(request)))]),
    ),
    section("Memory of one device", table([MEMORY_HEADERS, ...shown.map((each) => memoryRow(each, isCpu))])),
    ...warningsOf(request, best).map((warning) => `<p class="warn">${escapeXml(warning)}</p>`),
    section("Why", list(best.choices.map(({ about, choice, because }) => [`${about}: ${choice}`, because]))),
    section(
      "Start",
      `<div class="scroll"><table><tbody><tr><td class="prose"><code>${escapeXml(launchOf(best).text)}</code></td></tr></tbody></table></div>`,
    ),
    section("Not used", list(refusals.map(({ what, because }) => [what, because]))),
    ...suggestions.map((suggestion) => `<p class="warn">${escapeXml(suggestion)}</p>`),
    '<p class="note">Predicted, not measured: docs/background/planning.md says how far such predictions have been off.</p>',
  ];
  return htmlDocument(title, body);
}

function nameOf(configuration: Configuration, isCpu: boolean): string {
  const drafts = configuration.drafting === undefined ? "" : ", drafts";
  return `${configuration.quantization.label}, ${shapeText(configuration, isCpu)}${drafts}`;
}

function distinct(configurations: readonly Configuration[], isCpu: boolean): Configuration[] {
  return configurations.filter(
    (each, i) => configurations.findIndex((other) => nameOf(other, isCpu) === nameOf(each, isCpu)) === i,
  );
}

const section = (title: string, content: string): string =>
  content === "" ? "" : `<section><h2>${escapeXml(title)}</h2>${content}</section>`;

const list = (pairs: readonly (readonly [string, string])[]): string =>
  pairs.length === 0
    ? ""
    : `<dl>${pairs.map(([name, value]) => `<div><dt>${escapeXml(name)}</dt><dd>${escapeXml(value)}</dd></div>`).join("")}</dl>`;

const card = (label: string, value: string, note: string): string =>
  `<div class="card"><p>${escapeXml(label)}</p><b>${escapeXml(value)}</b><small>${escapeXml(note)}</small></div>`;

function cards({ prediction, cost, sustainableConcurrency }: Configuration): string {
  return `<div class="cards">${[
    card(
      "output tokens/s",
      rounded(prediction.outputTokensPerS),
      `${rounded(prediction.tokensPerSPerUser)} for each user`,
    ),
    card(
      "time to first token",
      `${rounded(prediction.ttftMs)} ms`,
      `95 of 100 under ${rounded(prediction.ttftP95Ms)} ms`,
    ),
    card("a million output tokens", formatUsd(cost.usdPerMillionOutput), `${formatUsd(cost.usdPerHour)} an hour`),
    card("requests at once", String(sustainableConcurrency), "within memory and targets"),
  ].join("")}</div>`;
}

const figure = (title: string, note: string, chart: string): string =>
  `<figure><figcaption><b>${escapeXml(title)}</b><small>${escapeXml(note)}</small></figcaption>${chart}</figure>`;

/** Each configuration over a range of loads: the user's latency against the machine's throughput. */
function frontier(plan: Plan, shown: readonly Configuration[], isCpu: boolean): string {
  const series = shown.map((configuration, index): Series => {
    const points = loadCurve(plan.request, configuration).map(({ concurrency, prediction }) => ({
      x: prediction.tokensPerSPerUser,
      y: prediction.outputTokensPerS,
      // Labels only on the winner's curve: on all curves they would overlap.
      ...(index === 0 ? { label: String(concurrency) } : {}),
      isVoid: false,
    }));
    return { name: nameOf(configuration, isCpu), index, points };
  });
  const chart = lineChart({
    title: "Pareto frontier",
    xLabel: "tokens/s for each user",
    yLabel: "output tokens/s",
    isDoubling: false,
    series,
  });
  const legend = `<p class="legend">${series.map(({ name, index }) => `<span class="c${index}"><i></i>${escapeXml(name)}</span>`).join("")}</p>`;
  return figure("Throughput against speed", "up and to the right is better; numbers: requests at once", legend + chart);
}

function table([head = [], ...rows]: readonly (readonly string[])[]): string {
  const cells = (row: readonly string[], tag: string): string =>
    `<tr>${row.map((cell) => `<${tag}>${escapeXml(cell)}</${tag}>`).join("")}</tr>`;
  return `<div class="scroll"><table><thead>${cells(head, "th")}</thead><tbody>${rows.map((row) => cells(row, "td")).join("")}</tbody></table></div>`;
}

const MEMORY_HEADERS = ["configuration", "weights", "keys and values", "activations", "runtime", "left free", "of"];

function memoryRow(configuration: Configuration, isCpu: boolean): string[] {
  const { weightBytes, kvBytes, activationBytes, runtimeBytes, headroomBytes, totalBytes } = configuration.memory;
  return [
    nameOf(configuration, isCpu),
    ...[weightBytes, kvBytes, activationBytes, runtimeBytes, headroomBytes, totalBytes].map(gibibytes),
  ];
}
