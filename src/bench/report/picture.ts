/** Throughput against load as one SVG file, for a README: a panel for each workload. */
import { LADDER } from "../ablation/cells.js";
import type { BenchReport } from "../results/schema.js";
import { HEIGHT as PANEL_HEIGHT, WIDTH as PANEL_WIDTH } from "./charts.js";
import { PICTURE_STYLE } from "./html-style.js";
import { chartedOf, throughputChart } from "./load-charts.js";
import { summarize } from "./summary.js";
import { textAt } from "./svg.js";

const PANELS_ABREAST = 3;
const MARGIN = 24;
const HEAD = 84;
/** Height of a panel's name. */
const CAPTION = 26;
/** Mean width of a letter in the legend. */
const LETTER_WIDTH = 7;

export function pictureOf(report: BenchReport): string {
  const { charted, names, workloads } = chartedOf(report, summarize(report));
  const panels = workloads
    .map((name) => ({
      name,
      drawing: throughputChart(
        name,
        charted.filter(({ cell }) => cell.workloadName === name),
        names,
      ),
    }))
    .filter(({ drawing }) => drawing !== "");
  const numColumns = Math.max(1, Math.min(PANELS_ABREAST, panels.length));
  const width = MARGIN + numColumns * (PANEL_WIDTH + MARGIN);
  const rowHeight = CAPTION + PANEL_HEIGHT + MARGIN;
  const height = HEAD + Math.ceil(panels.length / numColumns) * rowHeight;
  const drawn = panels.map(({ name, drawing }, i) => {
    const x = MARGIN + (i % numColumns) * (PANEL_WIDTH + MARGIN);
    const y = HEAD + Math.floor(i / numColumns) * rowHeight;
    const placed = drawing.replace(
      "<svg ",
      `<svg x="${x}" y="${y + CAPTION}" width="${PANEL_WIDTH}" height="${PANEL_HEIGHT}" `,
    );
    return textAt(x, y + 8, captionOf(name, report), 'class="row" font-weight="600"') + placed;
  });
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">`,
    `<style>${PICTURE_STYLE}.paper { fill: var(--page); }</style><rect width="100%" height="100%" class="paper"/>`,
    textAt(MARGIN, 30, `${report.targets[0]?.model}: throughput against the load`, 'class="row" font-weight="600"'),
    legend(
      names,
      panels.some(({ drawing }) => drawing.includes('class="limit')),
    ),
    ...drawn,
    "</svg>\n",
  ].join("\n");
}

/** @example "512/512 tokens × 0.25" */
function captionOf(name: string, { plan }: BenchReport): string {
  const shape = name.startsWith(LADDER) ? `${name.slice(LADDER.length)} tokens` : name;
  return plan.scale === undefined ? shape : `${shape} × ${plan.scale}`;
}

function legend(names: readonly string[], hasLimits: boolean): string {
  let x = MARGIN;
  const entries = names.map((name, index) => {
    const entry = `<g class="c${index}"><circle cx="${x + 5}" cy="50" r="5" class="dot"/>${textAt(x + 16, 54, name, 'class="row"')}</g>`;
    x += 16 + LETTER_WIDTH * name.length + MARGIN;
    return entry;
  });
  const limits = textAt(x, 54, "dashed: the roofline", 'class="axis"');
  return entries.join("") + (hasLimits ? limits : "");
}
