/**
 * `millrace bench serving`: this server, its variants and llama.cpp's server under traffic that shows this server's
 * strengths.
 */
import { MillraceError } from "../../core/errors.js";
import { kvBytesPerToken } from "../../model/description/sizes.js";
import { openModel } from "../../model/open-model.js";
import { cellsOf, type Scenario } from "../workload/scenarios.js";
import { SERVING_SCENARIOS } from "../workload/serving-scenarios.js";
import { benchedThreads } from "./benched-threads.js";
import { type Planned, plannedCell } from "./plan.js";
import { llamaServer, millraceServer } from "./servers.js";
import type { ServerUnderTest } from "./target.js";

export interface ServingOptions {
  readonly modelPath: string;
  /** Binary of llama.cpp's server. */
  readonly llamaServer?: string;
  /** Further flags, one string for each additional server. */
  readonly variant: readonly string[];
  readonly rounds: number;
  readonly threads?: number;
}

/** Long enough for the slowest answer on a small machine. */
const TIMEOUT_MS = 600_000;

/** Throws invalid_option. @param names undefined: all scenarios */
export function servingScenarios(names: readonly string[] | undefined): readonly Scenario[] {
  return (names ?? SERVING_SCENARIOS.map((each) => each.name)).map((name) => {
    const scenario = SERVING_SCENARIOS.find((each) => each.name === name);
    if (scenario !== undefined) return scenario;
    const known = SERVING_SCENARIOS.map((each) => `${each.name} (${each.about})`).join("\n  ");
    throw new MillraceError(
      "invalid_option",
      `expected --scenario to be among\n  ${known}\ngot ${JSON.stringify(name)}`,
    );
  });
}

export function servingJob(
  scenarios: readonly Scenario[],
  { modelPath, llamaServer: binary, variant, rounds, threads = benchedThreads() }: ServingOptions,
): { readonly targets: readonly ServerUnderTest[]; readonly planned: Planned } {
  const kvBytes = kvBytesPerToken(openModel(modelPath).config, "f16");
  const model = { path: modelPath, numThreads: threads, kvBytesPerToken: kvBytes };
  const launches = [
    millraceServer("millrace", model),
    ...(binary === undefined ? [] : [llamaServer(binary, model)]),
    ...variant.map((text) => millraceServer(`millrace ${text}`, model, text.split(/\s+/))),
  ];
  const cells = scenarios.flatMap(cellsOf);
  const plan = { scenario: "serving", cells: cells.map(plannedCell), rounds, seed: 0, stopsWhenSaturated: false };
  return {
    targets: launches.map((launch) => ({ name: launch.name, launch, timeoutMs: TIMEOUT_MS })),
    planned: { cells, plan },
  };
}
