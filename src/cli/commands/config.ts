/** `millrace config`: checks a millrace.yaml without starting anything, and prints the JSON Schema for editors. */
import { existsSync } from "node:fs";
import { Command } from "commander";
import { formatTable } from "../output/format.js";

export function configCommand(): Command {
  const check = new Command("check")
    .description("List all mistakes in a configuration file; exit code 1 if there are any.")
    .argument("<file>")
    .option("--json", "print one JSON object")
    .action(runCheck);
  const schema = new Command("schema")
    .description("Print the JSON Schema of the file, for editors.")
    .action(async () => {
      const { configJsonSchema } = await import("../../fleet/config/key-paths.js");
      process.stdout.write(`${JSON.stringify(configJsonSchema(), null, 2)}\n`);
    });
  return new Command("config")
    .description("Check a fleet's millrace.yaml, or print its schema.")
    .addCommand(check)
    .addCommand(schema);
}

async function runCheck(file: string, { json = false }: { readonly json?: boolean }): Promise<void> {
  const { checkConfig, formatProblem, readConfigText } = await import("../../fleet/config/read-config.js");
  const { config, problems, warnings } = checkConfig(readConfigText(file), process.env, existsSync);
  if (config === undefined) process.exitCode = 1;
  if (json) {
    process.stdout.write(`${JSON.stringify({ file, valid: config !== undefined, problems, warnings })}\n`);
    return;
  }
  for (const problem of [...problems, ...warnings]) {
    const kind = config === undefined ? "" : "warning: ";
    process.stderr.write(`${kind}${formatProblem(file, problem)} [${problem.code}]\n  hint: ${problem.hint}\n`);
  }
  if (config === undefined) return;
  const { targetOf } = await import("../../fleet/gateway/provider-targets.js");
  const rows = config.models.map((entry) => {
    const urls = new Set(entry.attach.map((each) => each.url ?? targetOf(entry, each).url));
    return [entry.name, entry.engine, entry.model ?? [...urls].join(", ")];
  });
  process.stdout.write(`${file} is valid\n${formatTable([["model", "engine", "from"], ...rows])}\n`);
}
