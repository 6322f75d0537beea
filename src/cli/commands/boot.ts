/** `millrace boot`: what a machine made from an image runs: pulls the models, starts the fleet, and after the first start measures it. */
import { accessSync, constants, existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { Command, Option } from "commander";
import { cacheFolder } from "../../core/cache-folder.js";
import { MillraceError, toMillraceError } from "../../core/errors.js";
import type { FleetConfig } from "../../fleet/config/schema.js";
import type { Fleet } from "../../fleet/fleet.js";
import { FleetSignals } from "../fleet-signals.js";
import { stagesTo } from "../stages.js";

interface BootFlags {
  readonly config: string;
  readonly state: string;
}

export function bootCommand(): Command {
  return new Command("boot")
    .description(
      "Start a machine's fleet from nothing: pull its models, serve, measure once with the quick bench, show the report under /report.",
    )
    .requiredOption("--config <file>", "a millrace.yaml; it must have api-keys unless it listens on loopback only")
    .addOption(
      new Option("--state <folder>", "folder of the report, and of a key that nobody gave").default(
        cacheFolder(),
        "the cache folder",
      ),
    )
    .action(runBoot);
}

async function runBoot({ config: file, state }: BootFlags): Promise<void> {
  // Before anything that takes its time.
  const signals = new FleetSignals(true);
  const [{ assertClosed, provideKey }, { pullModels }, { readConfig, readConfigText }, { runFleet }] =
    await Promise.all([
      import("../boot/api-key.js"),
      import("../boot/pull-models.js"),
      import("../../fleet/config/read-config.js"),
      import("../serve-fleet.js"),
    ]);
  makeStateFolder(state);
  const startStage = stagesTo(process.stderr);
  const keyFile = join(state, "api-key");
  const isOwnKey = provideKey(readConfigText(file), keyFile, process.env);
  if (isOwnKey) process.stdout.write(`  key    ${keyFile}\n`);
  const readAndPull = async (): Promise<FleetConfig> => {
    const config = readConfig(file, process.env);
    assertClosed(config, file);
    return pullModels(config, startStage);
  };
  const config = await readAndPull();
  const reportFile = join(state, "report.html");
  const fleet = await runFleet(config, { signals, readAgain: readAndPull, reportFile });
  if (!existsSync(reportFile)) await measureOnce(fleet, config, state);
}

/** Throws file_unreadable: a machine that could keep neither report nor key says so before it starts anything. */
export function makeStateFolder(folder: string): void {
  try {
    mkdirSync(folder, { recursive: true });
    accessSync(folder, constants.W_OK);
  } catch (cause) {
    const got = (cause as NodeJS.ErrnoException).code ?? String(cause);
    throw new MillraceError(
      "file_unreadable",
      `expected a folder that can be written as --state ${folder}, got ${got}`,
      {
        hint: "name another folder, or change its owner",
        cause,
      },
    );
  }
}

/** Servers that are only attached are ready when they are. */
async function whenReady(fleet: Fleet): Promise<void> {
  while (!fleet.instances().some(({ state }) => state === "ready")) await wait(1000);
}

/** That it could not be measured is no reason not to serve. */
async function measureOnce(fleet: Fleet, config: FleetConfig, state: string): Promise<void> {
  const { runFirstBench } = await import("../boot/first-bench.js");
  const stage = stagesTo(process.stderr)("bench");
  const host = /^(0\.0\.0\.0|::|)$/.test(config.host) ? "127.0.0.1" : config.host;
  const [model] = config.models;
  try {
    await whenReady(fleet);
    const exitCode = await runFirstBench({
      url: `http://${host.includes(":") ? `[${host}]` : host}:${fleet.port}`,
      model: model!.name,
      apiKey: config.apiKeys[0]?.key.reveal(),
      htmlFile: join(state, "report.html"),
      jsonFile: join(state, "report.json"),
    });
    if (exitCode === 0) stage.done(`report in ${join(state, "report.html")} and under ${fleet.url}/report`);
    else stage.note(`not measured: the bench ended with ${exitCode}; the next start tries again`);
  } catch (thrown) {
    stage.note(`not measured: ${toMillraceError(thrown).message}`);
  }
}
