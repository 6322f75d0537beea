/** `millrace canary`: tries changed flags or weights on a share of a running gateway's requests, and takes them back where they are worse. */
import { setTimeout as sleep } from "node:timers/promises";
import { Command } from "commander";
import { MillraceError } from "../../core/errors.js";
import { optionError } from "../../core/option-error.js";
import { parseDurationMs } from "../../core/quantities.js";
import { silentStages } from "../../core/stages.js";
import { numberIn } from "../flags/option-values.js";
import { addAdminFlags } from "../flags/tenant-flags.js";
import { formatTable, type Json, jsonText, minute } from "../output/format.js";
import { stagesTo } from "../output/stages.js";
import { AdminClient, type AdminFlags } from "../process/admin-client.js";
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

const LOOK_MS = 1000;
const MS_PER_MINUTE = 60_000;
const LEAST_MS = 3000;
const MOST_MS = 7 * 24 * 60 * MS_PER_MINUTE;

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
  const forMs = parseDurationMs(flags.for);
  if (forMs === undefined || forMs < LEAST_MS || forMs > MOST_MS) {
    throw optionError("--for", "a duration from 3s to 7d, such as 30m", flags.for);
  }
  const client = new AdminClient(flags);
  const { weights, share } = flags;
  let report = await client.ask("POST", "/canaries", {
    model,
    args: words(serverArgs),
    weights,
    share,
    minutes: forMs / MS_PER_MINUTE,
    max_slowdown: flags.maxSlowdown,
    max_failures: flags.maxFailures,
    max_ttft_ms: flags.maxTtft,
    max_tpot_ms: flags.maxTpot,
  });
  const path = pathOf(String(report.model));
  const stage = (json ? silentStages : stagesTo(process.stderr))("canary");
  try {
    while (report.state === "starting" || report.state === "running") {
      await sleep(LOOK_MS, undefined, { signal });
      const next = await client.ask("GET", path);
      if (next.started !== report.started) throw isAnothers(model);
      report = next;
      stage.update(progressOf(report));
    }
  } catch (thrown) {
    await stopOwn(client, path, report.started);
    throw thrown;
  }
  stage.done(String(report.state));
  process.stdout.write(`${json ? jsonText(report) : textOf(report)}\n`);
  if (report.state !== "passed") process.exitCode = 1;
}

const isAnothers = (model: string): MillraceError =>
  new MillraceError("not_found", `expected the canary of ${model} that was started here, got a later one`, {
    hint: "somebody stopped it and started another: millrace canary list",
  });

/** A command that ends early stops its own canary, and no later one. */
async function stopOwn(client: AdminClient, path: string, started: Json[string]): Promise<void> {
  const now = await client.ask("GET", path).catch(() => undefined);
  if (now?.started === started) await client.ask("DELETE", path).catch(() => {});
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
  const report = await new AdminClient(flags).ask("DELETE", pathOf(model));
  process.stdout.write(`${flags.json ? jsonText(report) : textOf(report)}\n`);
}

const pathOf = (model: string): string => `/canaries/${encodeURIComponent(model)}`;

const armOf = (report: Json, side: "canary" | "others") => report[side] as Readonly<Record<string, number | null>>;

function progressOf(report: Json): string {
  if (report.state !== "running") return String(report.state);
  const counts = `${armOf(report, "canary").requests} requests of the canary, ${armOf(report, "others").requests} of the others`;
  return `${counts}, ${report.seconds_left} s left`;
}

const TIMES = [
  ["duration_ms", "request, ms"],
  ["ttft_ms", "first token, ms"],
  ["tpot_ms", "per token, ms"],
] as const;

function textOf(report: Json): string {
  const [canary, others] = [armOf(report, "canary"), armOf(report, "others")];
  const ratios = report.ratios as Readonly<Record<string, Readonly<Record<"value" | "low" | "high", number>> | null>>;
  const fixed = (value: number | null | undefined, digits: number): string => value?.toFixed(digits) ?? "–";
  const rows = TIMES.map(([name, label]) => {
    const ratio = ratios[name];
    const interval = ratio ? `${fixed(ratio.value, 2)} × (${fixed(ratio.low, 2)} to ${fixed(ratio.high, 2)})` : "–";
    return [label, fixed(canary[name], 1), fixed(others[name], 1), interval];
  });
  const table = formatTable([
    ["", "canary", "others", "canary ÷ others"],
    ["requests", String(canary.requests), String(others.requests), ""],
    ["failed", String(canary.failed), String(others.failed), ""],
    ...rows,
  ]);
  return `${table}\n${report.model}: ${report.state}: ${report.because}`;
}
