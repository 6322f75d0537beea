/** `millrace engine`: one engine behind HTTP for a supervisor; prints one JSON line on stdout once it is ready. */

import { Command } from "commander";
import { createLogger } from "../../core/log.js";
import { quietStages } from "../../core/stages.js";
import { MARK_VARIABLE } from "../../fleet/supervision/marked-processes.js";
import { addServerOptions, type ServerFlags } from "../flags/server-options.js";
import { openAccessWarning } from "../output/describe-access.js";
import { registerInstance, startInstance, stayUntilStopped } from "../process/start-server.js";

export function engineCommand(): Command {
  const command = new Command("engine")
    .usage("[model] [options]")
    .description("Serve one model for a supervisor; prints one JSON line when ready.");
  return addServerOptions(command).action(runEngine);
}

async function runEngine(flags: ServerFlags): Promise<void> {
  const logger = createLogger(flags.logLevel, flags.logFormat);
  const instance = await startInstance(
    flags,
    quietStages((text) => logger.warn(text)),
  );
  // A fleet lists itself, but not its instances.
  if (process.env[MARK_VARIABLE] === undefined) registerInstance(instance);
  stayUntilStopped(instance);
  if (instance.sharing !== undefined) logger.info(instance.sharing);
  const warning = openAccessWarning(flags.host, instance.needsApiKey, "--api-key closes it");
  if (warning !== undefined) logger.warn(warning);
  const { url, port } = instance.server;
  const ready = {
    event: "ready",
    url,
    port,
    model: instance.modelNames[0],
    pid: process.pid,
    engine: instance.engine.info,
  };
  process.stdout.write(`${JSON.stringify(ready)}\n`);
}
