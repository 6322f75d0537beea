/** `millrace bench run`: one server under load, any that speaks OpenAI's API, or this one with a model of yours. */
import { Command } from "commander";
import type { Target } from "../../bench/run/target.js";
import { MillraceError } from "../../core/errors.js";
import { addLoadOptions, type LoadFlags, planFromFlags } from "../bench-options.js";
import { measureServers } from "../bench-report.js";
import { locateModel } from "../model.js";
import { integerIn } from "../option-values.js";
import { stagesTo } from "../stages.js";

interface RunFlags extends LoadFlags {
  readonly url?: string;
  readonly model?: string;
  readonly name?: string;
  readonly pid?: number;
  readonly serverArgs: string;
}

export function benchRunCommand(): Command {
  const command = new Command("run")
    .description(
      "Measure a server under load: throughput, latency, goodput, cost; with intervals, and void when the client was too slow.",
    )
    .option("--url <url>", "an OpenAI-compatible server that runs; without it, this one is started with --model")
    .option(
      "--model <name>",
      "with --url the name that requests carry (default: the first one listed); else the model to serve",
    )
    .option("--name <name>", "what reports call the server (default: its host, or millrace)")
    .option("--pid <n>", "of a local server, for its CPU time and memory", integerIn("--pid", 1, 2 ** 31))
    .option("--server-args <args>", "further flags of the server that is started", "");
  return addLoadOptions(command).action(runBenchRun);
}

/** @param text [NAME=]URL. Throws invalid_option. */
export function urlTarget(text: string, flags: Pick<RunFlags, "apiKey" | "timeout">): Target {
  const [, name, url = ""] = /^(?:([\w.-]+)=)?(.*)$/.exec(text) ?? [];
  if (!/^https?:/.test(url) || !URL.canParse(url)) {
    throw new MillraceError(
      "invalid_option",
      `expected a URL such as http://127.0.0.1:8000, got ${JSON.stringify(text)}`,
    );
  }
  return { name: name ?? new URL(url).host, url, apiKey: flags.apiKey, timeoutMs: 1000 * flags.timeout };
}

async function targetOf(flags: RunFlags): Promise<Target> {
  if (flags.url !== undefined) {
    const target = urlTarget(flags.url, flags);
    return { ...target, name: flags.name ?? target.name, model: flags.model, pid: flags.pid };
  }
  const { path } = await locateModel(flags.model, stagesTo(process.stderr));
  const extra = flags.serverArgs.split(/\s+/).filter((word) => word !== "");
  const { millraceServer } = await import("../../bench/run/servers.js");
  const launch = millraceServer(flags.name ?? "millrace", { path }, extra);
  return { name: launch.name, launch, timeoutMs: 1000 * flags.timeout };
}

async function runBenchRun(flags: RunFlags): Promise<void> {
  const planned = await planFromFlags(flags);
  await measureServers({ targets: [await targetOf(flags)], planned }, flags);
}
