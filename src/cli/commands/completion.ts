/** `millrace completion`: what a shell needs to complete commands and flags. */

import { Command } from "commander";
import { optionError } from "../../core/option-error.js";
import { completionScript, SHELLS } from "../output/completion-scripts.js";

/** @param program all commands, once they are there */
export function completionCommand(program: () => Command): Command {
  return new Command("completion")
    .description(`Print a script that makes a shell complete commands and flags: eval "$(millrace completion bash)".`)
    .argument("<shell>", SHELLS.join(", "))
    .option("--json", "print the commands and flags as one JSON object")
    .action((name: string, { json = false }: { readonly json?: boolean }) => {
      const shell = SHELLS.find((each) => each === name);
      if (shell === undefined) throw optionError("the shell", `one of ${SHELLS.join(", ")}`, name);
      process.stdout.write(completionScript(program(), json ? "json" : shell));
    });
}
