/** Fits the speed model's two shares to measurements of this machine. Reports the model's error before and after. */
import { z } from "zod";
import { MillraceError } from "../core/errors.js";
import { lastingSpeeds } from "../core/machine-speeds.js";
import { median } from "../core/statistics.js";
import { readJsonFile } from "../formats/files/json.js";
import type { Efficiencies } from "./data/constants.js";
import { ceilingsOf, type Machine } from "./data/device.js";
import { KV_TYPES } from "./data/quantizations.js";
import { readPlannedModel } from "./read-model.js";
import { storedQuantization } from "./rules.js";
import { DECODE, defaultEfficiencies, type PlannedInstance, stepTime } from "./step-time.js";

/** Bounds far beyond any machine and any run. A number outside them takes hours to fit, or makes a share infinite. */
const SPEED = z.number().min(1e-6).max(1e18);
const SIZE = z
  .number()
  .int()
  .positive()
  .max(1 << 17);

/** Most steps of a report's prompt. The fit computes the time of each step several thousand times. */
const MOST_STEPS = 1 << 13;

/** Tokens of the embedded engine's step, for reports that do not state them. */
const DEFAULT_CHUNK = 128;

const ENGINE_FIGURES = z.object({
  probes: z
    .object({
      numThreads: SIZE,
      readings: z.array(z.object({ bytesPerS: SPEED, narrow: SPEED, wide: SPEED, float: SPEED })).min(1),
    })
    .optional(),
  model: z.object({ path: z.string() }),
  options: z.object({ maxNumBatchedTokens: SIZE.optional() }).optional(),
  results: z
    .array(
      z.object({
        batch: SIZE,
        promptTokens: SIZE,
        genTokens: SIZE,
        prefillTokensPerS: SPEED,
        decodeTokensPerS: SPEED,
      }),
    )
    .min(1),
});

const ENGINE_REPORT = ENGINE_FIGURES.refine(({ results, options }) =>
  results.every(({ promptTokens }) => promptTokens / chunkOf(options) <= MOST_STEPS),
);

const KERNEL_REPORT = z.object({
  numThreads: z.number(),
  results: z
    .array(z.object({ op: z.string(), shape: z.string(), rooflineShare: z.number().max(100).optional() }))
    .min(1),
});

export type EngineReport = z.infer<typeof ENGINE_REPORT>;

export interface Fit {
  readonly efficiencies: Efficiencies;
  /** Describes the measurement that the shares are fitted to. */
  readonly source: string;
  /** Mean of |predicted ÷ measured − 1|; undefined for a kernel report, which gives the shares directly. */
  readonly errorBefore: number | undefined;
  readonly errorAfter: number | undefined;
  /** Each cell's prediction before fitting ÷ measured value − 1. */
  readonly cells: readonly { readonly cell: string; readonly error: number }[];
}

export interface Point {
  readonly cell: string;
  readonly measured: number;
  readonly predict: (efficiencies: Efficiencies) => number;
}

const chunkOf = (options: z.infer<typeof ENGINE_FIGURES>["options"]): number =>
  options?.maxNumBatchedTokens ?? DEFAULT_CHUNK;

function pointsOf(instance: PlannedInstance, { results, options }: EngineReport): Point[] {
  const chunk = chunkOf(options);
  return results.flatMap(({ batch, promptTokens, genTokens, prefillTokensPerS, decodeTokensPerS }) => [
    {
      cell: `prefill, ${batch} at once`,
      measured: prefillTokensPerS,
      predict: (efficiencies: Efficiencies) => {
        const of = { ...instance, efficiencies };
        let seconds = 0;
        for (let done = 0; done < promptTokens; done += chunk) {
          const numPromptTokens = Math.min(chunk, promptTokens - done);
          seconds += stepTime(of, {
            ...DECODE,
            numDecoding: 0,
            context: 0,
            numPromptTokens,
            promptOffset: done,
          }).totalSeconds;
        }
        return promptTokens / seconds;
      },
    },
    {
      cell: `decode, ${batch} at once`,
      measured: decodeTokensPerS,
      predict: (efficiencies: Efficiencies) =>
        batch /
        stepTime(
          { ...instance, efficiencies },
          { ...DECODE, numDecoding: batch, context: promptTokens + genTokens / 2 },
        ).totalSeconds,
    },
  ]);
}

const squaredLogError = (points: readonly Point[], efficiencies: Efficiencies): number =>
  points.reduce((sum, { measured, predict }) => sum + Math.log(predict(efficiencies) / measured) ** 2, 0);

const errorOf = ({ measured, predict }: Point, efficiencies: Efficiencies): number =>
  predict(efficiencies) / measured - 1;
