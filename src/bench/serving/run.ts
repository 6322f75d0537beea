/** Runs scenarios against several servers in alternation, each started anew for each round. */
import { median } from "../statistics.js";
import { complete } from "./client.js";
import { measure, type ServingMeasures } from "./measures.js";
import type { Scenario } from "./scenarios.js";
import { type ServerKind, startServer } from "./servers.js";

export interface ServingSample {
  readonly scenario: string;
  readonly server: string;
  readonly round: number;
  readonly measures: ServingMeasures;
}

export async function runServing(
  servers: readonly ServerKind[],
  scenarios: readonly Scenario[],
  spec: { readonly rounds: number; readonly vocabSize: number },
  onSample: (sample: ServingSample) => void,
): Promise<ServingSample[]> {
  const samples: ServingSample[] = [];
  for (const scenario of scenarios) {
    for (let round = 1; round <= spec.rounds; round++) {
      // Every other round the other way round.
      for (const kind of round % 2 === 1 ? servers : [...servers].reverse()) {
        const sample = {
          ...{ scenario: scenario.name, server: kind.name, round },
          measures: await runOnce(kind, scenario, { seed: round, vocabSize: spec.vocabSize }),
        };
        samples.push(sample);
        onSample(sample);
      }
    }
  }
  return samples;
}

async function runOnce(
  kind: ServerKind,
  scenario: Scenario,
  spec: { readonly seed: number; readonly vocabSize: number },
): Promise<ServingMeasures> {
  const server = await startServer(kind, scenario.shape);
  try {
    const traffic = { ...spec, complete: complete.bind(undefined, server) };
    await scenario.warmUp?.(traffic);
    return measure(await scenario.run(traffic), scenario.name === "long-arrival");
  } finally {
    await server.stop();
  }
}

/** The median of a measure over a server's rounds of a scenario. */
export function medianOf(
  samples: readonly ServingSample[],
  scenario: string,
  server: string,
  value: (measures: ServingMeasures) => number | undefined,
): number {
  const own = samples.filter((sample) => sample.scenario === scenario && sample.server === server);
  return median(own.map(({ measures }) => value(measures) ?? Number.NaN));
}
