/**
 * Renders a tuning as rows of text, as Markdown, as an HTML page with a waterfall, and as the fleet's configuration.
 */
import { stringify } from "yaml";
import type { Cost } from "../../bench/measure/cost.js";
import { type Estimate, geometricMean } from "../../bench/measure/intervals.js";
import { htmlDocument } from "../../bench/report/html-style.js";
import { escapeXml, lineFrom, logScale, logTicks, round, textAt } from "../../bench/report/svg.js";
import { formatUsd } from "../../core/quantities.js";
import type { LocatedModel } from "../../formats/locate-model.js";
import type { Objective } from "./bottleneck.js";
import { type Configuration, flagWords, INSTANCES, instancesOf, keyOf } from "./configuration.js";
import type { Trial, Tuning } from "./loop.js";
import type { EngineChoice } from "./tuned-engines.js";

/** Facts about the tuning, for its reports. */
export interface About {
  readonly model: string;
  readonly load: string;
  readonly objective: Objective;
  readonly machine: string;
  readonly numRounds: number;
  /** Price of the machine's hour. */
  readonly price?: { readonly usd: number; readonly date: string; readonly source: string } | undefined;
}

export const HEADERS = ["change", "because of", "predicted", "measured (95 % interval)", "answers", "outcome"] as const;

export const trialRows = (trials: readonly Trial[]): string[][] => trials.map(trialRow);

/**
 * @example trialRow(trial)
 *   // ["32 seats", "seats", "1.50 ×", "1.62 × (1.55 to 1.70)", "same bits", "kept: faster, same bits"]
 */
export const trialRow = ({ proposal, measured, quality, outcome, reason }: Trial): string[] => [
  proposal.name,
  proposal.bottleneck,
  times(proposal.predicted),
  measured === undefined ? "–" : ratioText(measured),
  quality === undefined ? answersText(proposal) : qualityText(quality),
  `${outcome}: ${reason}`,
];

const answersText = ({ isLossy, isExact }: Trial["proposal"]): string =>
  isExact ? "same bits" : isLossy ? "not judged" : "same weights";

const times = (ratio: number): string => `${ratio.toFixed(2)} ×`;

export const ratioText = ({ value, low, high }: Estimate): string =>
  low === undefined || high === undefined ? times(value) : `${times(value)} (${low.toFixed(2)} to ${high.toFixed(2)})`;

/** @example "drop of 0.4 points (−0.6 to 1.4) over 900 items" */
function qualityText({ overall: { drop, interval, numItems } }: NonNullable<Trial["quality"]>): string {
  const [value, low, high] = [drop, ...interval].map((share) => (100 * share).toFixed(1));
  return `drop of ${value} points (${low} to ${high}) over ${numItems} items`;
}

/** The quantity that grows when the objective improves. */
const RATIO_NAMES: Readonly<Record<Objective, string>> = {
  throughput: "throughput",
  goodput: "goodput",
  cost: "tokens per dollar",
  ttft: "1 ÷ TTFT",
  tpot: "1 ÷ TPOT",
  e2e: "1 ÷ end-to-end time",
};

const PER: readonly (readonly [string, (cost: Cost) => number])[] = [
  ["1M output tokens", (cost) => cost.perMillionOutput],
  ["1M tokens of prompts and answers", (cost) => cost.perMillionTotal],
  ["1,000 requests", (cost) => cost.perThousandRequests],
];

/**
 * A table of costs before and after, headers first; empty if the price is unknown.
 * @example costRows(tuning, about)[1] // ["1M output tokens", "$0.42 ($0.40 to $0.44)", "$0.33 ($0.31 to $0.35)"]
 */
export function costRows({ costs, start, best }: Tuning, { price }: Pick<About, "price">): string[][] {
  if (costs === undefined || price === undefined) return [];
  const after = costs.after ?? (keyOf(start) === keyOf(best) ? "unchanged" : "not measured");
  const head = [`cost at ${formatUsd(price.usd)} an hour`, "before (95 % interval)", "after"];
  return [head, ...moneyRows([costs.before, after])];
}

