/**
 * `millrace serve` with several instances: measures splits for `auto`, starts the fleet, prints its addresses, reloads
 * and stops it.
 */
import { join } from "node:path";
import type { Command } from "commander";
import { logFolder } from "../../core/cache-folder.js";
import { certificateFilesOf, readCertificate } from "../../core/certificate.js";
import { MillraceError } from "../../core/errors.js";
import { createLogger } from "../../core/log.js";
import { packageVersion } from "../../core/package-root.js";
import { registerServer } from "../../core/server-registry.js";
import { type LoadSource, logThroughput } from "../../core/throughput-log.js";
import type { FleetConfig } from "../../fleet/config/schema.js";
import type { Fleet } from "../../fleet/fleet.js";
import { needsKeys, tenantsApart } from "../../fleet/gateway/authorize.js";
import { usesOf } from "../../fleet/loaded-models.js";
import type { Reload } from "../../fleet/reload.js";
import { type FleetFlags, fleetConfigFrom } from "../flags/fleet-flags.js";
import { describeSharing, openAccessWarning } from "../output/describe-access.js";
import { formatTable } from "../output/format.js";
import { aboutModel } from "../output/ready-text.js";
import { reportError } from "../output/report-error.js";
import { stagesTo } from "../output/stages.js";
import { machineFor } from "./fleet-machine.js";
import { FleetSignals } from "./fleet-signals.js";

function readyText(fleet: Fleet, config: FleetConfig, reportFile: string | undefined): string {
  const instances = fleet.instances();
  const rows = instances.map(({ model, id, engine, state, target }) => [model, id, engine, state, target?.url ?? ""]);
  const resting = config.models.filter(({ name }) => !instances.some(({ model }) => model === name));
  const onDemand = resting.map(({ name, engine }) => [name, "", engine, "on demand", ""]);
  const table = formatTable([["model", "instance", "engine", "state", "url"], ...rows, ...onDemand]);
  const indented = table.replace(/^/gm, "  ");
  const bundled = config.models.map(({ model }) => aboutModel(model ?? "")).find((about) => about !== "");
  const about = bundled === undefined ? "" : `\n\n${bundled}`;
  const report = reportFile === undefined ? "" : `  report ${fleet.url}/report\n`;
  return `  ready  ${fleet.url} (app in a browser, OpenAI API under /v1, metrics under /metrics)\n${report}\n${indented}${about}`;
}

/** Throws instance_failed if no instance can start: a fleet without instances ends, like a single engine. */
function assertStarted(fleet: Fleet): void {
  const instances = fleet.instances();
  if (instances.length === 0 || instances.some(({ isGivenUp, state }) => state === "ready" || !isGivenUp)) return;
  const reasons = instances.map(({ id, reason }) => `${id}: ${reason ?? "not ready"}`);
  throw new MillraceError("instance_failed", `expected an instance to become ready, got none. ${reasons.join("\n")}`, {
    hint: "see the log of each instance",
  });
}

function reloadText({ added, removed, replaced, needRestart }: Reload): string {
  const parts = Object.entries({ added, removed, replaced }).flatMap(([what, names]) =>
    names.length === 0 ? [] : `${what} ${names.join(", ")}`,
  );
  const rest = needRestart.length === 0 ? "" : `; needs a restart: ${needRestart.join(", ")}`;
  return `reloaded: ${parts.join("; ") || "applied; no process had to restart"}${rest}`;
}

/** Applies the file again. A file with errors changes nothing, nor does one that a later reload has overtaken. */
function reloading(fleet: Fleet, readAgain: () => Promise<FleetConfig>): () => Promise<void> {
  let numReads = 0;
  return async () => {
    const read = ++numReads;
    try {
      const config = await readAgain();
      const machine = await machineFor(config, stagesTo(process.stderr), { isServing: true });
      if (read !== numReads) {
        process.stderr.write("a newer configuration was read meanwhile; this one is not applied\n");
        return;
      }
      process.stderr.write(`${reloadText(await fleet.reload(config, machine))}\n`);
    } catch (thrown) {
      reportError(thrown, { json: false });
      process.stderr.write("the previous configuration stays in effect\n");
    }
  };
}

