/** An ablation's tables: each layer alone and removed, the ladder of loads, and the reference ratios. */

import { BURST, isLadderCell, isLayerCell, PREFIX } from "../ablation/cells.js";
import {
  ALL,
  aloneName,
  foundationName,
  HALF,
  NAIVE,
  PREFIX_CACHE,
  SPECULATION,
  TRANSFORMERS,
  TRANSFORMERS_BATCHES,
  VANILLA,
  withoutName,
} from "../ablation/variants.js";
import type { BenchReport, PlannedCell } from "../results/schema.js";
import { AblationReading, priceOfHalf } from "./ablation-reading.js";
import { referenceTable } from "./ablation-reference.js";
import type { CellRatio } from "./summary.js";
import { figure, milliseconds, NONE, pairMark, percentileText, ratioText, signedPercent, voidMark } from "./words.js";

export interface Section {
  readonly title: string;
  readonly note: string;
  /** The first row is the header; empty if there is nothing to show. */
  readonly rows: readonly (readonly string[])[];
}

/** @param report whose plan has an ablation. @returns sections with rows */
export function ablationSections(report: BenchReport): Section[] {
  const reading = new AblationReading(report);
  const layerCells = reading.cells(isLayerCell);
  const references = referenceTable(reading);
  return [
    ...layerCells.map((cell) => ({
      title: `Layers: ${cell.name}`,
      note: "Alone: with the layer ÷ without it, on naive for continuous batching and paged KV, else on vanilla. Taken away: all together ÷ all but the layer.",
      rows: layerRows(reading, cell),
    })),
    {
      title: "By load",
      note: "Of output tokens/s; cost at one price an hour, on half the threads at their share of it. 1 pair: only one round counts for both, so how much rounds differ is not known.",
      rows: ladderRows(reading),
    },
    {
      title: `A ${BURST}`,
      note: "All requests arrive at once. The last answer ends after the time of the whole run.",
      rows: burstRows(reading),
    },
    {
      title: "By shared part of the prompts",
      note: "Output tokens/s and TTFT of the prefix cache: vanilla with it ÷ vanilla, and all together ÷ all but it.",
      rows: sharedRows(reading),
    },
    {
      title: "Reference ratios",
      note: `Theirs as published, on GPUs; ours from the cells above. ${references.note}`,
      rows: references.rows,
    },
  ].filter(({ rows }) => rows.length > 1);
}

const speed = (ratio: Compared | undefined): string => ratioText(ratio?.throughput) + voidMark(ratio?.isVoid);

/** A layer's gain alone and its gain on top of all others; undefined if not measured. */
interface LayerGain {
  readonly layer: string;
  readonly alone: CellRatio | undefined;
  readonly away: CellRatio | undefined;
}

type Base = typeof NAIVE | typeof VANILLA;

function gainsOf(reading: AblationReading, cell: PlannedCell, base: Base, layers: readonly string[]): LayerGain[] {
  return layers.map((layer) => ({
    layer,
    alone: reading.ratio(cell, base === NAIVE ? foundationName(layers, layer) : aloneName(base, layer), base),
    away: reading.ratio(cell, ALL, withoutName(layer)),
  }));
}

export interface CellGains {
  readonly cell: PlannedCell;
  readonly layers: readonly LayerGain[];
  /** All together ÷ vanilla. */
  readonly together: CellRatio | undefined;
}

/** @param report whose plan has an ablation. @returns the gains of each cell under which every layer was measured */
export function cellGains(report: BenchReport): CellGains[] {
  const reading = new AblationReading(report);
  const { foundation, optimisations, alternatives } = reading.plan;
  return reading.cells(isLayerCell).map((cell) => ({
    cell,
    layers: [
      ...gainsOf(reading, cell, NAIVE, foundation),
      ...gainsOf(reading, cell, VANILLA, [...optimisations, ...alternatives]),
    ],
    together: reading.ratio(cell, ALL, VANILLA),
  }));
}

function layerRows(reading: AblationReading, cell: PlannedCell): string[][] {
  const { foundation, optimisations, alternatives } = reading.plan;
  const row = ({ layer, alone, away }: LayerGain) => [
    layer,
    speed(alone),
    ratioText(alone?.ttft),
    ratioText(alone?.tpot),
    speed(away),
    ratioText(away?.ttft),
    ratioText(away?.tpot),
  ];
  const rowsOf = (base: Base, layers: readonly string[], together: string) => {
    const gains = gainsOf(reading, cell, base, layers);
    const all = reading.ratio(cell, together, base);
    const product = gains.reduce((result, { alone }) => result * (alone?.throughput?.value ?? Number.NaN), 1);
    const share = (all?.throughput?.value ?? Number.NaN) / product;
    const mark = voidMark(all?.isVoid === true || gains.some(({ alone }) => alone?.isVoid === true));
    const text = Number.isFinite(share)
      ? `${product.toFixed(2)} ×; together ÷ product: ${share.toFixed(2)}${mark}`
      : NONE;
    return [
      ...gains.map(row),
      row({ layer: `${together} ÷ ${base}`, alone: all, away: undefined }),
      [`product of what they gain on ${base}`, text, NONE, NONE, NONE, NONE, NONE],
    ];
  };
  return [
    ["layer", "alone: tokens/s", "TTFT", "TPOT", "taken away: tokens/s", "TTFT", "TPOT"],
    ...rowsOf(NAIVE, foundation, VANILLA),
    ...rowsOf(VANILLA, optimisations, ALL),
    ...gainsOf(reading, cell, VANILLA, alternatives).map(row),
  ];
}

