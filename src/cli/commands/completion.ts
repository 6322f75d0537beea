/** `millrace completion`: prints a completion script for a shell. */

import { Command } from "commander";
import { optionError } from "../../core/option-error.js";
import { completionScript, SHELLS } from "../output/completion-scripts.js";

/** @param program loads the complete program, when the command runs */
export function completionCommand(program: () => Promise<Command>): Command {
  return new Command("completion")
    .description(`Print a script that makes a shell complete commands and flags: eval "$(millrace completion bash)".`)
    .argument("<shell>", SHELLS.join(", "))
    .option("--json", "print the commands and flags as one JSON object")
    .action(async (name: string, { json = false }: { readonly json?: boolean }) => {
      const shell = SHELLS.find((each) => each === name);
      if (shell === undefined) throw optionError("the shell", `one of ${SHELLS.join(", ")}`, name);
      process.stdout.write(completionScript(await program(), json ? "json" : shell));
    });
}
