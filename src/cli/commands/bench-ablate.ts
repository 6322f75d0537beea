/** `millrace bench ablate`: two baselines, every optimisation alone, all together, all but one. */

import { Command, Option } from "commander";
import type { CellWishes } from "../../bench/ablation/cells.js";
import type { Layers } from "../../bench/ablation/variants.js";
import { benchedThreads } from "../../bench/run/benched-threads.js";
import type { Planned } from "../../bench/run/plan.js";
import type { ServerUnderTest } from "../../bench/run/target.js";
import { MillraceError } from "../../core/errors.js";
import { locateModel } from "../../formats/locate-model.js";
import { addOutputOptions, concurrencies, type OutputFlags, shapePairs } from "../flags/bench-options.js";
import { modelOption } from "../flags/model-option.js";
import { integerIn, listOf, numberIn } from "../flags/option-values.js";
import { parseSpeculativeConfig } from "../flags/speculative-config.js";
import { stagesTo } from "../output/stages.js";
import { measureServers } from "../process/measure-servers.js";

interface AblateFlags extends OutputFlags {
  readonly model?: string;
  readonly quantized?: readonly string[];
  readonly speculativeConfig: string;
  readonly cells?: readonly string[];
  readonly shape: CellWishes["shapes"];
  readonly concurrency: readonly number[];
  readonly scale?: number;
  readonly duration?: number;
  readonly rounds?: number;
  readonly threads?: number;
  readonly quick?: boolean;
  readonly from?: string;
}

const TIMEOUT_MS = 600_000;

/** What --quick changes where nothing else is asked for. */
const FULL = { scale: 1, durationS: 60, rounds: 3 };
const QUICK = { scale: 0.25, durationS: 3, rounds: 1 };
const QUICK_CONCURRENCY = [1, 4, 16];

export function benchAblateCommand(): Command {
  const command = new Command("ablate")
    .description(
      "Measure what each optimisation is worth: naive (static batching, contiguous KV, F16), vanilla (continuous batching, paged KV, F16), every optimisation alone, all together, all but one.",
    )
    .addOption(modelOption())
    .option(
      "--quantized <paths>",
      "the same model quantised: the first is a layer, others are measured alone",
      listOf("--quantized"),
    )
    .option(
      "--speculative-config <json>",
      "what the layer of speculation consists of",
      checkedConfig,
      '{"method":"auto"}',
    )
    .option(
      "--cells <names>",
      "only cells that begin so, separated by commas (listed when a name is unknown)",
      listOf("--cells"),
    )
    .addOption(
      new Option("--shape <in/out,…>", "lengths in the ladder of loads")
        .argParser(shapePairs)
        .default([[512, 512]], "512/512"),
    )
    .addOption(
      new Option("--concurrency <n,…>", "clients at once in the ladder of loads (with --quick 1,4,16)")
        .argParser(concurrencies)
        .default([1, 2, 4, 8, 16], "1,2,4,8,16"),
    )
    .option("--scale <factor>", "multiplies all lengths, and the KV memory", numberIn("--scale", 0.01, 100))
    .option(
      "--duration <seconds>",
      "time after which a run sends no new requests (default: 60)",
      numberIn("--duration", 0.1, 1e6),
    )
    .option("--rounds <n>", "runs of each server in each cell (default: 3)", integerIn("--rounds", 1, 100))
    .option(
      "--threads <n>",
      "threads of each server (default: physical cores but one, which the load generator has); half of them needs two",
      integerIn("--threads", 1, 1024),
    )
    .option(
      "--quick",
      "a quarter of all lengths, 3 seconds a run, one round: shows that it works, not what it is worth",
    )
    .option("--from <file>", "measure nothing: tables and pages of saved results");
  return addOutputOptions(command).action(runBenchAblate);
}

function checkedConfig(text: string): string {
  parseSpeculativeConfig(text);
  return text;
}

async function runBenchAblate(flags: AblateFlags, command: Command): Promise<void> {
  if (flags.from !== undefined) {
    const [{ readReport }, { presentReport }] = await Promise.all([
      import("../../bench/results/schema.js"),
      import("../output/bench-report.js"),
    ]);
    await presentReport(readReport(flags.from), flags);
    return;
  }
  const isDefaultLoad = command.getOptionValueSource("concurrency") === "default";
  const concurrency = flags.quick === true && isDefaultLoad ? QUICK_CONCURRENCY : flags.concurrency;
  const usual = flags.quick === true ? QUICK : FULL;
  const { rounds = usual.rounds, threads = benchedThreads() } = flags;
  const wishes = {
    scale: flags.scale ?? usual.scale,
    durationS: flags.duration ?? usual.durationS,
    shapes: flags.shape,
    concurrency,
    only: flags.cells,
  };
  const layers = await layersOf(flags);
  const planned = await planOf(wishes, layers, rounds, threads);
  const targets = await targetsOf(flags, layers, planned, threads);
  await measureServers({ targets, planned, isFreshEachRun: true, numThreads: threads }, flags);
}

