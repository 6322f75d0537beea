/**
 * Command lines of the servers to measure (this one, llama.cpp's, and node-llama-cpp behind a small server), and their
 * common size.
 */
import { join } from "node:path";
import { z } from "zod";
import { KV_TYPES, type KvType } from "../../backend/ops.js";
import { cpusByCore } from "../../core/cpu.js";
import { packageRoot } from "../../core/package-root.js";
import type { Cell, ServerShape } from "../workload/scenarios.js";
import { longestRequest } from "../workload/workload.js";
import { HEALTH_MS, type Launch } from "./launch.js";
import { modelWork } from "./model-work.js";

interface ServedModel {
  readonly path: string;
  /** Undefined: the server's default. */
  readonly numThreads?: number | undefined;
  /** Turns a cell's KV tokens into bytes, so that all servers get the same memory. */
  readonly kvBytesPerToken?: number | undefined;
  /** The KV type, if the flags depend on the size; otherwise it is read from the flags. */
  readonly kvType?: KvType | undefined;
}

/** @param extra further flags, or a function from the size to flags */
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

/**
 * Several instances of our own engine behind one port, as `millrace serve --instances` starts them: they share as many
 * cores as `numThreads`.
 */
export function millraceInstances(
  name: string,
  { path, numThreads }: { readonly path: string; readonly numThreads: number },
  instances: number,
  extra: readonly string[],
): Launch {
  return {
    name,
    work: modelWork(path, kvTypeOf(extra)),
    command: (port) => [
      process.execPath,
      join(packageRoot(), "bin/millrace.js"),
      "serve",
      "--model",
      path,
      "--port",
      String(port),
      "--instances",
      String(instances),
      ...coreFlags(numThreads, instances),
      ...extra,
    ],
    isReady: (url) => areReady(url, instances),
    // The gateway must end its instances.
    stopSeconds: 20,
  };
}

/** Under a quota the CPUs have no known numbers, and each instance gets its share of threads. */
function coreFlags(numThreads: number, instances: number): readonly string[] {
  const cpus = cpusByCore()
    .slice(0, numThreads)
    .flatMap(([first]) => first ?? []);
  if (cpus.length === numThreads) return ["--cpu-affinity", cpus.join(",")];
  return ["--threads", String(Math.max(1, Math.floor(numThreads / instances)))];
}

const health = z.object({ models: z.array(z.object({ instances: z.object({ ready: z.number().default(0) }) })) });

/** The gateway itself is healthy as soon as one instance is ready. */
async function areReady(url: string, instances: number): Promise<boolean> {
  try {
    const answer = await fetch(`${url}/health`, { signal: AbortSignal.timeout(HEALTH_MS) });
    const { models } = health.parse(await answer.json());
    return models.every(({ instances: { ready } }) => ready === instances);
  } catch {
    return false;
  }
}

/** The KV type from the flags, of which the last takes effect; undefined: the server's default. */
function kvTypeOf(flags: readonly string[]): KvType | undefined {
  const [, last] = /.*--kv-cache-dtype[ =](\S+)/.exec(flags.join(" ")) ?? [];
  return KV_TYPES.find((type) => type === last);
}

/** llama.cpp's server in its best mode for many clients: one KV memory for all slots, and its prompt cache. */
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

/** llama.cpp's server of vectors: a batch has room for all slots' texts, each of at most `maxTokens`. */
export function llamaEmbeddingServer(binary: string, { path, numThreads }: ServedModel): Launch {
  const size = EMBEDDING_SLOTS * EMBEDDING_TOKENS;
  return {
    name: "llama-server",
    command: (port) => [
      binary,
      "-m",
      path,
      "--port",
      String(port),
      "--embeddings",
      "--no-webui",
      "-np",
      String(EMBEDDING_SLOTS),
      "-c",
      String(size),
      "-b",
      String(size),
      "-ub",
      String(size),
      ...(numThreads === undefined ? [] : ["-t", String(numThreads)]),
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

/** Texts that llama.cpp computes together, and the most tokens of each. */
const EMBEDDING_SLOTS = 16;
const EMBEDDING_TOKENS = 512;

/** Seats for open loads. */
const USUAL_SEATS = 64;

/** Tokens for a chat template, and for the inexact length of texts. */
const ROOM = 256;

/** A seat for each client of the largest load, and memory for the longest request in every seat. */
export function shapeFor(cells: readonly Cell[], contextLength: number): ServerShape {
  const seats = Math.max(...cells.map(({ load }) => (load.kind === "closed" ? load.concurrency : USUAL_SEATS)));
  const longest = cells.map(({ workload }) =>
    workload.kind === "entries" ? contextLength : longestRequest(workload) + ROOM,
  );
  const maxModelLen = Math.min(contextLength, Math.max(...longest));
  return { seats, maxModelLen, kvTokens: seats * maxModelLen };
}
