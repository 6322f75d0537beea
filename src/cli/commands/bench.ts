/** `millrace bench`: the commands that measure. Each prints a table, or JSON with all measurements. */
import { Command } from "commander";
import { benchAblateCommand } from "./bench-ablate.js";
import { benchCompareCommand } from "./bench-compare.js";
import { benchDraftsCommand } from "./bench-drafts.js";
import { benchEmbeddingsCommand } from "./bench-embeddings.js";
import { benchEngineCommand } from "./bench-engine.js";
import { benchGatewayCommand } from "./bench-gateway.js";
import { benchGrammarsCommand } from "./bench-grammars.js";
import { benchKernelsCommand } from "./bench-kernels.js";
import { benchKvQualityCommand } from "./bench-kv-quality.js";
import { benchPeersCommand } from "./bench-peers.js";
import { benchRunCommand } from "./bench-run.js";
import { benchSelfTestCommand } from "./bench-self-test.js";
import { benchServingCommand } from "./bench-serving.js";
import { benchSpeculationCommand } from "./bench-speculation.js";

export function benchCommand(): Command {
  return new Command("bench")
    .description("Measure servers under load, and the speed of this machine.")
    .addCommand(benchRunCommand())
    .addCommand(benchAblateCommand())
    .addCommand(benchCompareCommand())
    .addCommand(benchDraftsCommand())
    .addCommand(benchEmbeddingsCommand())
    .addCommand(benchEngineCommand())
    .addCommand(benchGatewayCommand())
    .addCommand(benchGrammarsCommand())
    .addCommand(benchKernelsCommand())
    .addCommand(benchKvQualityCommand())
    .addCommand(benchPeersCommand())
    .addCommand(benchSelfTestCommand())
    .addCommand(benchServingCommand())
    .addCommand(benchSpeculationCommand());
}
