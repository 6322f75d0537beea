/** Computes ratios of medians from raw runs, and their Markdown table. */
import { type Summary, summarize } from "../../core/statistics.js";
import type { PeerRun } from "./run.js";
import { cellsOf } from "./shapes.js";

const OURS = "millrace";

export interface CellRatio {
  readonly model: string;
  readonly label: string;
  readonly ours: Summary;
  readonly peers: readonly {
    readonly name: string;
    readonly theirs: Summary;
    /** Our median ÷ theirs: above 1 is faster. */
    readonly ratio: number;
  }[];
}

/** Cells that millrace and at least one peer measured, in the order of their first runs. */
export function ratiosOf(runs: readonly PeerRun[]): CellRatio[] {
  const samples = new Map<string, Map<string, number[]>>();
  const places = new Map<string, { readonly model: string; readonly label: string }>();
  for (const { model, shape, contender, rows } of runs) {
    for (const { label, batch, measure } of cellsOf(shape)) {
      const key = JSON.stringify([model, label]);
      places.set(key, { model, label });
      const byContender = samples.get(key) ?? new Map<string, number[]>();
      samples.set(key, byContender);
      const speeds = rows.filter((row) => row.batch === batch).map((row) => row[measure]);
      byContender.set(contender, [...(byContender.get(contender) ?? []), ...speeds]);
    }
  }
  return [...samples].flatMap(([key, byContender]) => {
    const mine = byContender.get(OURS) ?? [];
    const others = [...byContender].filter(([name, speeds]) => name !== OURS && speeds.length > 0);
    if (mine.length === 0 || others.length === 0) return [];
    const ours = summarize(mine);
    const peers = others.map(([name, speeds]) => {
      const theirs = summarize(speeds);
      return { name, theirs, ratio: ours.median / theirs.median };
    });
    return [{ ...places.get(key)!, ours, peers }];
  });
}

/** @returns the names of the peers */
export function peerNames(cells: readonly CellRatio[]): string[] {
  return [...new Set(cells.flatMap((cell) => cell.peers.map((peer) => peer.name)))];
}

/** A median, with the range over the rounds if they differ. */
const speed = ({ median, min, max }: Summary): string =>
  min === max ? median.toFixed(1) : `${median.toFixed(1)} (${min.toFixed(1)} to ${max.toFixed(1)})`;

/** One row per model and cell: medians (range) in tokens/s, and ours ÷ theirs in bold. */
export function markdownOf(cells: readonly CellRatio[]): string {
  const names = peerNames(cells);
  const header = ["Model", "Cell", "millrace", ...names.flatMap((name) => [name, "ratio"])];
  const rows = cells.map(({ model, label, ours, peers }) => {
    const columns = names.flatMap((name) => {
      const peer = peers.find((candidate) => candidate.name === name);
      return peer === undefined ? ["", ""] : [speed(peer.theirs), `**${peer.ratio.toFixed(2)}**`];
    });
    return [model, label, speed(ours), ...columns];
  });
  const line = (columns: readonly string[]): string => `| ${columns.join(" | ")} |`;
  return [line(header), line(header.map(() => "---")), ...rows.map(line)].join("\n");
}