async function layersOf({ quantized = [], speculativeConfig }: AblateFlags): Promise<Layers> {
  const [{ FOUNDATION, optimisations, weightsLayer }, { openModel }] = await Promise.all([
    import("../../bench/ablation/variants.js"),
    import("../../model/open-model.js"),
  ]);
  const weights = quantized.map((path) => weightsLayer(openModel(path).summary.weightType, path));
  if (new Set(weights.map((layer) => layer.name)).size < weights.length) {
    throw new MillraceError("invalid_option", "expected --quantized files of different types, got one type twice", {
      hint: `got ${weights.map((layer) => layer.name).join(", ")}`,
    });
  }
  return {
    foundation: FOUNDATION,
    optimisations: [...weights.slice(0, 1), ...optimisations(speculativeConfig)],
    alternatives: weights.slice(1),
  };
}

async function planOf(wishes: CellWishes, layers: Layers, rounds: number, numThreads: number): Promise<Planned> {
  const [{ ablationCells, CELL_NAMES }, { variantsOf }, { plannedCell }] = await Promise.all([
    import("../../bench/ablation/cells.js"),
    import("../../bench/ablation/variants.js"),
    import("../../bench/run/plan.js"),
  ]);
  const variants = variantsOf(layers).map((variant) => variant.name);
  const cells = ablationCells(wishes, variants);
  const unknown = wishes.only?.find((name) => !cells.some((cell) => cell.name.startsWith(name)));
  if (unknown !== undefined) {
    const expected = `expected --cells to be among ${CELL_NAMES.join(", ")}`;
    throw new MillraceError("invalid_option", `${expected}, got ${JSON.stringify(unknown)}`);
  }
  const names = (all: Layers["foundation"]) => all.map((layer) => layer.name);
  const ablation = {
    foundation: names(layers.foundation),
    optimisations: names(layers.optimisations),
    alternatives: names(layers.alternatives),
    numThreads,
  };
  const scale = wishes.scale === 1 ? {} : { scale: wishes.scale };
  const plan = { cells: cells.map(plannedCell), rounds, seed: 0, ...scale, stopsWhenSaturated: false, ablation };
  return { cells, plan: { scenario: "ablation", ...plan } };
}

async function targetsOf(
  flags: AblateFlags,
  layers: Layers,
  { cells }: Planned,
  threads: number,
): Promise<ServerUnderTest[]> {
  const { path } = await locateModel(flags.model, stagesTo(process.stderr));
  const [{ flagsOf, INT8_KV, variantsOf }, { millraceServer }, { openModel }, { kvBytesPerToken }] = await Promise.all([
    import("../../bench/ablation/variants.js"),
    import("../../bench/run/servers.js"),
    import("../../model/open-model.js"),
    import("../../model/description/sizes.js"),
  ]);
  const { config, summary } = openModel(path);
  if (!/^(F16|BF16|F32)$/.test(summary.weightType)) {
    throw new MillraceError("invalid_option", `expected --model with weights in F16, got ${summary.weightType}`, {
      hint: "the baselines are not quantised: give the quantised file with --quantized",
    });
  }
  const longest = Math.max(...cells.map((cell) => cell.shape!.maxModelLen));
  if (longest > config.contextLength) {
    const message = `expected a context of ${longest} tokens for these cells, got the model's ${config.contextLength}`;
    throw new MillraceError("invalid_option", message, {
      hint: `make all lengths shorter: --scale ${(Math.floor((95 * config.contextLength) / longest) / 100).toFixed(2)} times the present one`,
    });
  }
  const bytes = kvBytesPerToken(config, "f16");
  return variantsOf(layers)
    .filter(({ isOnHalf }) => !isOnHalf || threads > 1)
    .filter(({ name }) => cells.some((cell) => cell.targets!.includes(name)))
    .map((variant) => {
      const modelPath = variant.layers.find((layer) => layer.modelPath !== undefined)?.modelPath ?? path;
      const numThreads = variant.isOnHalf ? threads >> 1 : threads;
      const kvType = variant.layers.some(({ name }) => name === INT8_KV) ? "int8" : "f16";
      const model = { path: modelPath, numThreads, kvBytesPerToken: bytes, kvType } as const;
      const launch = millraceServer(variant.name, model, (shape) => flagsOf(variant, layers, shape));
      return { name: variant.name, launch, timeoutMs: TIMEOUT_MS };
    });
}
