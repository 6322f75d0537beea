/** `millrace bench`: the measuring commands. Each prints a table, or JSON with everything it saw. */
import { Command } from "commander";
import { benchEngineCommand } from "./bench-engine.js";
import { benchKernelsCommand } from "./bench-kernels.js";
import { benchPeersCommand } from "./bench-peers.js";
import { benchServingCommand } from "./bench-serving.js";
import { benchSpeculationCommand } from "./bench-speculation.js";

export function benchCommand(): Command {
  return new Command("bench")
    .description("Measure speed on this machine.")
    .addCommand(benchEngineCommand())
    .addCommand(benchKernelsCommand())
    .addCommand(benchPeersCommand())
    .addCommand(benchServingCommand())
    .addCommand(benchSpeculationCommand());
}
