/**
 * The start command of a configuration. The fleet's adapter renders it, so that the plan shows exactly the command that
 * the fleet runs.
 */

import { shellWord } from "../../core/shell-word.js";
import type { LaunchPlan } from "../../fleet/adapters/adapter.js";
import { ADAPTERS } from "../../fleet/adapters/index.js";
import { MULTI_HOST_FLAGS } from "../../fleet/adapters/multi-host.js";
import type { Configuration } from "../../plan/request.js";
import { devicesOf } from "../../plan/sharing.js";

const PLACE = { host: "127.0.0.1", port: 8001, sparePorts: [8101, 8102], folder: "." } as const;
/** The embedded engine by its command's name, independent of the package's place. */
const PROGRAMS: Readonly<Partial<Record<string, readonly [string, ...string[]]>>> = {
  millrace: ["millrace", "engine"],
};

/** Placeholder for the first host's address. */
export const HEAD = "HEAD_ADDRESS";
const HEAD_PORT = 29_501;

export interface Launch extends LaunchPlan {
  /** In the form to type. */
  readonly text: string;
}

/** Words before and after the engine's own, for the host of this rank. */
function ofHost(configuration: Configuration, rank: number): readonly [string[], readonly string[]] {
  const { engine, pipelineParallel: numHosts = 1 } = configuration;
  if (numHosts === 1) return [[], []];
  if (engine === "vllm" || engine === "sglang") {
    const place = { numHosts, size: String(numHosts), rank: String(rank), head: HEAD, port: HEAD_PORT };
    return [[], MULTI_HOST_FLAGS[engine]({ ...place, isHead: rank === 0 })];
  }
  // A single command starts TensorRT-LLM's ranks on all hosts.
  const numRanks = devicesOf(configuration);
  const tasks = ["-N", String(numHosts), "--ntasks", String(numRanks)];
  const each = ["--ntasks-per-node", String(numRanks / numHosts), "--mpi=pmix"];
  return [
    ["srun", ...tasks, ...each, "trtllm-llmapi-launch"],
    ["--pp_size", String(numHosts)],
  ];
}

/** @param rank rank of the host, for an instance on several */
export function launchOf(configuration: Configuration, rank = 0): Launch {
  const { engine, options, extraArgs } = configuration;
  const adapter = ADAPTERS[engine];
  const plan = adapter.launch(options, PROGRAMS[engine] ?? adapter.program!, PLACE, undefined);
  const [before, behind] = ofHost(configuration, rank);
  const [program, ...words] = [...before, ...plan.command, ...extraArgs, ...behind];
  const command: readonly [string, ...string[]] = [program!, ...words];
  return { ...plan, command, text: command.map(shellWord).join(" ") };
}

/** A command for each host of an instance; only one if it starts the engine on all hosts. */
export function launchesOf(configuration: Configuration): readonly Launch[] {
  const { engine, pipelineParallel = 1 } = configuration;
  const numCommands = engine === "tensorrt-llm" ? 1 : pipelineParallel;
  return Array.from({ length: numCommands }, (_, rank) => launchOf(configuration, rank));
}
