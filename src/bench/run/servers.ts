/** Servers that can be started to be measured: this one, llama.cpp's, and node-llama-cpp behind one of ours; and of what size, where they are compared. */
import { join } from "node:path";
import { KV_TYPES, type KvType } from "../../backend/ops.js";
import { packageRoot } from "../../core/package-root.js";
import type { Cell, ServerShape } from "../workload/scenarios.js";
import { longestRequest } from "../workload/workload.js";
import type { Launch } from "./launch.js";
import { modelWork } from "./model-work.js";

interface ServedModel {
  readonly path: string;
  /** Undefined: the server decides. */
  readonly numThreads?: number | undefined;
  /** To give every server the same KV memory, where a cell says how much. */
  readonly kvBytesPerToken?: number | undefined;
  /** That the server is told to keep, where its flags depend on the size; else they say it. */
  readonly kvType?: KvType | undefined;
}

/** @param extra further flags, where they depend on the size, of a size */
export function millraceServer(
  name: string,
  model: ServedModel,
  extra: readonly string[] | ((shape: ServerShape) => readonly string[]) = [],
): Launch {
  const { path, numThreads, kvBytesPerToken = 0, kvType } = model;
  return {
    name,
    work: modelWork(path, typeof extra === "function" ? kvType : kvTypeOf(extra)),
    command: (port, shape) => [
      process.execPath,
      join(packageRoot(), "bin/millrace.js"),
      "engine",
      "--model",
      path,
      "--port",
      String(port),
      ...(numThreads === undefined ? [] : ["--threads", String(numThreads)]),
      ...(shape === undefined
        ? []
        : [
            "--max-num-seqs",
            String(shape.seats),
            "--max-model-len",
            String(shape.maxModelLen),
            "--kv-cache-memory-bytes",
            String(shape.kvTokens * kvBytesPerToken),
            ...(shape.apiKeys === undefined ? [] : ["--api-key", shape.apiKeys.join(",")]),
          ]),
      ...(typeof extra !== "function" ? extra : shape === undefined ? [] : extra(shape)),
    ],
  };
}

/** Undefined: its own default. The last word counts. */
function kvTypeOf(flags: readonly string[]): KvType | undefined {
  const [, last] = /.*--kv-cache-dtype[ =](\S+)/.exec(flags.join(" ")) ?? [];
  return KV_TYPES.find((type) => type === last);
}

/** As it serves many clients best: one KV memory for all slots, and its prompt cache. */
export function llamaServer(binary: string, { path, numThreads }: ServedModel): Launch {
  return {
    name: "llama-server",
    work: modelWork(path),
    command: (port, shape) => [
      binary,
      "-m",
      path,
      "--port",
      String(port),
      "--kv-unified",
      "-fa",
      "on",
      "--no-webui",
      "--metrics",
      ...(numThreads === undefined ? [] : ["-t", String(numThreads)]),
      ...(shape === undefined ? [] : ["-np", String(shape.seats), "-c", String(shape.kvTokens)]),
      ...(shape?.apiKeys === undefined ? [] : ["--api-key", shape.apiKeys.join(",")]),
    ],
  };
}

/** @param folder with node_modules/node-llama-cpp */
export function nodeLlamaCppServer(folder: string, { path, numThreads }: ServedModel, context: number): Launch {
  return {
    name: "node-llama-cpp",
    work: modelWork(path),
    command: (port, shape) => [
      process.execPath,
      join(packageRoot(), "dist/src/bench/peers/node-llama-cpp-server.js"),
      JSON.stringify({
        folder,
        modelPath: path,
        numThreads,
        port,
        seats: shape?.seats ?? USUAL_SEATS,
        contextSize: shape?.maxModelLen ?? context,
      }),
    ],
  };
}

/** Where requests come at times of their own. */
const USUAL_SEATS = 64;

/** What chat templates add to lengths that are counted in words. */
const ROOM = 256;

/** A seat for each client of the largest load, and memory for all of them at their longest. */
export function shapeFor(cells: readonly Cell[], contextLength: number): ServerShape {
  const seats = Math.max(...cells.map(({ load }) => (load.kind === "closed" ? load.concurrency : USUAL_SEATS)));
  const longest = cells.map(({ workload }) =>
    workload.kind === "entries" ? contextLength : longestRequest(workload) + ROOM,
  );
  const maxModelLen = Math.min(contextLength, Math.max(...longest));
  return { seats, maxModelLen, kvTokens: seats * maxModelLen };
}
