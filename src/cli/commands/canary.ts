/**
 * `millrace canary`: tries changed flags or weights on a share of a running gateway's requests, and takes them back if
 * they are worse.
 */
import { Command } from "commander";
import { silentStages } from "../../core/stages.js";
import { numberIn } from "../flags/option-values.js";
import { addAdminFlags } from "../flags/tenant-flags.js";
import { formatTable, type Json, jsonText, minute } from "../output/format.js";
import { stagesTo } from "../output/stages.js";
import { AdminClient, type AdminFlags } from "../process/admin-client.js";
import { armOf, canaryMinutes, canaryPath, canaryText, followCanary } from "../process/follow-canary.js";
import { untilStopped } from "../process/stop-signal.js";
import { words } from "./bench-run.js";

interface StartFlags extends AdminFlags {
  readonly serverArgs: string;
  readonly weights?: string;
  readonly share?: number;
  readonly for: string;
  readonly maxSlowdown: number;
  readonly maxFailures: number;
  readonly maxTtft?: number;
  readonly maxTpot?: number;
}

export function canaryCommand(): Command {
  const start = addAdminFlags(new Command("start"))
    .description("Start a canary, and wait for its end. Exit code 0: it passed. Ctrl-C stops it.")
    .argument("<model>", "the model's name in the gateway")
    .option("--server-args <flags>", "flags of the engine, after the model's own", "")
    .option("--weights <model>", "other weights: a file, a folder or a name that the engine fetches")
    .option(
      "--share <share>",
      "of the model's requests (default: as many as one of its other instances gets)",
      numberIn("--share", 0.001, 0.9),
    )
    .option("--for <duration>", "from the time at which its instance is ready", "30m")
    .option(
      "--max-slowdown <ratio>",
      "largest time of a request, to the first token and per token, relative to the others",
      numberIn("--max-slowdown", 1, 100),
      1.1,
    )
    .option(
      "--max-failures <share>",
      "largest share of failed requests beyond that of the others",
      numberIn("--max-failures", 0, 1),
      0.01,
    )
    .option("--max-ttft <ms>", "largest mean time to the first token", numberIn("--max-ttft", 0.001, 1e9))
    .option("--max-tpot <ms>", "largest mean time per token", numberIn("--max-tpot", 0.001, 1e9))
    .action((model: string, flags: StartFlags) =>
      untilStopped((signal) => runStart(model, flags, signal), "the canary is stopped"),
    );
  const list = addAdminFlags(new Command("list"))
    .description("List the canaries: the last of each model.")
    .action(runList);
  const stop = addAdminFlags(new Command("stop"))
    .description("Stop a canary.")
    .argument("<model>", "the model's name in the gateway")
    .action(runStop);
  return new Command("canary")
    .description("Try changed flags or weights on a share of a running gateway's requests.")
    .addCommand(start)
    .addCommand(list)
    .addCommand(stop);
}

async function runStart(model: string, { json, serverArgs, ...flags }: StartFlags, signal: AbortSignal): Promise<void> {
  const { weights, share } = flags;
  const wish = {
    model,
    args: words(serverArgs),
    weights,
    share,
    minutes: canaryMinutes(flags.for),
    max_slowdown: flags.maxSlowdown,
    max_failures: flags.maxFailures,
    max_ttft_ms: flags.maxTtft,
    max_tpot_ms: flags.maxTpot,
  };
  const stage = (json ? silentStages : stagesTo(process.stderr))("canary");
  const report = await followCanary(new AdminClient(flags), wish, stage, signal);
  process.stdout.write(`${json ? jsonText(report) : canaryText(report)}\n`);
  if (report.state !== "passed") process.exitCode = 1;
}

async function runList(flags: AdminFlags): Promise<void> {
  const answer = await new AdminClient(flags).ask("GET", "/canaries");
  const rows = (answer.data as readonly Json[]).map((report) => [
    String(report.model),
    String(report.state),
    minute(String(report.started)),
    `${armOf(report, "canary").requests}, ${armOf(report, "others").requests}`,
    String(report.because),
  ]);
  const head = ["model", "state", "since (UTC)", "requests of the canary, of the others", ""];
  process.stdout.write(
    `${flags.json ? jsonText(answer) : rows.length === 0 ? "no canaries" : formatTable([head, ...rows])}\n`,
  );
}

async function runStop(model: string, flags: AdminFlags): Promise<void> {
  const report = await new AdminClient(flags).ask("DELETE", canaryPath(model));
  process.stdout.write(`${flags.json ? jsonText(report) : canaryText(report)}\n`);
}