/** @param args the words of the command line after the command */
export async function serveFleet(flags: FleetFlags, command: Command, args: readonly string[]): Promise<void> {
  const read = () => fleetConfigFrom(flags, command, args);
  const hasFile = flags.config !== undefined;
  const signals = new FleetSignals(hasFile);
  await runFleet(await read(), { signals, readAgain: hasFile ? read : undefined });
}

/** Counts for the instances whose engines have metrics. */
function loadsOf(fleet: Fleet): readonly LoadSource[] {
  return fleet.instances().flatMap(({ id, model, metrics }) => {
    return metrics === undefined ? [] : [{ about: { model, instance: id }, counts: metrics }];
  });
}

interface FleetRun {
  readonly signals: FleetSignals;
  /** Reads the configuration again, on SIGHUP. */
  readonly readAgain: (() => Promise<FleetConfig>) | undefined;
  /** The page served under /report, once the file exists. */
  readonly reportFile?: string;
}

/** Resolves when the fleet is ready. The fleet runs until a signal. */
export async function runFleet(config: FleetConfig, { signals, readAgain, reportFile }: FleetRun): Promise<Fleet> {
  const startStage = stagesTo(process.stderr);
  // Before instances are measured, which takes minutes.
  const certificate = certificateFilesOf(config);
  if (certificate !== undefined) readCertificate(certificate);
  const machine = await machineFor(config, startStage, { isServing: false });
  const [{ Fleet }, { openLibrary }] = await Promise.all([
    import("../../fleet/fleet.js"),
    import("../../library/app.js"),
  ]);
  const folder = join(logFolder(), String(config.port === 0 ? process.pid : config.port));
  const stage = startStage("fleet");
  const logger = createLogger(config.logLevel, config.logFormat);
  let running: Fleet | undefined;
  const fleet = await Fleet.start({
    config,
    // Only operators use it, but it exists without them too: a reload may add the first.
    library: openLibrary({ uses: () => running?.uses() ?? usesOf(config) }),
    machine,
    logger,
    logFolder: folder,
    ...(reportFile && { reportFile }),
    loadPromptReader: async (spec) => (await import("./prompt-reader.js")).loadPromptReader(spec),
  });
  running = fleet;
  logThroughput(logger, () => loadsOf(fleet));
  signals.fleetIsThere(fleet, readAgain === undefined ? undefined : reloading(fleet, readAgain));
  try {
    await fleet.whenStarted(({ id, state, reason }) => {
      if (state === "starting" && reason !== undefined) stage.update(`${id} ${reason}`);
    });
    assertStarted(fleet);
  } catch (thrown) {
    await fleet.close();
    throw thrown;
  }
  const ready = fleet.instances().filter(({ state }) => state === "ready");
  registerServer({
    url: fleet.url,
    models: config.models.map(({ name }) => name),
    uses: fleet.uses(),
    kind: "fleet",
    version: packageVersion(),
  });
  stage.done(`${ready.length} of ${fleet.instances().length} instances ready, logs in ${folder}`);
  const ignored = process.env.MILLRACE_API_KEY ? "; MILLRACE_API_KEY is ignored with --config" : "";
  const warning = openAccessWarning(config.host, needsKeys(config), `api-keys close it${ignored}`);
  const tenants = config.apiKeys.map(({ tenant }) => tenant);
  const sharing = describeSharing("tenants", tenants, tenantsApart(config));
  for (const text of [sharing, warning]) if (text !== undefined) process.stderr.write(`\n${text}\n`);
  // Last and in one write, so that a program that waits for "ready" then has the complete text.
  process.stdout.write(`\n${readyText(fleet, config, reportFile)}\n`);
  return fleet;
}