const meanError = (points: readonly Point[], efficiencies: Efficiencies): number =>
  points.reduce((sum, point) => sum + Math.abs(errorOf(point, efficiencies)), 0) / points.length;

const GOLDEN = (Math.sqrt(5) - 1) / 2;
/** A share is above 1 where memory was slower during the probe than during the run. */
const [LEAST_SHARE, MOST_SHARE] = [0.05, 1.5];
const ROUNDS = 12;

function minimize(cost: (value: number) => number): number {
  let [low, high] = [LEAST_SHARE, MOST_SHARE];
  for (let round = 0; round < 40; round++) {
    const [a, b] = [high - GOLDEN * (high - low), low + GOLDEN * (high - low)];
    if (cost(a) < cost(b)) high = b;
    else low = a;
  }
  return (low + high) / 2;
}

/**
 * Fits the two shares in turn, for a fixed number of rounds. The other constants stay, since a report has too few
 * figures for them.
 */
export function fitShares(points: readonly Point[], start: Efficiencies): Omit<Fit, "source"> {
  let fitted = start;
  for (let round = 0; round < ROUNDS; round++) {
    for (const share of ["memoryShare", "computeShare"] as const) {
      const base = fitted;
      fitted = { ...base, [share]: minimize((value) => squaredLogError(points, { ...base, [share]: value })) };
    }
  }
  const cells = points.map((point) => ({ cell: point.cell, error: errorOf(point, start) }));
  return { efficiencies: fitted, errorBefore: meanError(points, start), errorAfter: meanError(points, fitted), cells };
}

export const fitPoints = (instance: PlannedInstance, report: EngineReport): Omit<Fit, "source"> =>
  fitShares(pointsOf(instance, report), instance.efficiencies);

function fitKernels({ results }: z.infer<typeof KERNEL_REPORT>, start: Efficiencies): Efficiencies {
  const share = (isWanted: (numRows: number) => boolean): number | undefined => {
    const shares = results
      .filter(({ op, shape }) => op.startsWith("linear") && isWanted(Number.parseInt(shape, 10)))
      .flatMap(({ rooflineShare }) => (rooflineShare !== undefined && rooflineShare > 1e-3 ? [rooflineShare] : []));
    return shares.length > 0 ? median(shares) : undefined;
  };
  return {
    ...start,
    memoryShare: share((numRows) => numRows === 1) ?? start.memoryShare,
    computeShare: share((numRows) => numRows >= 64) ?? start.computeShare,
  };
}

/**
 * The machine with its speeds at the time of the run, if the report states them. Speeds of another time would put the
 * difference between the two times into the shares.
 */
function withRecordedSpeeds<M extends Machine>(machine: M, { probes }: EngineReport): M {
  if (probes === undefined) return machine;
  const { numThreads, readings } = probes;
  return { ...machine, device: { ...machine.device, ...ceilingsOf(lastingSpeeds(readings)), numCores: numThreads } };
}

/** @param file the output of `millrace bench engine --json` or `millrace bench kernels --json` on this machine */
export async function fittedEfficiencies(file: string, machine: Machine): Promise<Fit> {
  const { raw } = readJsonFile(file, 64 * 1024 * 1024);
  if (machine.kind !== "cpu") {
    throw new MillraceError(
      "invalid_option",
      `expected results of bench run in ${file} for --calibrate beside ${machine.device.label}, got others`,
      { hint: "bench engine and bench kernels measure the embedded engine, which computes on CPUs" },
    );
  }
  const kernels = KERNEL_REPORT.safeParse(raw);
  if (kernels.success) {
    const efficiencies = fitKernels(kernels.data, defaultEfficiencies(machine, storedQuantization("Q4_0", machine)));
    return { efficiencies, source: `kernels of ${file}`, errorBefore: undefined, errorAfter: undefined, cells: [] };
  }
  const report = ENGINE_REPORT.safeParse(raw);
  if (!report.success) {
    throw new MillraceError(
      "invalid_option",
      `expected results of bench engine or bench kernels in ${file}, got something else`,
      {
        hint: "write them with millrace bench engine --model F --json > results.json",
      },
    );
  }
  const model = await readPlannedModel(report.data.model.path);
  const quantization = storedQuantization(model.stored?.label ?? "BF16", machine);
  const efficiencies = defaultEfficiencies(machine, quantization);
  const measuredOn = withRecordedSpeeds(machine, report.data);
  const instance = { model, quantization, kv: KV_TYPES["16"], machine: measuredOn, tensorParallel: 1, efficiencies };
  return { ...fitPoints(instance, report.data), source: `${model.name} in ${file}` };
}
