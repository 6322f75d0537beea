/**
 * `millrace boot`: the service of a machine made from an image: pulls the models, starts the fleet, and measures it
 * after the first start.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { Command, Option } from "commander";
import { cacheFolder } from "../../core/cache-folder.js";
import type { FleetConfig } from "../../fleet/config/schema.js";
import { stagesTo } from "../output/stages.js";
import { FleetSignals } from "../process/fleet-signals.js";

interface BootFlags {
  readonly config: string;
  readonly state: string;
}

export function bootCommand(): Command {
  return new Command("boot")
    .description(
      "Start a new machine's fleet: pull its models, serve, measure once beside vanilla (else with the quick bench), and show the report under /report.",
    )
    .requiredOption("--config <file>", "millrace.yaml, which must have api-keys unless it listens on loopback only")
    .addOption(
      new Option("--state <folder>", "folder of the report, and of generated keys").default(
        cacheFolder(),
        "the cache folder",
      ),
    )
    .action(runBoot);
}

async function runBoot({ config: file, state }: BootFlags): Promise<void> {
  // Before all slow work, so that no signal is lost.
  const signals = new FleetSignals(true);
  const [
    { assertClosed, provideKeys },
    { assertGpu },
    { makeStateFolder },
    { pullModels },
    { measureOnce },
    { readConfig, readConfigText },
    { runFleet },
  ] = await Promise.all([
    import("../../boot/api-key.js"),
    import("../../boot/assert-gpu.js"),
    import("../../boot/state-folder.js"),
    import("../../boot/pull-models.js"),
    import("../../boot/measure-once.js"),
    import("../../fleet/config/read-config.js"),
    import("../process/serve-fleet.js"),
  ]);
  makeStateFolder(state);
  const startStage = stagesTo(process.stderr);
  for (const keyFile of provideKeys(readConfigText(file), state, process.env)) {
    process.stdout.write(`  key    ${keyFile}\n`);
  }
  const readAndPull = async (): Promise<FleetConfig> => {
    const config = readConfig(file, process.env);
    assertClosed(config, file);
    assertGpu(config);
    return pullModels(config, startStage);
  };
  const config = await readAndPull();
  const reportFile = join(state, "report.html");
  const fleet = await runFleet(config, { signals, readAgain: readAndPull, reportFile });
  if (!existsSync(reportFile)) await measureOnce(fleet, config, state, startStage);
}
