/** The compared engines: the command of each for a shape, and the parser of its output. */
import { join } from "node:path";
import { packageRoot } from "../../core/package-root.js";
import { parseBatchedBench, parseResultsJson } from "./parse.js";
import type { Shape, SpeedRow } from "./shapes.js";

export interface PeerModel {
  readonly name: string;
  readonly path: string;
  readonly vocabSize: number;
}

export interface Contender {
  readonly name: string;
  command(model: PeerModel, shape: Shape): string[];
  /** @param output the process's output, stdout first */
  parse(output: string): SpeedRow[];
}

export function millrace(numThreads: number, extraArgs: readonly string[]): Contender {
  return {
    name: "millrace",
    command: ({ path: modelPath }, shape) => [
      process.execPath,
      join(packageRoot(), "bin/millrace.js"),
      "bench",
      "engine",
      "--json",
      "--repetitions",
      "1",
      "--model",
      modelPath,
      "--threads",
      String(numThreads),
      "--prompt-tokens",
      String(shape.promptTokens),
      "--gen-tokens",
      String(shape.genTokens),
      "--batch",
      shape.batches.join(","),
      ...extraArgs,
    ],
    parse: parseResultsJson,
  };
}

/** llama.cpp rounds each sequence's share of the context up to a multiple of this. */
const CONTEXT_UNIT = 256;

/** llama-batched-bench of llama.cpp or ik_llama.cpp. */
export function batchedBench(name: string, path: string, numThreads: number, extraArgs: readonly string[]): Contender {
  return {
    name,
    command: ({ path: modelPath }, shape) => {
      const perSequence = Math.ceil((shape.promptTokens + shape.genTokens) / CONTEXT_UNIT) * CONTEXT_UNIT;
      const context = perSequence * Math.max(...shape.batches);
      return [
        path,
        "-m",
        modelPath,
        "-c",
        String(context),
        "-t",
        String(numThreads),
        "-npp",
        String(shape.promptTokens),
        "-ntg",
        String(shape.genTokens),
        "-npl",
        shape.batches.join(","),
        ...extraArgs,
      ];
    },
    parse: parseBatchedBench,
  };
}

/** llama.cpp as packaged by node-llama-cpp. @param folder with node_modules/node-llama-cpp */
export function nodeLlamaCpp(folder: string, numThreads: number): Contender {
  return {
    name: "node-llama-cpp",
    command: ({ path: modelPath, vocabSize }, shape) => [
      process.execPath,
      join(packageRoot(), "dist/src/bench/peers/node-llama-cpp-driver.js"),
      JSON.stringify({ folder, modelPath, numThreads, vocabSize, ...shape }),
    ],
    parse: parseResultsJson,
  };
}
