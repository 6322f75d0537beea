/** `millrace serve`, the default command: serves a model for a person, with progress output and an example request. */

import { Command } from "commander";
import { packageVersion } from "../../core/package-root.js";
import { addFleetOptions, assertConversationsHaveOwners, type FleetFlags, isFleet } from "../flags/fleet-flags.js";
import { addServerOptions } from "../flags/server-options.js";
import { openAccessWarning } from "../output/describe-access.js";
import { readyText } from "../output/ready-text.js";
import { stagesTo } from "../output/stages.js";
import { registerInstance, startInstance, stayUntilStopped } from "../process/start-server.js";

/** @param args the typed words: a fleet passes the engine's flags on to its processes */
export function serveCommand(args: readonly string[]): Command {
  const command = new Command("serve")
    .usage("[model] [options]")
    .description("Serve a model over HTTP (the default command).");
  return addFleetOptions(addServerOptions(command)).action((flags: FleetFlags, own: Command) =>
    runServe(flags, own, args),
  );
}

async function runServe(flags: FleetFlags, command: Command, args: readonly string[]): Promise<void> {
  process.stderr.write(`millrace ${packageVersion()}\n`);
  if (isFleet(flags)) {
    const { serveFleet } = await import("../process/serve-fleet.js");
    await serveFleet(flags, command, args);
    return;
  }
  assertConversationsHaveOwners(flags);
  const instance = await startInstance(flags, stagesTo(process.stderr));
  registerInstance(instance);
  stayUntilStopped(instance, () => process.stderr.write("finishing the running requests; repeat to stop at once\n"));
  const warning = openAccessWarning(flags.host, instance.needsApiKey, "--api-key closes it");
  if (warning !== undefined) process.stderr.write(`\n${warning}\n`);
  // Last, so that a program that waits for "ready" then has the complete text.
  process.stdout.write(`\n${readyText(instance)}\n`);
}
