/** Published ratios for each layer, compared with those of an ablation, and the reasons for differences. */

import {
  CODE_EDIT,
  isLadderCell,
  LADDER,
  LENGTHS,
  MEMORY,
  PADDED,
  SHARED,
  STORY,
  WARM_EDIT,
} from "../ablation/cells.js";
import {
  ALL,
  aloneName,
  foundationName,
  HALF,
  NAIVE,
  SPECULATION,
  TRANSFORMERS,
  VANILLA,
} from "../ablation/variants.js";
import { type AblationReading, priceOfHalf } from "./ablation-reading.js";
import { figure, percent, ratioText, signedPercent, voidMark } from "./words.js";

interface Reference {
  readonly what: string;
  readonly theirs: string;
  /** Undefined: the cells were not measured. */
  ours(reading: AblationReading): string | undefined;
  readonly why: string;
}

const together = (parts: readonly (string | undefined)[]): string | undefined => {
  const known = parts.filter((part) => part !== undefined);
  return known.length === 0 ? undefined : known.join("; ");
};

/** The variant whose only layer is continuous batching. */
const continuousOnly = ({ plan: { foundation } }: AblationReading): string =>
  foundationName(foundation, "continuous batching");

/** Ratio of the most requests in the batch at once. */
function atOnce(reading: AblationReading, first: string, second: string): string | undefined {
  if (first === second) return undefined;
  const cell = reading.cellOf(MEMORY);
  const [more, fewer] = [first, second].map((target) => reading.maxRunning(cell, target));
  return more === undefined || !fewer ? undefined : `${(more / fewer).toFixed(2)} × (${fewer} → ${more})`;
}

function weightsGain(reading: AblationReading, types: RegExp): string | undefined {
  const { optimisations, alternatives } = reading.plan;
  const layers = [...optimisations, ...alternatives].filter((layer) => types.test(layer));
  const cell = reading.cellOf(CODE_EDIT);
  return together(
    layers.map((layer) => {
      const tpot = reading.ratio(cell, VANILLA, aloneName(VANILLA, layer))?.tpot;
      return tpot === undefined ? undefined : `${layer}: ${ratioText(tpot)}`;
    }),
  );
}

function speculationGain(reading: AblationReading, workload: string): string | undefined {
  const cell = reading.cellOf(workload);
  const target = aloneName(VANILLA, SPECULATION);
  const tpot = reading.ratio(cell, VANILLA, target)?.tpot;
  const acceptance = reading.summary(cell, target)?.server.acceptance;
  return tpot === undefined ? undefined : `${workload}: ${ratioText(tpot)} at ${percent(acceptance)} accepted`;
}

/** Text for each load of the ladder. */
function byLoad(
  reading: AblationReading,
  text: (cell: Parameters<AblationReading["summary"]>[0]) => string | undefined,
) {
  const cells = reading.cells(isLadderCell);
  return together(
    cells.map((cell) => {
      const value = text(cell);
      return value === undefined ? undefined : `${value} (${cell.name.slice(LADDER.length)})`;
    }),
  );
}

const change = (value: number | undefined): string | undefined =>
  value === undefined ? undefined : signedPercent(value - 1);

