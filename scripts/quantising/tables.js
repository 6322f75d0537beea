/** Markdown tables of scripts/measure-quantising.js. */
import { median, summarize } from "../../dist/src/core/statistics.js";

const MIB = 2 ** 20;

const table = (header, rows) =>
  [header, header.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |\n`).join("");

const mib = (numBytes) => `${(numBytes / MIB).toFixed(numBytes < 100 * MIB ? 2 : 0)} MiB`;
const percent = (share, digits = 1) => `${(100 * share).toFixed(digits)} %`;
const points = (share) => (100 * share).toFixed(1);
const dropText = ({ drop, interval: [low, high] }) => `${points(drop)} (${points(low)} to ${points(high)})`;
const ratio = ({ ratio: value, low, high }, digits = 2) => {
  // If neither copy loses anything, there is no ratio.
  if (!Number.isFinite(value)) return "";
  return `${value.toFixed(digits)} (${low.toFixed(digits)} to ${high.toFixed(digits)})`;
};

/** A table of each method's losses, beside the original. */
export function qualityTable({ original, rows }, inOrder) {
  const names = inOrder(Object.keys(rows));
  if (names.length === 0) return "";
  const first = rows[names[0]];
  const header = ["Method", "Size", "Bits a weight", "Perplexity", "KL divergence", "Same likeliest token"];
  const whole = [`original, ${original.weightType}`, mib(original.numBytes), original.bitsPerWeight.toFixed(2)];
  const before = [...whole, first.loss.perplexityBefore.toFixed(3), "", "", percent(first.overall.before), "", ""];
  return table(
    [...header, "Right answers", "Drop in points (95 %)", "Lost, won"],
    [
      before,
      ...names.map((name) => {
        const { numBytes, bitsPerWeight, loss, overall } = rows[name];
        return [
          name.replace(/^MIXED_/, "chosen, as large as "),
          mib(numBytes),
          bitsPerWeight.toFixed(2),
          loss.perplexity.toFixed(3),
          loss.kl.toFixed(5),
          percent(loss.sameTop),
          percent(overall.after),
          dropText(overall),
          `${overall.numLost}, ${overall.numWon}`,
        ];
      }),
    ],
  );
}

/** Rounding with feedback, to the nearest, and GGML's encoders with the same types and importance. */
export function encodersTable({ rows }, inOrder) {
  const names = inOrder(Object.keys(rows)).filter((name) => rows[name].nearest ?? rows[name].ggml);
  if (names.length === 0) return "";
  return table(
    ["Method", "KL: GPTQ", "nearest", "GGML's", "GPTQ ÷ GGML's (95 %)", "nearest ÷ GGML's (95 %)"].concat([
      "Perplexity: GPTQ",
      "nearest",
      "GGML's",
      "GPTQ ÷ GGML's (95 %)",
    ]),
    names.map((name) => {
      const { loss, nearest, ggml, versusGgml } = rows[name];
      return [
        name,
        loss.kl.toFixed(5),
        nearest?.kl.toFixed(5) ?? "",
        ggml?.kl.toFixed(5) ?? "",
        versusGgml ? ratio(versusGgml.gptq.kl) : "",
        versusGgml?.nearest ? ratio(versusGgml.nearest.kl) : "",
        loss.perplexity.toFixed(4),
        nearest?.perplexity.toFixed(4) ?? "",
        ggml?.perplexity.toFixed(4) ?? "",
        versusGgml ? ratio(versusGgml.gptq.perplexity, 4) : "",
      ];
    }),
  );
}

/**
 * Medians of the rounds with their ranges, and ratios to the original within the same round, beside the same method's
 * figures in `quality`.
 */
export function speedTable({ rows }, original, quality) {
  const names = Object.keys(rows).filter((name) => rows[name].rounds.length > 0);
  const base = rows[original];
  const speeds = { prefill: "Prefill", decode1: "Decode, 1 sequence", decode16: "Decode, 16 sequences" };
  const before = base === undefined || base.rounds.length === 0 ? undefined : base;
  const cellsOf = (row) => {
    const ratios = (key) => row.rounds.flatMap((round, i) => round[key] / (before?.rounds[i]?.[key] ?? Number.NaN));
    const timesOf = (key) => ratios(key).filter(Number.isFinite);
    return Object.keys(speeds).flatMap((key) => [
      ranged(row.rounds.map((round) => round[key])),
      timesOf(key).length === 0 ? "" : `${ranged(timesOf(key), 2)} ×`,
    ]);
  };
  const headers = Object.values(speeds).flatMap((name) => [`${name}: tokens/s`, `to ${original}`]);
  const qualityHeaders = quality === undefined ? [] : [`KL, ${quality.settings.model}`, "Drop in points (95 %)"];
  return table(
    ["Type", "Weights", "Share", "Resident", ...headers, ...qualityHeaders],
    names.map((name) => {
      const row = rows[name];
      const share = before === undefined ? "" : percent(row.weightBytes / before.weightBytes, 0);
      const peaks = row.rounds.flatMap(({ peakBytes }) => peakBytes ?? []);
      const resident = peaks.length === 0 ? "" : mib(median(peaks));
      return [name, mib(row.weightBytes), share, resident, ...cellsOf(row), ...qualityCells(quality, name)];
    }),
  );
}

function ranged(values, digits = 1) {
  const { median: middle, min, max } = summarize(values);
  return `${middle.toFixed(digits)} (${min.toFixed(digits)} to ${max.toFixed(digits)})`;
}

function qualityCells(quality, name) {
  if (quality === undefined) return [];
  const row = quality.rows[name];
  return row === undefined ? ["", ""] : [row.loss.kl.toFixed(5), dropText(row.overall)];
}
