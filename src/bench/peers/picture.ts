/** The ratios as one SVG chart: a panel per model, a bar per cell and peer, a line at 1. */
import { textAt } from "../report/svg.js";
import { type CellRatio, peerNames } from "./ratios.js";

const LABEL_WIDTH = 230;
const PLOT_WIDTH = 520;
const BAR_HEIGHT = 12;
const BAR_GAP = 3;
const CELL_GAP = 9;
const TITLE_HEIGHT = 30;
const MARGIN = 16;
const COLORS = ["#2a6f97", "#e07a5f", "#81b29a", "#8d7b9e"];

/** @returns an SVG document */
export function pictureOf(cells: readonly CellRatio[]): string {
  const names = peerNames(cells);
  const largest = Math.max(1.5, ...cells.flatMap((cell) => cell.peers.map((peer) => peer.ratio)));
  const scale = PLOT_WIDTH / (largest * 1.08);
  const left = MARGIN + LABEL_WIDTH;
  const parts: string[] = [];
  let y = MARGIN;
  names.forEach((name, index) => {
    const x = left + index * 170;
    parts.push(`<rect x="${x}" y="${y}" width="12" height="12" fill="${COLORS[index % COLORS.length]}"/>`);
    parts.push(textAt(x + 18, y + 10, `millrace ÷ ${name}`));
  });
  y += TITLE_HEIGHT;
  const top = y;
  for (const model of new Set(cells.map((cell) => cell.model))) {
    parts.push(textAt(MARGIN, y + 14, model, 'font-weight="bold"'));
    y += TITLE_HEIGHT - 8;
    for (const cell of cells.filter((candidate) => candidate.model === model)) {
      const height = names.length * (BAR_HEIGHT + BAR_GAP);
      parts.push(textAt(left - 8, y + height / 2 + 2, cell.label, 'text-anchor="end"'));
      names.forEach((name, index) => {
        const peer = cell.peers.find((candidate) => candidate.name === name);
        const barY = y + index * (BAR_HEIGHT + BAR_GAP);
        if (peer === undefined) return;
        const width = (peer.ratio * scale).toFixed(1);
        const fill = COLORS[index % COLORS.length];
        parts.push(`<rect x="${left}" y="${barY}" width="${width}" height="${BAR_HEIGHT}" fill="${fill}"/>`);
        parts.push(textAt(left + peer.ratio * scale + 4, barY + 10, peer.ratio.toFixed(2)));
      });
      y += height + CELL_GAP;
    }
  }
  const one = (left + scale).toFixed(1);
  parts.push(`<line x1="${one}" y1="${top}" x2="${one}" y2="${y}" stroke="#333" stroke-dasharray="4 3"/>`);
  const width = left + PLOT_WIDTH + 60;
  const size = `width="${width}" height="${y + MARGIN}" viewBox="0 0 ${width} ${y + MARGIN}"`;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" ${size} font-family="sans-serif" font-size="12">`,
    '<rect width="100%" height="100%" fill="white"/>',
    ...parts,
    "</svg>",
    "",
  ].join("\n");
}