function burstRows(reading: AblationReading): string[][] {
  const cell = reading.cellOf(BURST);
  const rows = [VANILLA, ALL].flatMap((target) => {
    const summary = reading.summary(cell, target);
    if (summary === undefined) return [];
    const { ttftMs, e2eMs, outputTokensPerS, isVoid } = summary;
    return [
      [
        target + voidMark(isVoid),
        figure(outputTokensPerS.median),
        percentileText(ttftMs, "p50"),
        percentileText(ttftMs, "p95"),
        milliseconds(e2eMs?.max),
      ],
    ];
  });
  return [["server", "tokens/s", "TTFT p50", "TTFT p95", "last answer"], ...rows];
}

function sharedRows(reading: AblationReading): string[][] {
  const rows = reading
    .cells(({ workloadName }) => workloadName.startsWith(PREFIX))
    .map((cell) => {
      const alone = reading.ratio(cell, aloneName(VANILLA, PREFIX_CACHE), VANILLA);
      const away = reading.ratio(cell, ALL, withoutName(PREFIX_CACHE));
      const share = cell.workloadName.slice(PREFIX.length);
      return [share, speed(alone), ratioText(alone?.ttft), speed(away), ratioText(away?.ttft)];
    });
  return [["shared", "alone: tokens/s", "TTFT", "taken away: tokens/s", "TTFT"], ...rows];
}

/** Ratios of one cell, or of all cells together. */
type Compared = Pick<CellRatio, "isVoid" | "throughput" | "ttft">;

function ladderRows(reading: AblationReading): string[][] {
  const cells = reading.cells(isLadderCell);
  const halfPrice = priceOfHalf(reading.plan);
  const hasSpeculation = reading.plan.optimisations.includes(SPECULATION);
  const pipelines = [TRANSFORMERS, TRANSFORMERS_BATCHES].filter((name) =>
    cells.some((cell) => cell.targets?.includes(name)),
  );
  const row = (
    name: string,
    ratio: (first: string, second: string) => Compared | undefined,
    figureOf: (target: string, value: "outputTokensPerS" | "tokensPerSPerUser") => string,
  ) => {
    const [gain, half] = [ratio(ALL, VANILLA), ratio(HALF, VANILLA)];
    const sound = (compared: Compared | undefined) =>
      compared?.isVoid === true ? speed(compared) : speed(compared) + pairMark(compared?.throughput);
    const cost = (share: number, compared: Compared | undefined) => {
      const value = compared?.throughput?.value;
      return signedPercent(value === undefined ? undefined : share / value - 1);
    };
    return [
      name,
      figureOf(VANILLA, "outputTokensPerS"),
      ...pipelines.map((baseline) => sound(ratio(ALL, baseline))),
      sound(ratio(VANILLA, NAIVE)),
      sound(gain),
      ratioText(gain?.ttft) + pairMark(gain?.ttft),
      ...(hasSpeculation ? [sound(ratio(ALL, withoutName(SPECULATION)))] : []),
      figureOf(ALL, "tokensPerSPerUser"),
      sound(half),
      cost(1, gain),
      cost(halfPrice, half),
    ];
  };
  const rowOf = (cell: PlannedCell) =>
    row(
      cell.name,
      (first, second) => reading.ratio(cell, first, second),
      (target, value) => figure(reading.summary(cell, target)?.[value]?.median),
    );
  const overall = row(
    "all of these, ratio of sums",
    (first, second) => reading.overall(cells, first, second),
    () => NONE,
  );
  return withoutEmptyColumns([
    [
      "cell",
      "vanilla, tokens/s",
      ...pipelines.map((name) => `all ÷ ${name}`),
      "vanilla ÷ naive",
      "all ÷ vanilla",
      "TTFT of that",
      ...(hasSpeculation ? ["gain of speculation"] : []),
      "tokens/s/user",
      "half the threads ÷ vanilla",
      "cost",
      "cost on half the threads",
    ],
    ...cells.map(rowOf),
    ...(cells.length > 1 ? [overall] : []),
  ]);
}

/** Leaves out columns that were not measured. */
function withoutEmptyColumns([header = [], ...rows]: string[][]): string[][] {
  const isFilled = (column: number) => rows.some((row) => ![NONE, ""].includes(row[column]!));
  return [header, ...rows].map((row) => row.filter((_, column) => isFilled(column)));
}
