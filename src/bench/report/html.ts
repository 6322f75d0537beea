/** The report as one self-contained HTML page: figures first, then charts, then tables. */

import type { BenchReport } from "../results/schema.js";
import { type CellGains, cellGains } from "./ablation-tables.js";
import { gainChart } from "./charts.js";
import { comparisonsOf } from "./comparisons.js";
import { gainHeadlines, type Headline, ratioHeadlines, resultHeadlines } from "./headlines.js";
import { htmlDocument } from "./html-style.js";
import { chartedOf, loadFigures } from "./load-charts.js";
import { type CellSummary, type Ratios, ratiosOf, summarize } from "./summary.js";
import { escapeXml } from "./svg.js";
import { type Column, DEFINITIONS, detailColumns, factsOf, resultColumns, serverFacts, titleOf } from "./tables.js";
import { isSentence, NONE, voidMark, warningLines } from "./words.js";

export function htmlOf(report: BenchReport): string {
  const summaries = summarize(report);
  const isAblation = report.plan.ablation !== undefined;
  const gains = isAblation ? cellGains(report) : [];
  const ratios = isAblation ? [] : ratiosOf(report);
  const { charted, names, workloads } = chartedOf(report, summaries);
  const title = titleOf(report);
  const body = [
    header(report, title, names),
    headlineCards(ratios, gains, charted),
    warnings(summaries),
    isAblation ? section("Gains of layers", gainFigures(gains)) : "",
    ...workloads.map((name) =>
      charts(
        name,
        charted.filter((summary) => summary.cell.workloadName === name),
        names,
      ),
    ),
    ...comparisonsOf(report).map(({ title: heading, note, rows }) =>
      section(heading, `<p class="note">${escapeXml(note)}</p>${tableOf(rows)}`),
    ),
    section("Results", table(summaries, resultColumns(summaries))),
    section("Details", table(summaries, detailColumns(summaries))),
    isAblation ? section("Servers", list(serverFacts(report))) : "",
    section("Definitions", list(DEFINITIONS)),
  ];
  return htmlDocument(title, body);
}

function header(report: BenchReport, title: string, names: readonly string[]): string {
  const legend =
    names.length < 2
      ? ""
      : `<p class="legend">${names.map((name, i) => `<span class="c${i}"><i></i>${escapeXml(name)}</span>`).join("")}</p>`;
  const incomplete = report.isComplete
    ? ""
    : '<p class="warn">Incomplete: stopped, or a server died, before everything was measured.</p>';
  const facts = factsOf(report);
  const notes = report.notes.map((note) => `<p class="warn">${escapeXml(note)}</p>`);
  return `<header><p class="brand">millrace bench</p><h1>${escapeXml(title)}</h1>${legend}${list(report.plan.ablation === undefined ? [...facts, ...serverFacts(report)] : facts)}</header>${incomplete}${notes.join("")}`;
}

const list = (pairs: readonly (readonly [string, string])[]): string =>
  `<dl>${pairs.map(([name, value]) => `<div><dt>${escapeXml(name)}</dt><dd>${escapeXml(value)}</dd></div>`).join("")}</dl>`;

const section = (title: string, content: string): string =>
  content === "" ? "" : `<section><h2>${escapeXml(title)}</h2>${content}</section>`;

const card = ({ label, value, note }: Headline): string =>
  `<div class="card"><p>${escapeXml(label)}</p><b>${escapeXml(value)}</b><small>${escapeXml(note)}</small></div>`;

/** @param lead names of the compared servers, if the figures are ratios */
function cards(headlines: readonly Headline[], lead = ""): string {
  if (headlines.length === 0) return "";
  const line = lead === "" ? "" : `<p class="lead">${escapeXml(lead)}</p>`;
  return `${line}<div class="cards">${headlines.map(card).join("")}</div>`;
}

/** Ratios if there are several servers, else the server's own figures. */
function headlineCards(
  ratios: readonly Ratios[],
  gains: readonly CellGains[],
  charted: readonly CellSummary[],
): string {
  if (ratios.length > 0) {
    return ratios.map((each) => cards(ratioHeadlines(each), `${each.first} ÷ ${each.second}`)).join("");
  }
  return gains.length > 0 ? cards(gainHeadlines(gains), "all together ÷ vanilla") : cards(resultHeadlines(charted));
}

