/** `millrace batch`: answers the lines of a file here or at a server, and manages the batches of a gateway. */
import { open } from "node:fs/promises";
import { Command, Option } from "commander";
import { assertReplaceable } from "../../core/new-file.js";
import { optionError } from "../../core/option-error.js";
import { silentStages } from "../../core/stages.js";
import { GatewayClient, type GatewayFlags } from "../batch/gateway-client.js";
import type { RunCounts } from "../batch/run-file.js";
import { addEngineOptions, type EngineFlags } from "../flags/engine-options.js";
import { addGenerationConfigOptions } from "../flags/generation-config.js";
import { modelOption } from "../flags/model-option.js";
import { integerIn } from "../flags/option-values.js";
import { formatTable, type Json, jsonText } from "../output/format.js";
import { stagesTo } from "../output/stages.js";
import { untilStopped } from "../process/stop-signal.js";

interface RunFlags extends EngineFlags {
  readonly url?: string;
  readonly apiKey?: string;
  readonly model?: string;
  readonly chatTemplate?: string;
  readonly errors?: string;
  readonly concurrency?: number;
  readonly json?: boolean;
}

interface CreateFlags extends GatewayFlags {
  readonly endpoint?: string;
  readonly metadata?: readonly string[];
}

const MAX_CONCURRENCY = 4096;
const ENDED: readonly string[] = ["completed", "failed", "expired", "cancelled"];

export function batchCommand(): Command {
  const command = new Command("batch").description(
    "Answer files of requests: here, at a server, or as a gateway's batches.",
  );
  command.addCommand(runCommand());
  command.addCommand(
    gatewayCommand("create", "Upload a file of requests and make a batch of it.")
      .argument("<file>", "requests, one a line, as OpenAI's batches have them")
      .option("--endpoint <path>", "where every line is sent to (default: the first line's url)")
      .option(
        "--metadata <key=value>",
        "a note of the batch; repeatable",
        (text: string, all: readonly string[] = []) => [...all, text],
      )
      .action(runCreate),
  );
  command.addCommand(gatewayCommand("list", "List the batches of a gateway, the newest first.").action(runList));
  command.addCommand(
    gatewayCommand("show", "Show a batch, and save its files.")
      .argument("<id>", "id of the batch")
      .option("--output <file>", "save the answers here")
      .option("--errors <file>", "save the lines without an answer here")
      .action(runShow),
  );
  command.addCommand(
    gatewayCommand("cancel", "Cancel a batch: the answered lines stay.")
      .argument("<id>", "id of the batch")
      .action((id: string, flags: GatewayFlags) => runCancel(id, flags)),
  );
  return command;
}

function runCommand(): Command {
  const command = new Command("run")
    .description("Answer every line of a file of requests; a run that was stopped goes on where it was.")
    .argument("<input>", "requests, one a line, as OpenAI's batches have them")
    .argument("<output>", "gets the answers; lines that are there already are not asked again")
    .option("--url <url>", "address of a server or gateway that answers, instead of a model in this process")
    .addOption(new Option("--api-key <key>", "API key for it").env("MILLRACE_API_KEY"))
    .addOption(modelOption())
    .option("--chat-template <file>", "use this template instead of the model's own")
    .option("--errors <file>", "gets the lines without an answer (default: the output does)")
    .option(
      "--concurrency <n>",
      "lines at once (default: the model's seats; 32 at a server)",
      integerIn("--concurrency", 1, MAX_CONCURRENCY),
    )
    .option("--json", "print one JSON object with the counts");
  return addGenerationConfigOptions(addEngineOptions(command), "Sampling:").action(
    (input: string, output: string, flags: RunFlags) => untilStopped((signal) => runRun(input, output, flags, signal)),
  );
}

function gatewayCommand(name: string, description: string): Command {
  return new Command(name)
    .description(description)
    .addOption(new Option("--url <url>", "address of the gateway").env("MILLRACE_URL").default("http://127.0.0.1:8000"))
    .addOption(new Option("--api-key <key>", "API key for the gateway").env("MILLRACE_API_KEY"))
    .option("--json", "print one JSON object");
}

async function runRun(input: string, output: string, flags: RunFlags, signal: AbortSignal): Promise<void> {
  const [{ assertRunFiles, runFile }, { localSender, remoteSender }] = await Promise.all([
    import("../batch/run-file.js"),
    import("../batch/senders.js"),
  ]);
  if (flags.url !== undefined && flags.model !== undefined)
    throw optionError("--model", "absent with --url", flags.model);
  await assertRunFiles({ input, output, errors: flags.errors });
  const startStage = flags.json && !process.stderr.isTTY ? silentStages : stagesTo(process.stderr);
  const sender = flags.url === undefined ? await localSender(flags, startStage) : remoteSender(flags.url, flags.apiKey);
  const stage = startStage("lines");
  try {
    const counts = await runFile({
      input,
      output,
      errors: flags.errors,
      send: sender.send,
      numAtOnce: flags.concurrency ?? sender.numAtOnce,
      onProgress: (now) => stage.update(countsText(now)),
      signal,
    });
    stage.done(countsText(counts));
    if (counts.failed > 0)
      stage.note(`why ${counts.failed} have no answer: in their lines of ${flags.errors ?? output}`);
    if (flags.json) process.stdout.write(`${jsonText({ ...counts })}\n`);
    if (counts.failed > 0) process.exitCode = 1;
  } finally {
    await sender.close();
  }
}

