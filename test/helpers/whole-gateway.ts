/** A gateway with all parts that the administrator's paths belong to, in front of one stand-in for an engine. */
import { join } from "node:path";
import { pino } from "pino";
import { parseConfig } from "../../src/fleet/config/read-config.js";
import { Fleet, type FleetOptions } from "../../src/fleet/fleet.js";

/** @param keys further keys of the file, as YAML: who may use /admin */
export async function startWholeGateway(
  folder: string,
  engineUrl: string,
  keys: string,
  options: Pick<FleetOptions, "library"> = {},
): Promise<Fleet> {
  const text = `
port: 0
data-folder: ${folder}
managed-keys: true
isolate-api-keys: false
ledger: {}
cache: { store: memory }
alerts: {}
models:
  - { name: e, engine: openai, attach: [{ url: "${engineUrl}" }] }
  - { name: m, engine: openai, attach: [{ url: "${engineUrl}" }], cache: { version: one }, semantic-cache: { embeddings: e } }
cascades:
  - { name: smart, small: e, large: m, min-logprob: -1 }
${keys}
`;
  const fleet = await Fleet.start({
    config: parseConfig(text, "millrace.yaml", {}),
    machine: { cores: [[0]], splits: new Map(), millraceSeats: 1 },
    logger: pino({ level: "silent" }),
    logFolder: join(folder, "logs"),
    ...options,
  });
  await fleet.whenStarted();
  return fleet;
}