const REFERENCES: readonly Reference[] = [
  {
    what: "everything against a plain transformers pipeline, one request at a time, output tokens/s",
    theirs: "10–20 ×",
    ours: (reading) => byLoad(reading, (cell) => ratioIf(reading.ratio(cell, ALL, TRANSFORMERS)?.throughput)),
    why: "the gain grows with the requests that wait; a GPU computes a batch in nearly the time of one request, few cores do not",
  },
  {
    what: "continuous against static batching, mixed lengths",
    theirs: "4–8 ×",
    ours: (reading) => {
      const dropped = reading.ratio(reading.cellOf(LENGTHS), continuousOnly(reading), NAIVE)?.throughput;
      const cell = reading.cellOf(PADDED);
      const useful = (reading.summary(cell, NAIVE)?.outputTokensPerS.median ?? 0) * (cell?.usefulShare ?? 1);
      const continuous = reading.summary(reading.cellOf(LENGTHS), continuousOnly(reading))?.outputTokensPerS;
      return together([
        useful === 0 || continuous === undefined ? undefined : `${(continuous.median / useful).toFixed(2)} × padded`,
        dropped === undefined ? undefined : `${ratioText(dropped)} against naive`,
      ]);
    },
    why: "padding costs what the spread of lengths makes it cost; on a GPU, rows beside others are almost free, on few cores each row costs its arithmetic",
  },
  {
    what: "requests at once in the same memory, paged KV",
    theirs: "2–4 × memory utilisation",
    ours: (reading) => atOnce(reading, VANILLA, continuousOnly(reading)),
    why: "the ratio is the longest request that is allowed ÷ the mean one, so it is what the traffic makes it",
  },
  {
    what: "requests at once in the same memory, 8-bit KV and prefix cache besides",
    theirs: "2.8 × (64 → 180)",
    ours: (reading) => atOnce(reading, ALL, VANILLA),
    why: "8 bits double the tokens, and three quarters of these prompts are shared; the seats end it",
  },
  {
    what: "KV memory of the same tokens, 8-bit",
    theirs: "2.7 × less (32 → 12 GB)",
    ours: (reading) => {
      const layer = reading.plan.optimisations.find((name) => /^(int8|FP8) KV$/.test(name));
      return layer === undefined ? undefined : atOnce(reading, aloneName(VANILLA, layer), VANILLA);
    },
    why: "8 bits and their scales against 16: at most 2; more needs fewer bits or eviction",
  },
  {
    what: "time to the first token with the prefix cache",
    theirs: "2.3 × less (420 → 180 ms)",
    ours: (reading) =>
      ratioIf(reading.ratio(reading.cellOf(SHARED), VANILLA, aloneName(VANILLA, "prefix cache"))?.ttft),
    why: "three quarters of these prompts are shared, of theirs 50–80 %; prompts of a few hundred tokens take long on few cores",
  },
  {
    what: "speculation at temperature 0, and above 0.8",
    theirs: "2.5 × at 78 % accepted; code and JSON ≥ 85 %, creative 65–70 %; above 0.8 1.1–1.2 ×",
    ours: (reading) => together([CODE_EDIT, STORY, WARM_EDIT].map((workload) => speculationGain(reading, workload))),
    why: "drafts here are looked up in prompt and output unless --speculative-config names a draft model; checking rows costs more on few cores",
  },
  {
    what: "8-bit weights, one request, tokens/s",
    theirs: "1.7 ×",
    ours: (reading) => weightsGain(reading, /^(Q8|I8|INT8|W8).* weights$/i),
    why: "decoding one request reads the weights once a token: 16 ÷ 8.5 bits is the bound where memory is the bottleneck",
  },
  {
    what: "4-bit weights, one request, tokens/s",
    theirs: "3.2 ×",
    ours: (reading) => weightsGain(reading, /^(Q4|I4|INT4|W4|IQ4).* weights$/i),
    why: "16 ÷ 4.5 bits is the bound; what is not a matrix of weights stays as it was",
  },
  {
    what: "all together against vanilla, output tokens/s at 1, 2, 4, 8, 16 at once",
    theirs: "+69.5, +59.1, +41.8, +25.3, +10.6 %",
    ours: (reading) => byLoad(reading, (cell) => change(reading.ratio(cell, ALL, VANILLA)?.throughput?.value)),
    why: "random prompts: the prefix cache has nothing to do, and text that repeats itself flatters speculation (its part is in the table by load)",
  },
  {
    what: "the headline: throughput, time to the first token, cost of output tokens",
    theirs: "+143 %; −40.7 %; −75 % ($5.80 → $1.472 per M), which their own cells contradict",
    ours: (reading) => {
      const cells = reading.cells(isLadderCell);
      const all = reading.overall(cells, ALL, VANILLA);
      const half = reading.overall(cells, HALF, VANILLA).throughput?.value;
      const speed = all.throughput?.value;
      if (speed === undefined) return undefined;
      const halfCost = half === undefined ? "" : `, on half the threads ${change(priceOfHalf(reading.plan) / half)}`;
      return `${change(speed)}; ${change(all.ttft?.value) ?? "–"}; ${change(1 / speed)}${halfCost}`;
    },
    why: "all loads of the ladder together, as a ratio of sums; the same price for the same machine",
  },
  {
    what: "tokens/s for each user, all together",
    theirs: "≥ 30",
    ours: (reading) => byLoad(reading, (cell) => knownFigure(reading.summary(cell, ALL)?.tokensPerSPerUser?.median)),
    why: "the model's size and the machine decide",
  },
];

const knownFigure = (value: number | undefined): string | undefined =>
  value === undefined ? undefined : figure(value);
const ratioIf = (ratio: Parameters<typeof ratioText>[0]): string | undefined =>
  ratio === undefined ? undefined : ratioText(ratio);

/** Published ratios that an ablation on one machine's cores cannot have. */
const NO_LAYER =
  "Concurrent instances (+69.8 to +92.4 % published, of accelerators) are no layer of one engine: `bench serving` compares them on cores.";
const NO_FLASH =
  " Flash attention (2–4 × published) is no layer of this engine: nothing switches it off, and `bench kernels` has its speed.";

interface ReferenceTable {
  /** The first row is the header. */
  readonly rows: readonly (readonly string[])[];
  /** Sentences about reference ratios that the run does not measure. */
  readonly note: string;
}

export function referenceTable(reading: AblationReading): ReferenceTable {
  const rows: string[][] = [["what", "theirs", "ours", "why they differ"]];
  const notMeasured: string[] = [];
  for (const { what, theirs, ours, why } of REFERENCES) {
    const { value, isVoid } = reading.noting(() => ours(reading));
    if (value === undefined) notMeasured.push(what);
    else rows.push([what, theirs, value + voidMark(isVoid), why]);
  }
  const unmeasured = notMeasured.length === 0 ? "" : `Not measured in this run: ${notMeasured.join("; ")}. `;
  const noFlash = reading.plan.optimisations.includes("flash attention") ? "" : NO_FLASH;
  return { rows, note: unmeasured + NO_LAYER + noFlash };
}
