/** Servers that can be started to be measured: this one, and llama.cpp's. */
import { join } from "node:path";
import { packageRoot } from "../../core/package-root.js";
import type { ServerShape } from "../workload/scenarios.js";
import type { Launch } from "./launch.js";

export interface ServedModel {
  readonly path: string;
  /** Undefined: the server decides. */
  readonly numThreads?: number | undefined;
  /** To give every server the same KV memory, where a cell says how much. */
  readonly kvBytesPerToken?: number | undefined;
}

/** @param extra further flags, where they depend on the size, of a size */
export function millraceServer(
  name: string,
  model: ServedModel,
  extra: readonly string[] | ((shape: ServerShape) => readonly string[]) = [],
): Launch {
  const { path, numThreads, kvBytesPerToken = 0 } = model;
  return {
    name,
    command: (port, shape) => [
      ...[process.execPath, join(packageRoot(), "bin/millrace.js"), "engine", "--model", path, "--port", String(port)],
      ...(numThreads === undefined ? [] : ["--threads", String(numThreads)]),
      ...(shape === undefined
        ? []
        : [
            ...["--max-num-seqs", String(shape.seats), "--max-model-len", String(shape.maxModelLen)],
            ...["--kv-cache-memory-bytes", String(shape.kvTokens * kvBytesPerToken)],
            ...(shape.apiKeys === undefined ? [] : ["--api-key", shape.apiKeys.join(",")]),
          ]),
      ...(typeof extra !== "function" ? extra : shape === undefined ? [] : extra(shape)),
    ],
  };
}

/** As it serves many clients best: one KV memory for all slots, and its prompt cache. */
export function llamaServer(binary: string, { path, numThreads }: ServedModel): Launch {
  return {
    name: "llama-server",
    command: (port, shape) => [
      ...[binary, "-m", path, "--port", String(port), "--kv-unified", "-fa", "on", "--no-webui", "--metrics"],
      ...(numThreads === undefined ? [] : ["-t", String(numThreads)]),
      ...(shape === undefined ? [] : ["-np", String(shape.seats), "-c", String(shape.kvTokens)]),
      ...(shape?.apiKeys === undefined ? [] : ["--api-key", shape.apiKeys.join(",")]),
    ],
  };
}