/** @param columns costs of each round, or a word instead */
export const moneyRows = (columns: readonly (readonly Cost[] | string)[]): string[][] =>
  PER.map(([name, of]) => [
    name,
    ...columns.map((costs) => (typeof costs === "string" ? costs : dollarsText(geometricMean(costs.map(of))))),
  ]);

function dollarsText(estimate: Estimate | undefined): string {
  if (estimate === undefined) return "–";
  const { value, low, high } = estimate;
  if (low === undefined || high === undefined) return formatUsd(value);
  return `${formatUsd(value)} (${formatUsd(low)} to ${formatUsd(high)})`;
}

/** @example summaryLines(tuning) // ["throughput 2.41 × (2.30 to 2.52), measured again", …] */
export function summaryLines({ trials, first, last, total, end }: Tuning, { objective }: About): string[] {
  const numKept = trials.filter(({ outcome }) => outcome === "kept").length;
  const doubt = (total?.low ?? 0) > 1 ? "" : ", which is no sure gain";
  return [
    `${RATIO_NAMES[objective]} ${total === undefined ? "as before" : `${ratioText(total)} that of the first configuration, both measured again${doubt}`}`,
    `${trials.length} changes tried, ${numKept} kept; ${end}`,
    `bottleneck at first: ${first.bottleneck} (${first.because})`,
    `bottleneck now: ${last.bottleneck} (${last.because})`,
  ];
}

