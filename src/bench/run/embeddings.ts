/** `millrace bench embeddings`: measures servers of vectors with texts of several sizes, alone and in batches. */
import { cellsOf, closedLoads, type NamedWorkload } from "../workload/scenarios.js";
import { benchedThreads } from "./benched-threads.js";
import type { Launch } from "./launch.js";
import { type Planned, plannedCell } from "./plan.js";
import { probeVectors } from "./probe-vectors.js";
import { llamaEmbeddingServer, millraceServer } from "./servers.js";
import type { StartedOptions } from "./started-servers.js";
import type { ServerUnderTest } from "./target.js";

export interface EmbeddingsOptions {
  /** Sizes of texts, and numbers of texts in a request: each pair is a workload. */
  readonly tokens: readonly number[];
  readonly texts: readonly number[];
  readonly concurrency: readonly number[];
  readonly durationS: number;
  readonly rounds: number;
  readonly seed: number;
  readonly minCosine: number;
}

/** The servers to start, with their own defaults except for the number of threads. */
export function embeddingServers({
  modelPath,
  threads = benchedThreads(),
  extra,
  llamaServer: binary,
}: Omit<StartedOptions, "name" | "nodeLlamaCpp">): Launch[] {
  const model = { path: modelPath, numThreads: threads };
  // The roofline only covers generated tokens.
  const own = { ...millraceServer("millrace", model, extra), work: undefined };
  return binary === undefined ? [own] : [own, llamaEmbeddingServer(binary, model)];
}

export function embeddingsJob(
  servers: readonly ServerUnderTest[],
  { tokens, texts, concurrency, durationS, rounds, seed, minCosine }: EmbeddingsOptions,
): { readonly targets: readonly ServerUnderTest[]; readonly planned: Planned } {
  const workloads = tokens.flatMap((tokensPerText) =>
    texts.map((textsPerRequest): NamedWorkload => {
      const workload = { kind: "texts", tokensPerText, textsPerRequest } as const;
      return { name: `${textsPerRequest} × ${tokensPerText} tokens`, workload };
    }),
  );
  const loads = closedLoads(concurrency);
  const cells = cellsOf({ name: "embeddings", about: "", workloads, loads, bounds: { durationS }, rounds });
  const plan = { scenario: "embeddings", cells: cells.map(plannedCell), rounds, seed, stopsWhenSaturated: false };
  return {
    targets: servers.map((server) => ({
      ...server,
      probe: (address, signal) => probeVectors(address, tokens, signal),
    })),
    planned: { cells, plan: { ...plan, minCosine } },
  };
}
