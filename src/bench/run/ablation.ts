/** `millrace bench ablate`: the servers and cells of an ablation. */
import { statSync } from "node:fs";
import { join } from "node:path";
import { MillraceError } from "../../core/errors.js";
import { packageRoot } from "../../core/package-root.js";
import { nameOf } from "../../formats/locate-model.js";
import { kvBytesPerToken } from "../../model/description/sizes.js";
import { openModel } from "../../model/open-model.js";
import { ablationCells, CELL_NAMES, type CellWishes, LADDER, LADDER_ROOM, STATIC_BATCH } from "../ablation/cells.js";
import { ABLATED_ENGINES, type AblatedEngineName } from "../ablation/engines/index.js";
import {
  ALL,
  flagsOf,
  type Layers,
  TRANSFORMERS,
  TRANSFORMERS_BATCHES,
  VANILLA,
  type Variant,
  variantsOf,
  weightsLayer,
} from "../ablation/variants.js";
import { ablatedServer } from "./ablated-servers.js";
import type { Launch } from "./launch.js";
import { type Planned, plannedCell } from "./plan.js";
import type { Restarts } from "./runner.js";
import type { ServerUnderTest } from "./target.js";

export interface AblationOptions {
  readonly engine: AblatedEngineName;
  /** The engine's program; undefined: the name in its documentation. */
  readonly program?: string;
  /** A Python with torch and transformers, for the baselines without a serving engine; undefined: no such baselines. */
  readonly transformers?: string;
  /** Files or folders of the same model in other weight types. */
  readonly quantized?: readonly string[];
  /** JSON for the layer of speculation; undefined: the engine's usual one. */
  readonly speculativeConfig?: string | undefined;
  /** Whether drafts are a layer: on weights that predict no text, their gain means nothing. */
  readonly hasSpeculation: boolean;
  readonly rounds: number;
  /** Threads of each server. */
  readonly threads: number;
  readonly pricePerHour?: number | undefined;
  /** A running server with every optimisation: only vanilla is measured beside it, under the ladder. */
  readonly running?: RunningServer | undefined;
}

interface RunningServer {
  readonly url: string;
  /** The model's name in requests. */
  readonly model?: string | undefined;
  readonly apiKey?: string | undefined;
}

export interface Ablation {
  readonly planned: Planned;
  readonly targets: readonly ServerUnderTest[];
  readonly restarts: Restarts;
}

/** Long enough for the slowest answer of the slowest variant. */
const TIMEOUT_MS = 600_000;

/** Lengths of the published cells, for comparison. */
const SHAPES: CellWishes["shapes"] = [
  [512, 512],
  [1024, 512],
  [2048, 1024],
];

/** The usual lengths that fit the model's context; the shortest if none does. */
export function usualShapes(path: string, scale: number): CellWishes["shapes"] {
  const { contextLength } = openModel(path).config;
  const fitting = SHAPES.filter(([prompt, output]) => scale * (prompt + output + LADDER_ROOM) <= contextLength);
  return fitting.length > 0 ? fitting : SHAPES.slice(0, 1);
}

/** Throws invalid_option. @param path the model with weights in 16 or 32 bits */
export function ablationOf(path: string, options: AblationOptions, wishes: CellWishes): Ablation {
  const layers = layersOf(options);
  const hasFolder = statSync(path).isDirectory();
  if (options.transformers !== undefined && !hasFolder) {
    throw new MillraceError(
      "invalid_option",
      `expected --transformers with a folder of safetensors files, got ${path}`,
      {
        hint: "write one: millrace convert --model model.gguf --out FOLDER",
      },
    );
  }
  const { running } = options;
  const isWanted = ({ name, isOnHalf }: Variant) =>
    running === undefined ? !isOnHalf || options.threads > 1 : name === VANILLA;
  const variants = variantsOf(layers).filter(isWanted);
  const baselines = options.transformers === undefined ? [] : [TRANSFORMERS, TRANSFORMERS_BATCHES];
  const names = [...baselines, ...variants.map(({ name }) => name), ...(running === undefined ? [] : [ALL])];
  const planned = planOf(running === undefined ? wishes : { ...wishes, only: [LADDER.trim()] }, layers, names, options);
  const servers = [
    ...(options.transformers === undefined ? [] : transformersServers(options.transformers, path, options.threads)),
    ...serversOf(path, layers, variants, planned, options),
  ];
  const targets = servers
    .filter(({ name }) => planned.cells.some((cell) => cell.targets!.includes(name)))
    .map((launch): ServerUnderTest => ({ name: launch.name, launch, timeoutMs: TIMEOUT_MS }));
  if (running !== undefined) {
    return { planned, targets: [{ name: ALL, ...running, timeoutMs: TIMEOUT_MS }, ...targets], restarts: "never" };
  }
  const ofEngine = targets.filter(({ name }) => !baselines.includes(name));
  const asked = ofEngine.find(({ name }) => name === VANILLA) ?? ofEngine[0];
  // Variants of one engine give the same answers, so only one is probed; the ablation continues if another one cannot
  // start.
  const known = targets.map((target) =>
    target === asked || !ofEngine.includes(target) ? target : { ...target, factsOf: asked!.name },
  );
  return { planned, targets: known, restarts: ABLATED_ENGINES[options.engine].startsSlowly ? "round" : "run" };
}