export function markdownOf(tuning: Tuning, about: About, command: string): string {
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
  const tableOf = ([head = [], ...rows]: readonly (readonly string[])[]): string =>
    [line(head), line(head.map(() => "---")), ...rows.map(line)].join("\n");
  const tables = [[HEADERS, ...trialRows(tuning.trials)], costRows(tuning, about)];
  return `${[
    `# ${titleOf(about)}`,
    summaryLines(tuning, about)
      .map((text) => `- ${text}`)
      .join("\n"),
    factsOf(about).join("; "),
    ...tables.filter((rows) => rows.length > 1).map(tableOf),
    `\`\`\`sh\n${command}\n\`\`\``,
  ].join("\n\n")}\n`;
}

const titleOf = ({ model, load, objective }: About): string => `Tuning ${model} for ${objective}: ${load}`;

const factsOf = ({ machine, numRounds, price }: About): string[] => [
  machine,
  ...(price === undefined ? [] : [`${formatUsd(price.usd)} an hour (${price.source}, ${price.date})`]),
  `${numRounds} or more rounds of each pair, in turns, each server started for each run`,
];

export function htmlOf(tuning: Tuning, about: About, command: string): string {
  const { trials, total, last } = tuning;
  const kept = trials.filter(({ outcome }) => outcome === "kept");
  const card = (label: string, value: string, note: string): string =>
    `<div class="card"><p>${escapeXml(label)}</p><b>${escapeXml(value)}</b><small>${escapeXml(note)}</small></div>`;
  const cells = (row: readonly string[], tag: string): string =>
    `<tr>${row.map((cell) => `<${tag} class="prose">${escapeXml(cell)}</${tag}>`).join("")}</tr>`;
  const tableOf = ([head = [], ...rows]: readonly (readonly string[])[]): string =>
    `<div class="scroll"><table><thead>${cells(head, "th")}</thead><tbody>${rows
      .map((row) => cells(row, "td"))
      .join("")}</tbody></table></div>`;
  const costs = costRows(tuning, about);
  const figure = `<figure><figcaption><b>Waterfall</b><small>${escapeXml(RATIO_NAMES[about.objective])}, × the first configuration</small></figcaption>${waterfall(kept, total)}</figure>`;
  return htmlDocument(titleOf(about), [
    `<header><p class="brand">millrace tune</p><h1>${escapeXml(titleOf(about))}</h1><p class="note">${escapeXml(factsOf(about).join("; "))}</p></header>`,
    `<div class="cards">${[
      card(
        RATIO_NAMES[about.objective],
        total === undefined ? "as before" : times(total.value),
        "best ÷ first, measured again",
      ),
      card("changes tried", String(trials.length), `${kept.length} kept`),
      card("bottleneck now", last.bottleneck, last.because),
    ].join("")}</div>`,
    ...(kept.length === 0 ? [] : [`<section><div class="charts">${figure}</div></section>`]),
    ...(trials.length === 0
      ? []
      : [`<section><h2>Hypotheses</h2>${tableOf([HEADERS, ...trialRows(trials)])}</section>`]),
    ...(costs.length === 0 ? [] : [`<section><h2>Cost</h2>${tableOf(costs)}</section>`]),
    `<section><h2>Start</h2><div class="scroll"><table><tbody><tr><td class="prose"><code>${escapeXml(command)}</code></td></tr></tbody></table></div></section>`,
  ]);
}

const CHART = { width: 460, left: 190, right: 430, row: 30, top: 8 };

/**
 * Draws each kept change from the product of the earlier gains to its own; the last row is measured from end to end.
 */
function waterfall(kept: readonly Trial[], total: Estimate | undefined): string {
  let product = 1;
  const steps = kept.map(({ proposal, measured }) => {
    const from = product;
    product *= measured?.value ?? 1;
    return { label: proposal.name, from, to: product };
  });
  const rows = [...steps, ...(total === undefined ? [] : [{ label: "measured together", from: 1, to: total.value }])];
  const ends = rows.flatMap(({ from, to }) => [from, to]);
  const span = { from: 0.95 * Math.min(1, ...ends), to: 1.15 * Math.max(1.25, ...ends) };
  const x = logScale(span, { from: CHART.left, to: CHART.right });
  const bottom = CHART.top + rows.length * CHART.row;
  const parts = [
    ...logTicks(span).map(
      (tick) =>
        lineFrom(x(tick), CHART.top, x(tick), bottom, 'class="grid"') +
        textAt(x(tick), bottom + 16, String(round(10 * tick) / 10), 'class="tick" text-anchor="middle"'),
    ),
    ...rows.map(({ label, from, to }, index) => {
      const y = CHART.top + (index + 0.5) * CHART.row;
      const [left, right] = [x(Math.min(from, to)), x(Math.max(from, to))];
      const bar = `<rect x="${round(left)}" y="${round(y - 8)}" width="${round(Math.max(1, right - left))}" height="16" rx="3" fill="var(--color)"/>`;
      const name = textAt(CHART.left - 10, y + 4, label, 'class="row" text-anchor="end"');
      const value = textAt(right + 6, y + 4, times(to), 'class="tick"');
      return `<g class="c${index === steps.length ? 1 : 0}">${bar}</g>${name}${value}`;
    }),
  ];
  return `<svg viewBox="0 0 ${CHART.width} ${bottom + 24}" role="img" aria-label="Waterfall">${parts.join("")}</svg>`;
}

/** The model's entry in the fleet's YAML. */
export function fleetYaml(
  { name, path: own }: Pick<LocatedModel, "name" | "path">,
  { engine, program }: EngineChoice,
  configuration: Configuration,
): string {
  const { model = own, ...flags } = configuration;
  if (engine === "millrace") {
    const { [INSTANCES]: _, ...args } = flags;
    const several = INSTANCES in flags ? { instances: instancesOf(flags) } : {};
    return stringify({ models: [{ name, model, ...several, args: flagWords(args) }] });
  }
  const runner = { engine, ...(program && { program: [program, "serve"] }) };
  return stringify({ models: [{ name, model, ...runner, args: flagWords(flags) }] });
}