function warnings(summaries: readonly CellSummary[]): string {
  const all = warningLines(summaries).map((line) => `<li>${escapeXml(line)}</li>`);
  if (all.length === 0) return "";
  const isGrave = summaries.some((summary) => summary.isVoid || summary.numFailed > 0);
  const count = `${all.length} note${all.length === 1 ? "" : "s"} on how far to trust these figures`;
  return `<details class="warn"${isGrave ? " open" : ""}><summary>${count}</summary><ul>${all.join("")}</ul></details>`;
}

function charts(workload: string, summaries: readonly CellSummary[], names: readonly string[]): string {
  const drawn = loadFigures(workload, summaries, names)
    .filter(({ drawing }) => drawing !== "")
    .map(({ title, note, drawing }) => figureOf(title, note, drawing));
  return section(workload, `<div class="charts">${drawn.join("")}</div>`);
}

function gainFigures(gains: readonly CellGains[]): string {
  const figures = gains.map(({ cell, layers }) => {
    const rows = layers.map(({ layer, alone, away }) => ({
      label: layer + voidMark(alone?.isVoid === true || away?.isVoid === true),
      alone: alone?.throughput,
      away: away?.throughput,
    }));
    return figureOf(cell.name, "output tokens/s, × without it", gainChart(cell.name, rows));
  });
  if (figures.length === 0) return "";
  const legend = ["alone", "taken away from all together"].map(
    (name, i) => `<span class="c${i}"><i></i>${name}</span>`,
  );
  return `<p class="legend">${legend.join("")}</p><div class="charts">${figures.join("")}</div>`;
}

function figureOf(title: string, note: string, drawing: string): string {
  return `<figure><figcaption><b>${escapeXml(title)}</b><small>${escapeXml(note)}</small></figcaption>${drawing}</figure>`;
}

/** Most columns of figures on a page. */
const MAX_COLUMNS = 12;

/** With few cells and many figures, rows and columns are swapped to fit the page. */
function table(summaries: readonly CellSummary[], columns: readonly Column[]): string {
  if (summaries.length === 0) return "";
  const rows = [
    columns.map((column) => column.title),
    ...summaries.map((summary) => columns.map((column) => column.text(summary))),
  ];
  const isTurned = columns.length > MAX_COLUMNS && rows.length <= MAX_COLUMNS;
  return tableOf(isTurned ? columns.map((_, column) => rows.map((row) => row[column]!)) : rows);
}

/** Columns of sentences are left-aligned and wrap. */
function classOf(text: string, head: readonly string[], rows: readonly (readonly string[])[], column: number): string {
  if (text === NONE) return ' class="none"';
  const isProse = head.length > 1 && rows.some((row) => isSentence(row[column]!));
  return isProse ? ' class="prose"' : "";
}

function tableOf([head = [], ...rows]: readonly (readonly string[])[]): string {
  const isWide = head.length >= WIDE_COLUMNS;
  const cells = (texts: readonly string[], tag: "td" | "th") =>
    texts
      .map((text, i) => {
        const shown = escapeXml(tag === "td" && isWide && i > 0 && !isSentence(text) ? brokenBeforeRange(text) : text);
        return `<${tag}${classOf(text, head, rows, i)}>${shown}</${tag}>`;
      })
      .join("");
  const body = rows.map((row) => `<tr>${cells(row, "td")}</tr>`).join("");
  const table = `<table${isWide ? ' class="wide"' : ""}>`;
  return `<div class="scroll">${table}<thead><tr>${cells(head, "th")}</tr></thead><tbody>${body}</tbody></table></div>`;
}

/** From this number of columns on, intervals are placed below their figures. */
const WIDE_COLUMNS = 10;

/** Allows a line break only before the interval. @example "4.67 × (3.75 to 5.81)" */
function brokenBeforeRange(text: string): string {
  return text
    .split(/ (?=\()/)
    .map((part) => part.replaceAll(" ", "\u00a0"))
    .join(" ");
}
