/**
 * `millrace bench run`: measures an OpenAI-compatible server, or this server with the user's model, under load, alone
 * or
 * beside others.
 */

import { Command } from "commander";
import type { Planned } from "../../bench/run/plan.js";
import type { ServerUnderTest } from "../../bench/run/target.js";
import { MillraceError } from "../../core/errors.js";
import { locateModel } from "../../formats/locate-model.js";
import { addLoadOptions, addPeerOptions, type LoadFlags, planFromFlags, refuseGiven } from "../flags/bench-options.js";
import { integerIn } from "../flags/option-values.js";
import { stagesTo } from "../output/stages.js";
import { measureServers } from "../process/measure-servers.js";

interface RunFlags extends LoadFlags {
  readonly url?: string;
  readonly model?: string;
  readonly name?: string;
  readonly pid?: number;
  readonly serverArgs: string;
  readonly llamaServer?: string;
  readonly nodeLlamaCpp?: string;
  readonly peer: readonly string[];
  readonly threads?: number;
}

export function benchRunCommand(): Command {
  const command = new Command("run")
    .description(
      "Measure a server under load, or several in alternation: throughput, latency, goodput and cost, with intervals. Runs with a slow client are void.",
    )
    .option("--url <url>", "URL of a running OpenAI-compatible server (default: this server, started with --model)")
    .option(
      "--model <name>",
      "with --url, the model's name in requests (default: the first in the server's list); else the model to serve",
    )
    .option("--name <name>", "name of the server in reports (default: its host, or millrace)")
    .option(
      "--pid <n>",
      "process id of a local server, to report its CPU time and memory",
      integerIn("--pid", 1, 2 ** 31),
    )
    .option("--server-args <args>", "further flags of the started server", "")
    .option("--llama-server <binary>", "binary of llama.cpp's server, to measure with the same model in alternation")
    .option(
      "--node-llama-cpp <folder>",
      "folder with node_modules/node-llama-cpp, to measure with the same model in alternation",
    );
  return addLoadOptions(addPeerOptions(command)).action(runBenchRun);
}

/** @param text [NAME=]URL. Throws invalid_option. */
export function urlTarget(text: string, flags: Pick<RunFlags, "apiKey" | "timeout">): ServerUnderTest {
  const [, name, url = ""] = /^(?:([\w.-]+)=)?(.*)$/.exec(text) ?? [];
  if (!/^https?:/.test(url) || !URL.canParse(url)) {
    throw new MillraceError(
      "invalid_option",
      `expected a URL such as http://127.0.0.1:8000, got ${JSON.stringify(text)}`,
    );
  }
  return { name: name ?? new URL(url).host, url, apiKey: flags.apiKey, timeoutMs: 1000 * flags.timeout };
}

export const words = (text: string): string[] => text.split(/\s+/).filter((word) => word !== "");

/** Options only for servers that the command starts. */
export const OF_STARTED = ["threads", "serverArgs", "llamaServer", "nodeLlamaCpp"];

/** The servers to measure, and the plan; several started servers share one size. */
async function jobOf(
  flags: RunFlags,
  command: Command,
  planned: Planned,
): Promise<{ readonly targets: ServerUnderTest[]; readonly planned: Planned }> {
  const peers = flags.peer.map((text) => urlTarget(text, flags));
  const rest = { apiKey: flags.apiKey, timeoutMs: 1000 * flags.timeout };
  if (flags.url !== undefined) {
    const hint = "give the model to serve with --model, and running servers with --peer";
    refuseGiven(command, OF_STARTED, "no options of started servers with --url", hint);
    const target = urlTarget(flags.url, flags);
    const own = { ...target, name: flags.name ?? target.name, model: flags.model, pid: flags.pid };
    return { targets: [own, ...peers], planned };
  }
  const { path } = await locateModel(flags.model, stagesTo(process.stderr));
  const { startedServers } = await import("../../bench/run/started-servers.js");
  const started = startedServers(
    { ...flags, name: flags.name ?? "millrace", modelPath: path, extra: words(flags.serverArgs) },
    planned,
    peers.length > 0,
  );
  const targets = started.launches.map((launch) => ({ name: launch.name, launch, ...rest }));
  return { targets: [...targets, ...peers], planned: started.planned };
}

async function runBenchRun(flags: RunFlags, command: Command): Promise<void> {
  await measureServers(await jobOf(flags, command, await planFromFlags(flags, command)), flags);
}
