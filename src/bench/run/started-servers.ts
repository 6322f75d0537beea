/**
 * The servers that `millrace bench run` starts: all with the same model and, if there are several, of the same size.
 */
import { kvBytesPerToken } from "../../model/description/sizes.js";
import { openModel } from "../../model/open-model.js";
import { benchedThreads } from "./benched-threads.js";
import type { Launch } from "./launch.js";
import type { Planned } from "./plan.js";
import { llamaServer, millraceServer, nodeLlamaCppServer, shapeFor } from "./servers.js";

export interface StartedOptions {
  readonly name: string;
  readonly modelPath: string;
  /** Threads of each server. */
  readonly threads?: number;
  /** Further flags of this server. */
  readonly extra: readonly string[];
  /** Binary of llama.cpp's server. */
  readonly llamaServer?: string;
  /** Folder with node_modules/node-llama-cpp. */
  readonly nodeLlamaCpp?: string;
}

/** @param hasPeers whether running servers are measured as well */
export function startedServers(
  { name, modelPath, threads = benchedThreads(), extra, llamaServer: binary, nodeLlamaCpp }: StartedOptions,
  planned: Planned,
  hasPeers: boolean,
): { readonly launches: readonly Launch[]; readonly planned: Planned } {
  const isAlone = !hasPeers && binary === undefined && nodeLlamaCpp === undefined;
  // A single server keeps its own defaults.
  if (isAlone) return { launches: [millraceServer(name, { path: modelPath, numThreads: threads }, extra)], planned };
  const { config } = openModel(modelPath);
  const model = { path: modelPath, numThreads: threads, kvBytesPerToken: kvBytesPerToken(config, "f16") };
  const shape = shapeFor(planned.cells, config.contextLength);
  return {
    launches: [
      millraceServer(name, model, extra),
      ...(binary === undefined ? [] : [llamaServer(binary, model)]),
      ...(nodeLlamaCpp === undefined ? [] : [nodeLlamaCppServer(nodeLlamaCpp, model, config.contextLength)]),
    ],
    planned: { ...planned, cells: planned.cells.map((cell) => ({ ...cell, shape })) },
  };
}
