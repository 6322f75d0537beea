/** `millrace serve`, the default command: the server a person starts, which says what it does and how to try it. */

import { Command } from "commander";
import { packageVersion } from "../../core/package-root.js";
import { addFleetOptions, type FleetFlags, isFleet } from "../flags/fleet-flags.js";
import { addServerOptions } from "../flags/server-options.js";
import { warnOfOpenDoor } from "../output/describe-access.js";
import { readyText } from "../output/ready-text.js";
import { stagesTo } from "../output/stages.js";
import { registerInstance, startInstance, stayUntilStopped } from "../process/start-server.js";

/** @param args as typed: a fleet hands the engine's flags on to its processes */
export function serveCommand(args: readonly string[]): Command {
  const command = new Command("serve").description("Serve a model over HTTP (the default command).");
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
  const instance = await startInstance(flags, stagesTo(process.stderr));
  registerInstance(instance);
  stayUntilStopped(instance, () => process.stderr.write("finishing the running requests; once more to stop at once\n"));
  const warning = warnOfOpenDoor(flags.host, instance.needsApiKey, "--api-key closes it");
  if (warning !== undefined) process.stderr.write(`\n${warning}\n`);
  // Last: whoever waits for "ready" has all that the start says.
  process.stdout.write(`\n${readyText(instance)}\n`);
}
