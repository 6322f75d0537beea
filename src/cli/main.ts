/** The command line: the list of commands, the default command, and errors. Commands load their code when they run. */
import { Command } from "commander";
import { packageVersion } from "../core/package-root.js";
import { batchCommand } from "./commands/batch.js";
import { benchCommand } from "./commands/bench.js";
import { bootCommand } from "./commands/boot.js";
import { cacheCommand } from "./commands/cache.js";
import { chatCommand } from "./commands/chat.js";
import { completionCommand } from "./commands/completion.js";
import { configCommand } from "./commands/config.js";
import { convertCommand } from "./commands/convert.js";
import { distillCommand } from "./commands/distill.js";
import { doctorCommand } from "./commands/doctor.js";
import { engineCommand } from "./commands/engine.js";
import { evalCommand } from "./commands/eval.js";
import { generateCommand } from "./commands/generate.js";
import { healthCommand } from "./commands/health.js";
import { imageCommand } from "./commands/image.js";
import { inspectCommand } from "./commands/inspect.js";
import { listCommand, pullCommand, rmCommand } from "./commands/models.js";
import { observeCommand } from "./commands/observe.js";
import { planCommand } from "./commands/plan.js";
import { promptsCommand } from "./commands/prompts.js";
import { psCommand } from "./commands/ps.js";
import { qualityCommand } from "./commands/quality.js";
import { quantizeCommand } from "./commands/quantize.js";
import { routeCommand } from "./commands/route.js";
import { serveCommand } from "./commands/serve.js";
import { spendCommand } from "./commands/spend.js";
import { keysCommand, orgsCommand, teamsCommand } from "./commands/tenants.js";
import { tokenizeCommand } from "./commands/tokenize.js";
import { trainDrafterCommand } from "./commands/train-drafter.js";
import { tuneCommand } from "./commands/tune.js";
import { reportError } from "./output/report-error.js";

const ABOUT_ALL = ["--help", "-h", "--version", "-V"];

/** @param words command and arguments */
export function createProgram(words: readonly string[]): Command {
  const program = new Command("millrace")
    .description("Serves open-weight language models, fast and exact. The default command is serve.")
    .version(packageVersion());
  const commands = [
    serveCommand(words.slice(1)),
    engineCommand(),
    generateCommand(),
    chatCommand(),
    tokenizeCommand(),
    pullCommand(),
    listCommand(),
    rmCommand(),
    psCommand(),
    inspectCommand(),
    convertCommand(),
    quantizeCommand(),
    promptsCommand(),
    doctorCommand(),
    batchCommand(),
    benchCommand(),
    planCommand(),
    imageCommand(),
    observeCommand(),
    bootCommand(),
    healthCommand(),
    evalCommand(),
    tuneCommand(),
    distillCommand(),
    trainDrafterCommand(),
    routeCommand(),
    cacheCommand(),
    keysCommand(),
    spendCommand(),
    qualityCommand(),
    teamsCommand(),
    orgsCommand(),
    configCommand(),
    completionCommand(() => program),
  ];
  for (const command of [program, ...commands, ...commands.flatMap(({ commands: inner }) => inner)]) {
    // Errors are thrown and reported in one place. Help goes to stdout, also for a group without a subcommand.
    command.exitOverride().configureOutput({
      outputError: () => {},
      writeErr: (text) => process.stdout.write(text),
    });
  }
  for (const command of commands) program.addCommand(command);
  return program;
}

/** @param args without `node` and the script. Sets process.exitCode; a server keeps the process alive after this resolves. */
export async function main(args: readonly string[]): Promise<void> {
  const [first] = args;
  const isServe = first === undefined || (first.startsWith("-") && !ABOUT_ALL.includes(first));
  const words = isServe ? ["serve", ...args] : args;
  try {
    await createProgram(words).parseAsync(words, { from: "user" });
  } catch (thrown) {
    process.exitCode = reportError(thrown, { json: args.includes("--json") });
  }
}
