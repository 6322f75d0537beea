/** `millrace bench ablate`: the servers and cells of an ablation. */
import { MillraceError } from "../../core/errors.js";
import { kvBytesPerToken } from "../../model/description/sizes.js";
import { openModel } from "../../model/open-model.js";
import { ablationCells, CELL_NAMES, type CellWishes } from "../ablation/cells.js";
import {
  FOUNDATION,
  flagsOf,
  INT8_KV,
  type Layers,
  optimisations,
  variantsOf,
  weightsLayer,
} from "../ablation/variants.js";
import { type Planned, plannedCell } from "./plan.js";
import { millraceServer } from "./servers.js";
import type { ServerUnderTest } from "./target.js";

export interface AblationOptions {
  /** Files of the same model in other weight types. */
  readonly quantized?: readonly string[];
  /** JSON for the layer of speculation. */
  readonly speculativeConfig: string;
  readonly rounds: number;
  /** Threads of each server. */
  readonly threads: number;
}

export interface Ablation {
  readonly planned: Planned;
  /** @param modelPath the model with weights in 16 or 32 bits */
  targetsFor(modelPath: string): ServerUnderTest[];
}

/** Long enough for the slowest answer of the slowest variant. */
const TIMEOUT_MS = 600_000;

/** Throws invalid_option. */
export function ablationOf(options: AblationOptions, wishes: CellWishes): Ablation {
  const layers = layersOf(options);
  const planned = planOf(wishes, layers, options.rounds, options.threads);
  return { planned, targetsFor: (modelPath) => targetsOf(modelPath, layers, planned, options.threads) };
}

/** @param quantized files of the same model; the first is a layer, the others are measured alone. Throws invalid_option. */
function layersOf({ quantized = [], speculativeConfig }: AblationOptions): Layers {
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

function planOf(wishes: CellWishes, layers: Layers, rounds: number, numThreads: number): Planned {
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

function targetsOf(path: string, layers: Layers, { cells }: Planned, threads: number): ServerUnderTest[] {
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
