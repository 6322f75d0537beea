/** `millrace bench compare`: compares two servers in alternation, or two files of results. */

import { Command } from "commander";
import { MillraceError } from "../../core/errors.js";
import { addLoadOptions, type LoadFlags, planFromFlags, refuseGiven } from "../flags/bench-options.js";
import { assertFolders, presentReport } from "../output/bench-report.js";
import { measureServers } from "../process/measure-servers.js";
import { urlTarget } from "./bench-run.js";

export function benchCompareCommand(): Command {
  const command = new Command("compare")
    .description(
      "Compare two servers in alternation under the same load, or two files of results: ratios with intervals.",
    )
    .argument("<a>", "[name=]URL of a server, or a file written by bench run --out")
    .argument("<b>", "the other one, of the same kind");
  return addLoadOptions(command).action(runBenchCompare);
}

const isUrl = (text: string): boolean => /^([\w.-]+=)?https?:\/\//.test(text);

/** Options for files of results; all others need servers. */
const OF_FILES: readonly string[] = ["json", "out", "html", "svg", "md"];

async function runBenchCompare(a: string, b: string, flags: LoadFlags, command: Command): Promise<void> {
  if (isUrl(a) !== isUrl(b)) {
    throw new MillraceError("invalid_option", `expected two URLs or two files, got ${a} and ${b}`);
  }
  if (isUrl(a)) {
    const targets = [a, b].map((text) => urlTarget(text, flags));
    await measureServers({ targets, planned: await planFromFlags(flags, command) }, flags);
    return;
  }
  const unused = command.options.map((option) => option.attributeName()).filter((name) => !OF_FILES.includes(name));
  refuseGiven(command, unused, "two URLs, or two files without options of measuring", "leave it out");
  assertFolders(flags);
  const [{ readReport, writeReport }, { mergeReports }] = await Promise.all([
    import("../../bench/results/schema.js"),
    import("../../bench/report/merge.js"),
  ]);
  const merged = mergeReports(readReport(a), readReport(b));
  if (flags.out !== undefined) writeReport(flags.out, merged);
  await presentReport(merged, flags);
}
