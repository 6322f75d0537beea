/**
 * The command line: the list of commands, the default command, and errors. Only the called command is loaded (all of
 * them
 * take three times as long as the rest of a start), and its work is loaded when it runs.
 */
import { Command } from "commander";
import { packageVersion } from "../core/package-root.js";
import { createHelp, helpWidth } from "./output/help-format.js";
import { reportError } from "./output/report-error.js";

const VERSION = ["--version", "-V"];
const ABOUT_ALL = ["--help", "-h", ...VERSION];

/** Loaded by name, in the order of the help. @param words command and arguments */
const COMMANDS: Readonly<Record<string, (words: readonly string[]) => Promise<Command>>> = {
  serve: async (words) => (await import("./commands/serve.js")).serveCommand(words.slice(1)),
  engine: async () => (await import("./commands/engine.js")).engineCommand(),
  generate: async () => (await import("./commands/generate.js")).generateCommand(),
  chat: async () => (await import("./commands/chat.js")).chatCommand(),
  tokenize: async () => (await import("./commands/tokenize.js")).tokenizeCommand(),
  pull: async () => (await import("./commands/models.js")).pullCommand(),
  list: async () => (await import("./commands/models.js")).listCommand(),
  rm: async () => (await import("./commands/models.js")).rmCommand(),
  ps: async () => (await import("./commands/ps.js")).psCommand(),
  inspect: async () => (await import("./commands/inspect.js")).inspectCommand(),
  convert: async () => (await import("./commands/convert.js")).convertCommand(),
  quantize: async () => (await import("./commands/quantize.js")).quantizeCommand(),
  prompts: async () => (await import("./commands/prompts.js")).promptsCommand(),
  doctor: async () => (await import("./commands/doctor.js")).doctorCommand(),
  batch: async () => (await import("./commands/batch.js")).batchCommand(),
  bench: async () => (await import("./commands/bench.js")).benchCommand(),
  plan: async () => (await import("./commands/plan.js")).planCommand(),
  image: async () => (await import("./commands/image.js")).imageCommand(),
  observe: async () => (await import("./commands/observe.js")).observeCommand(),
  boot: async () => (await import("./commands/boot.js")).bootCommand(),
  health: async () => (await import("./commands/health.js")).healthCommand(),
  eval: async () => (await import("./commands/eval.js")).evalCommand(),
  tune: async () => (await import("./commands/tune.js")).tuneCommand(),
  canary: async () => (await import("./commands/canary.js")).canaryCommand(),
  distill: async () => (await import("./commands/distill.js")).distillCommand(),
  adopt: async () => (await import("./commands/adopt.js")).adoptCommand(),
  "train-drafter": async () => (await import("./commands/train-drafter.js")).trainDrafterCommand(),
  route: async () => (await import("./commands/route.js")).routeCommand(),
  cache: async () => (await import("./commands/cache.js")).cacheCommand(),
  keys: async () => (await import("./commands/tenants.js")).keysCommand(),
  spend: async () => (await import("./commands/spend.js")).spendCommand(),
  quality: async () => (await import("./commands/quality.js")).qualityCommand(),
  alerts: async () => (await import("./commands/alerts.js")).alertsCommand(),
  teams: async () => (await import("./commands/tenants.js")).teamsCommand(),
  orgs: async () => (await import("./commands/tenants.js")).orgsCommand(),
  config: async () => (await import("./commands/config.js")).configCommand(),
  completion: async () => (await import("./commands/completion.js")).completionCommand(() => createProgram([])),
};

/**
 * @param words command and arguments; without a command's name (the help, an alias, a slip), all commands are loaded
 */
export async function createProgram(words: readonly string[]): Promise<Command> {
  const program = new Command("millrace")
    .description("Serves open-weight language models, fast and exact. The default command is serve.")
    .version(packageVersion());
  const [name = ""] = words;
  const others = VERSION.includes(name) ? [] : Object.values(COMMANDS);
  const wanted = Object.hasOwn(COMMANDS, name) ? [COMMANDS[name]!] : others;
  const commands = await Promise.all(wanted.map((load) => load(words)));
  for (const command of [program, ...commands, ...commands.flatMap(({ commands: inner }) => inner)]) {
    // Errors are thrown and reported in one place. Help goes to stdout, also for a group without a subcommand.
    command.createHelp = createHelp;
    command.exitOverride().configureOutput({
      outputError: () => {},
      writeErr: (text) => process.stdout.write(text),
      getOutHelpWidth: helpWidth,
      getErrHelpWidth: helpWidth,
    });
  }
  // Flags after a subcommand's name belong to the subcommand, as in `tune speculation`.
  if (wanted.length === 1 && commands[0]!.commands.length > 0) program.enablePositionalOptions();
  for (const command of commands) program.addCommand(command);
  return program;
}

/** Commands whose first word may be a flag's value, like the model in other engines' commands. */
const FIRST_WORDS: ReadonlyMap<string, string> = new Map([
  ...["serve", "engine", "generate", "chat", "inspect"].map((command) => [command, "--model"] as const),
  ["tokenize", "--text"],
]);

/** @returns the words, with the flag inserted before a value directly after the command */
function withFirstFlag([command = "", value = "-", ...others]: readonly string[]): readonly string[] | undefined {
  const flag = FIRST_WORDS.get(command);
  if (flag === undefined || value.startsWith("-")) return undefined;
  if (others.some((word) => word === flag || word.startsWith(`${flag}=`))) return undefined;
  return [command, flag, value, ...others];
}

/**
 * @param args without `node` and the script. Sets process.exitCode; a server keeps the process alive after this
 * resolves.
 */
export async function main(args: readonly string[]): Promise<void> {
  const [first] = args;
  const isServe = first === undefined || (first.startsWith("-") && !ABOUT_ALL.includes(first));
  const words = isServe ? ["serve", ...args] : (withFirstFlag(args) ?? args);
  try {
    const program = await createProgram(words);
    await program.parseAsync(words, { from: "user" });
  } catch (thrown) {
    process.exitCode = reportError(thrown, { json: args.includes("--json") });
  }
}