function countsText({ succeeded, failed, skipped }: RunCounts): string {
  const before = skipped === 0 ? "" : `, ${skipped} answered before`;
  return `${succeeded} answered, ${failed} without an answer${before}`;
}

async function runCreate(file: string, flags: CreateFlags): Promise<void> {
  const client = new GatewayClient(flags);
  const metadata = metadataOf(flags.metadata ?? []);
  const { id } = await client.upload(file);
  const endpoint = flags.endpoint ?? (await firstUrl(file)) ?? "/v1/chat/completions";
  const body = { input_file_id: id, endpoint, completion_window: "24h" };
  const batch = await client.ask("POST", "/v1/batches", metadata === undefined ? body : { ...body, metadata });
  print(batch, flags, `${batch.id}\n\n  to see it: millrace batch show ${batch.id}`);
}

/** A longer first line is left for the gateway to refuse. */
const FIRST_BYTES = 1024 * 1024;

/** The url in a file's first line; undefined: the line has none, or is unreadable. */
async function firstUrl(file: string): Promise<string | undefined> {
  const handle = await open(file);
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(FIRST_BYTES), 0, FIRST_BYTES, 0);
    const [first = ""] = buffer.toString("utf8", 0, bytesRead).trimStart().split("\n", 1);
    const { url } = JSON.parse(first) as { readonly url?: unknown };
    return typeof url === "string" ? url : undefined;
  } catch {
    return undefined;
  } finally {
    await handle.close();
  }
}

async function runList(flags: GatewayFlags): Promise<void> {
  const list = await new GatewayClient(flags).ask("GET", "/v1/batches?limit=100");
  const batches = list.data as readonly Json[];
  const rows = batches.map((batch) => [
    String(batch.id),
    String(batch.status),
    progressOf(batch),
    String(batch.model ?? ""),
    dateOf(batch.created_at),
  ]);
  const table = formatTable([["batch", "status", "lines", "model", "created (UTC)"], ...rows]);
  print({ batches }, flags, rows.length === 0 ? "no batches" : table);
}

async function runShow(
  id: string,
  flags: GatewayFlags & { readonly output?: string; readonly errors?: string },
): Promise<void> {
  const client = new GatewayClient(flags);
  const batch = await client.ask("GET", `/v1/batches/${encodeURIComponent(id)}`);
  const saved: string[] = [];
  for (const [path, field] of [
    [flags.output, "output_file_id"],
    [flags.errors, "error_file_id"],
  ] as const) {
    const fileId = batch[field];
    if (path === undefined || typeof fileId !== "string") continue;
    assertReplaceable(path);
    await client.download(fileId, path);
    saved.push(path);
  }
  const { data: faults = [] } = (batch.errors ?? {}) as { readonly data?: readonly Json[] };
  const lines = [
    `${batch.id}  ${batch.status}  ${progressOf(batch)}`,
    ...faults.map(({ line, code, message }) => `  line ${line ?? "-"}: ${code}: ${message}`),
    ...saved.map((path) => `  saved ${path}`),
    ...(ENDED.includes(String(batch.status)) ? [] : [`  expires ${dateOf(batch.expires_at)} UTC`]),
  ];
  print(batch, flags, lines.join("\n"));
}

async function runCancel(id: string, flags: GatewayFlags): Promise<void> {
  const batch = await new GatewayClient(flags).ask("POST", `/v1/batches/${encodeURIComponent(id)}/cancel`);
  print(batch, flags, `${batch.id}  ${batch.status}`);
}

function print(record: Json, { json = false }: GatewayFlags, text: string): void {
  process.stdout.write(`${json ? jsonText(record) : text}\n`);
}

function progressOf({ request_counts: counts }: Json): string {
  const { total = 0, completed = 0, failed = 0 } = (counts ?? {}) as Readonly<Record<string, number>>;
  return `${completed + failed} of ${total}${failed === 0 ? "" : `, ${failed} failed`}`;
}

function dateOf(seconds: unknown): string {
  return typeof seconds === "number" ? new Date(seconds * 1000).toISOString().slice(0, 16).replace("T", " ") : "";
}

function metadataOf(pairs: readonly string[]): Readonly<Record<string, string>> | undefined {
  if (pairs.length === 0) return undefined;
  return Object.fromEntries(
    pairs.map((pair) => {
      const at = pair.indexOf("=");
      if (at < 1) throw optionError("--metadata", "a key, = and a value", pair);
      return [pair.slice(0, at), pair.slice(at + 1)];
    }),
  );
}
