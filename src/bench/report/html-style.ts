/** Style (light, dark, phone, paper) and document frame of all HTML pages. */
import { escapeXml } from "./svg.js";

const LIGHT = `
  --page: #fbfaf7; --panel: #fff; --ink: #1d2430; --soft: #5d6675; --faint: #e4e2da; --warn: #8a4b08; --warn-panel: #fdf3e3;
  --c0: #0b7285; --c1: #c2542d; --c2: #6a4fa3; --c3: #8a7a13; --c4: #2f7d3b; --c5: #a83279;`;
const DARK = `
  --page: #12161c; --panel: #1a2029; --ink: #e8eaee; --soft: #9aa4b2; --faint: #2c3541; --warn: #f3c27a; --warn-panel: #2c2415;
  --c0: #4cc3d9; --c1: #f2916b; --c2: #b39ae8; --c3: #d9c65a; --c4: #7fcf8b; --c5: #e98ac2;`;

const COLORS = [0, 1, 2, 3, 4, 5].map((index) => `.c${index} { --color: var(--c${index}); }`).join(" ");

const PALETTE = `:root {${LIGHT} }
@media (prefers-color-scheme: dark) { :root {${DARK} } }
`;

const CHART_STYLE = `svg text { fill: var(--soft); font-variant-numeric: tabular-nums; } svg .row { fill: var(--ink); }
.axis-line { stroke: var(--soft); stroke-width: 1.25; }
${COLORS}
.grid { stroke: var(--faint); stroke-width: 1; } .base { stroke: var(--color); stroke-width: 1; opacity: .35; }
.line { fill: none; stroke: var(--color); stroke-width: 2.25; stroke-linejoin: round; stroke-linecap: round; }
.dot { fill: var(--color); stroke: var(--panel); stroke-width: 1.5; } .void { fill: var(--panel); stroke: var(--color); stroke-width: 2; stroke-dasharray: 2 2; }
.limit { fill: none; stroke: var(--color); stroke-width: 1.25; stroke-dasharray: 5 4; opacity: .75; }
.whisker { stroke: var(--color); stroke-width: 2; opacity: .45; stroke-linecap: round; }
.area { fill: var(--color); opacity: .28; } .median { stroke: var(--color); stroke-width: 2.5; } .far { stroke: var(--color); stroke-width: 1.5; stroke-dasharray: 2 3; }
`;

/** Style of a chart in a separate file. */
export const PICTURE_STYLE = `${PALETTE}svg { font: 12px ui-sans-serif, system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
${CHART_STYLE}`;

const STYLE = `
${PALETTE}* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 16px/1.5 ui-sans-serif, system-ui, "Segoe UI", Roboto, "Helvetica Neue", "DejaVu Sans", sans-serif; }
main { max-width: 1120px; margin: 0 auto; padding: 40px 24px 64px; }
.brand { margin: 0; color: var(--c0); font-weight: 600; letter-spacing: .02em; }
h1 { margin: 2px 0 14px; font-size: clamp(1.5rem, 4.5vw, 2.3rem); line-height: 1.15; letter-spacing: -.015em; }
h2 { margin: 44px 0 14px; font-size: 1.25rem; letter-spacing: -.01em; }
dl { margin: 0; font-size: .875rem; color: var(--soft); }
dl div { display: grid; grid-template-columns: 9.5rem 1fr; gap: 0 12px; padding: 2px 0; }
dt { font-weight: 600; color: var(--ink); overflow-wrap: anywhere; }
dd { margin: 0; overflow-wrap: anywhere; }
.legend { display: flex; flex-wrap: wrap; gap: 6px 20px; margin: 0 0 14px; font-weight: 600; }
.legend i { display: inline-block; width: .75em; height: .75em; margin-right: .5em; border-radius: 50%; background: var(--color); }
.lead { margin: 30px 0 0; color: var(--soft); }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(210px, 1fr)); gap: 14px; margin: 26px 0 18px; }
.lead + .cards { margin-top: 8px; }
.card { display: flex; flex-direction: column; padding: 16px 18px; background: var(--panel); border: 1px solid var(--faint); border-radius: 12px; }
.card p { margin: 0; font-size: .85rem; color: var(--soft); }
.card b { margin-top: auto; padding-top: 4px; font-size: 1.9rem; line-height: 1.25; letter-spacing: -.02em; font-variant-numeric: tabular-nums; }
.card small { color: var(--soft); }
.warn { margin: 18px 0; padding: 12px 18px; border-radius: 12px; background: var(--warn-panel); color: var(--warn); font-size: .9rem; }
.warn summary { cursor: pointer; font-weight: 600; }
.warn ul { margin: 8px 0 0; padding-left: 1.2em; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 400px), 1fr)); gap: 16px; }
figure { margin: 0; padding: 16px 18px 12px; background: var(--panel); border: 1px solid var(--faint); border-radius: 12px; min-width: 0; }
figcaption { display: flex; flex-wrap: wrap; justify-content: space-between; gap: 0 14px; margin-bottom: 10px; font-size: .95rem; }
figcaption small { color: var(--soft); font-size: .8rem; align-self: center; }
svg { display: block; width: 100%; height: auto; font: 12px ui-sans-serif, system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; overflow: visible; }
.note { margin: 0 0 10px; color: var(--soft); font-size: .9rem; }
${CHART_STYLE}.scroll { position: relative; left: 50%; transform: translateX(-50%); width: max-content; min-width: 100%; max-width: calc(100vw - 64px); overflow-x: auto; border: 1px solid var(--faint); border-radius: 12px; background: var(--panel); }
table { width: 100%; border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; white-space: nowrap; }
th, td { padding: 8px 11px; text-align: right; border-bottom: 1px solid var(--faint); }
th { color: var(--soft); font-weight: 600; } th:first-child, td:first-child { text-align: left; position: sticky; left: 0; background: var(--panel); }
table.wide th, table.wide td { white-space: normal; } .prose, tr:has(.prose) :first-child { white-space: normal; text-align: left; min-width: 13em; } tr:has(td.prose) td { vertical-align: top; }
tbody tr:last-child td { border-bottom: 0; } .none { color: var(--soft); }
@media (max-width: 560px) {
  main { padding: 24px 14px 40px; } dl div { grid-template-columns: 1fr; padding: 4px 0; } .cards { grid-template-columns: 1fr 1fr; gap: 10px; }
  .card { padding: 12px 14px; } .card b { font-size: 1.5rem; } figure { padding: 12px 10px 8px; } svg { font-size: 13.5px; }
  th:first-child, td:first-child { white-space: normal; min-width: 7.5em; }
}
@media print {
  :root {${LIGHT}
  --page: #fff; }
  @page { size: A4; margin: 14mm; }
  html { font-size: 11.5px; } main { max-width: none; padding: 0; } h2 { margin: 22px 0 8px; break-after: avoid; }
  .card, figure, tr, .warn, dl div { break-inside: avoid; } .charts { grid-template-columns: 1fr 1fr; gap: 10px; } .cards { grid-template-columns: repeat(4, 1fr); gap: 10px; }
  .card b { font-size: 1.3rem; } .scroll { overflow: visible; max-width: 100%; } table { font-size: 8px; } th, td { padding: 4px 5px; white-space: normal; }
}
`;

/** @param body HTML of lines or sections */
export function htmlDocument(title: string, body: readonly string[]): string {
  return [
    '<!doctype html><html lang="en"><head><meta charset="utf-8">',
    '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">',
    `<title>${escapeXml(title)}</title><style>${STYLE}</style></head><body><main>`,
    ...body,
    "</main></body></html>\n",
  ].join("\n");
}
