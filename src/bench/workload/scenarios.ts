/** Scenarios as data: kinds of traffic and loads. Each combination is a cell, measured on its own. */

import { parseSlo } from "../../core/slo.js";
import type { Slo } from "../results/schema.js";
import type { Load } from "./load.js";
import { type Length, turnsOf, type Workload } from "./workload.js";

export interface NamedWorkload {
  readonly name: string;
  readonly workload: Workload;
}

/** Limits of a cell, whichever is reached first; without any, arrivals continue for a minute. */
export interface Bounds {
  readonly numRequests?: number | undefined;
  /** For closed loads: requests for each client, and the least number in all. */
  readonly requestsPerClient?: readonly [perClient: number, atLeast: number] | undefined;
  readonly durationS?: number | undefined;
  /** Number of first sessions that fill the server's memory and are not counted. */
  readonly numUncounted?: number | undefined;
}

/** The size that a scenario's started server gets. */
export interface ServerShape {
  /** Concurrent requests. */
  readonly seats: number;
  /** Longest request. */
  readonly maxModelLen: number;
  /** Tokens that the KV memory holds. */
  readonly kvTokens: number;
  /** API keys of tenants; the first one is the default. */
  readonly apiKeys?: readonly string[] | undefined;
}

export interface Scenario {
  readonly name: string;
  readonly about: string;
  readonly workloads: readonly NamedWorkload[];
  readonly loads: readonly Load[];
  /** Limits of each cell. */
  readonly bounds: Bounds;
  /** Runs of each cell. */
  readonly rounds: number;
  readonly slo?: Slo;
  readonly shape?: ServerShape;
}

export interface Cell {
  /** Name in reports, unique within a plan. */
  readonly name: string;
  readonly workloadName: string;
  readonly workload: Workload;
  readonly load: Load;
  /** One of the two limits may be missing. */
  readonly numSessions?: number | undefined;
  readonly durationMs?: number | undefined;
  readonly numUncounted?: number | undefined;
  readonly shape?: ServerShape | undefined;
  /** Names of the targets measured under the cell; undefined: all. */
  readonly targets?: readonly string[] | undefined;
  /** Share of the output tokens that was requested; the rest pads a batch. Undefined: all. */
  readonly usefulShare?: number | undefined;
}

export const closedLoads = (counts: readonly number[]): Load[] =>
  counts.map((concurrency) => ({ kind: "closed", concurrency, rampMs: 0 }));

export function randomWorkload(promptTokens: Length, outputTokens: Length, sharedTokens = 0): Workload {
  return { kind: "random", promptTokens, sharedTokens, outputTokens };
}

/** @example shapeWorkload(512, 128).name // "512/128" */
export function shapeWorkload(promptTokens: number, outputTokens: number): NamedWorkload {
  return { name: `${promptTokens}/${outputTokens}`, workload: randomWorkload(promptTokens, outputTokens) };
}

export const SCENARIOS: readonly Scenario[] = [
  {
    name: "quick",
    about: "128 tokens in, 64 out, random; concurrency 1, 4, 16; under five minutes on two cores",
    workloads: [shapeWorkload(128, 64)],
    loads: closedLoads([1, 4, 16]),
    bounds: { requestsPerClient: [64, 64], durationS: 12 },
    rounds: 3,
  },
  {
    name: "standard",
    about: "512/512, 1024/512 and 2048/1024 tokens, random, of exactly these lengths; concurrency 1 to 64",
    workloads: [shapeWorkload(512, 512), shapeWorkload(1024, 512), shapeWorkload(2048, 1024)],
    loads: closedLoads([1, 2, 4, 8, 16, 32, 64]),
    bounds: { requestsPerClient: [4, 10] },
    rounds: 5,
  },
  {
    name: "chat",
    about: "conversations of four turns under a common system prompt, text, ending where the model ends",
    workloads: [
      {
        name: "chat",
        workload: {
          kind: "conversation",
          systemTokens: 200,
          turnTokens: 40,
          numTurns: 4,
          outputTokens: 200,
          isFixed: false,
          format: "prose",
        },
      },
    ],
    loads: closedLoads([1, 4, 16]),
    bounds: { requestsPerClient: [8, 20] },
    rounds: 3,
    slo: parseSlo("chat"),
  },
  {
    name: "rag",
    about: "questions about one of eight documents of 1,500 tokens",
    workloads: [
      { name: "rag", workload: { kind: "documents", numDocuments: 8, documentTokens: 1500, outputTokens: 128 } },
    ],
    loads: closedLoads([1, 4, 16]),
    bounds: { requestsPerClient: [4, 24] },
    rounds: 3,
    slo: parseSlo("rag"),
  },
  {
    name: "agent",
    about: "an agent's six steps: tool results as JSON in, a JSON object out, the history growing",
    workloads: [
      {
        name: "agent",
        workload: {
          kind: "conversation",
          systemTokens: 400,
          turnTokens: 150,
          numTurns: 6,
          outputTokens: 128,
          isFixed: false,
          format: "json",
        },
      },
    ],
    loads: closedLoads([1, 4, 16]),
    bounds: { requestsPerClient: [12, 24] },
    rounds: 3,
    slo: parseSlo("chat"),
  },
  {
    name: "code-edit",
    about: "a source file of 500 tokens to be given back with one name changed",
    workloads: [{ name: "code-edit", workload: { kind: "code-edit", fileTokens: 500, outputTokens: 700 } }],
    loads: closedLoads([1, 4, 16]),
    bounds: { requestsPerClient: [4, 10] },
    rounds: 3,
    slo: parseSlo("code"),
  },
];

function loadName(load: Load): string {
  if (load.kind === "closed") return `${load.concurrency} at once`;
  if (load.kind === "replay") return "as traced";
  return `${load.ratePerS}/s ${load.burstiness === undefined ? "evenly" : load.burstiness === 1 ? "Poisson" : `gamma ${load.burstiness}`}`;
}

const DEFAULT_DURATION_S = 60;

export function cellsOf({ workloads, loads, bounds, shape }: Scenario): Cell[] {
  return workloads.flatMap(({ name: workloadName, workload }) =>
    loads.map((load): Cell => {
      const [perClient, atLeast] = bounds.requestsPerClient ?? [];
      const forClients =
        load.kind === "closed" && perClient !== undefined
          ? Math.max(atLeast!, perClient * load.concurrency)
          : undefined;
      const numRequests = load.kind === "replay" ? load.atMs.length : (bounds.numRequests ?? forClients);
      const durationS = bounds.durationS ?? (numRequests === undefined ? DEFAULT_DURATION_S : undefined);
      return {
        name: `${workloadName}, ${loadName(load)}`,
        workloadName,
        workload,
        load,
        numSessions: numRequests === undefined ? undefined : Math.ceil(numRequests / turnsOf(workload)),
        durationMs: durationS === undefined ? undefined : 1000 * durationS,
        numUncounted: bounds.numUncounted,
        shape,
      };
    }),
  );
}