/** Throws invalid_option. */
function layersOf({ engine, quantized = [], speculativeConfig, hasSpeculation }: AblationOptions): Layers {
  const weights = quantized.map((path) => weightsLayer(openModel(path).summary.weightType, path));
  if (new Set(weights.map((layer) => layer.name)).size < weights.length) {
    throw new MillraceError("invalid_option", "expected --quantized files of different types, got one type twice", {
      hint: `got ${weights.map((layer) => layer.name).join(", ")}`,
    });
  }
  const { foundation, optimisations, speculation } = ABLATED_ENGINES[engine];
  const drafts = hasSpeculation ? (speculativeConfig ?? speculation) : undefined;
  return {
    foundation,
    // The first quantised file is a layer, the others are measured alone.
    optimisations: [...weights.slice(0, 1), ...optimisations(drafts)],
    alternatives: weights.slice(1),
  };
}

function planOf(
  wishes: CellWishes,
  layers: Layers,
  servers: readonly string[],
  { engine, rounds, threads, pricePerHour }: AblationOptions,
): Planned {
  const cells = ablationCells(wishes, servers);
  const unknown = wishes.only?.find((name) => !cells.some((cell) => cell.name.startsWith(name)));
  if (unknown !== undefined) {
    const expected = `expected --cells to be among ${CELL_NAMES.join(", ")}`;
    throw new MillraceError("invalid_option", `${expected}, got ${JSON.stringify(unknown)}`);
  }
  const names = (all: Layers["foundation"]) => all.map((layer) => layer.name);
  const ablation = {
    engine,
    foundation: names(layers.foundation),
    optimisations: names(layers.optimisations),
    alternatives: names(layers.alternatives),
    numThreads: threads,
  };
  const scale = wishes.scale === 1 ? {} : { scale: wishes.scale };
  const price = pricePerHour === undefined ? {} : { pricePerHour };
  const plan = {
    cells: cells.map(plannedCell),
    rounds,
    seed: 0,
    ...scale,
    ...price,
    stopsWhenSaturated: false,
    ablation,
  };
  return { cells, plan: { scenario: "ablation", ...plan } };
}

function serversOf(
  path: string,
  layers: Layers,
  variants: readonly Variant[],
  { cells }: Planned,
  { engine, program, threads, speculativeConfig, running }: AblationOptions,
): Launch[] {
  const { config, summary } = openModel(path);
  // Beside a running server, vanilla has that server's weights.
  if (running === undefined && !/^(F16|BF16|F32)$/.test(summary.weightType)) {
    throw new MillraceError("invalid_option", `expected --model with weights in 16 bits, got ${summary.weightType}`, {
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
  const { speculation } = ABLATED_ENGINES[engine];
  return variants.map((variant) =>
    ablatedServer(engine, {
      name: variant.name,
      modelPath: variant.layers.find((layer) => layer.modelPath !== undefined)?.modelPath ?? path,
      modelName: nameOf(path),
      numThreads: variant.isOnHalf ? threads >> 1 : threads,
      kvBytesPerToken: kvBytesPerToken(config, "f16"),
      layers: variant.layers.map(({ name }) => name),
      speculation: speculativeConfig ?? speculation,
      program,
      flagsFor: (shape) => flagsOf(variant, layers, shape),
    }),
  );
}

function transformersServers(python: string, folder: string, threads: number): Launch[] {
  const script = join(packageRoot(), "scripts/engines/transformers-server.py");
  const server = (name: string, batch: number): Launch => ({
    name,
    command: (port) => [
      python,
      script,
      folder,
      "--port",
      String(port),
      "--batch",
      String(batch),
      "--threads",
      String(threads),
    ],
    startSeconds: 300,
  });
  return [server(TRANSFORMERS, 1), server(TRANSFORMERS_BATCHES, STATIC_BATCH)];
}
