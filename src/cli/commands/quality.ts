/**
 * `millrace quality`: the quality of a running gateway's answers, and its failing samples as items of `millrace eval`.
 */
import { Command } from "commander";
import { assertNewText, replaceFile } from "../../core/new-file.js";
import { optionError } from "../../core/option-error.js";
import type { QualityReport, ReportRow, ShownSample } from "../../gateway/quality/quality-app.js";
import { numberIn } from "../flags/option-values.js";
import { addAdminFlags } from "../flags/tenant-flags.js";
import { formatTable, jsonText, minute } from "../output/format.js";
import { itemsOf } from "../output/quality-items.js";
import { AdminClient, type AdminFlags } from "../process/admin-client.js";

interface ReportFlags extends AdminFlags {
  readonly days: number;
  readonly by?: string;
}

interface SamplesFlags extends AdminFlags {
  readonly days: number;
  readonly failing?: boolean;
  readonly check?: string;
  readonly model?: string;
  readonly tenant?: string;
  readonly limit: number;
  readonly out?: string;
}

interface AcceptFlags extends AdminFlags {
  readonly check?: string;
  readonly model?: string;
}

const GROUPS = ["tenant", "version"];
const PAGE = 100;

export function qualityCommand(): Command {
  const days = numberIn("--days", 1, 3650);
  const report = addAdminFlags(new Command("report"))
    .description("Show the verdicts of the checks on sampled answers, and the checks that have drifted.")
    .option("--days <n>", "days until now", days, 7)
    .option("--by <groups>", "separate rows by tenant, version or both (tenant,version)")
    .action(runReport);
  const samples = addAdminFlags(new Command("samples"))
    .description("List sampled answers, or write them as items that `millrace eval --chats` reads.")
    .option("--failing", "only those that fail a check, or have bad feedback")
    .option("--check <name>", "only those that fail this check; feedback: those with bad feedback")
    .option("--model <name>", "of this model only")
    .option("--tenant <name>", "of this tenant only")
    .option("--days <n>", "days until now", days, 7)
    .option("--limit <n>", "samples at most, the newest first", numberIn("--limit", 1, 100_000), 1000)
    .option("--out <file>", "a new file for evaluation items, as JSON lines")
    .action(runSamples);
  const accept = addAdminFlags(new Command("accept"))
    .description("Make the checks' present levels the usual ones: forget their drift, and learn anew.")
    .option("--check <name>", "of this check only")
    .option("--model <name>", "of this model only")
    .action(runAccept);
  return new Command("quality")
    .description("The quality of a gateway's traffic, from sampled answers and feedback.")
    .addCommand(report)
    .addCommand(samples)
    .addCommand(accept);
}

async function runReport(flags: ReportFlags): Promise<void> {
  const groups = flags.by?.split(",").map((each) => each.trim()) ?? [];
  const unknown = groups.find((each) => !GROUPS.includes(each));
  if (unknown !== undefined) throw optionError("--by", `of ${GROUPS.join(", ")}`, unknown);
  const query = new URLSearchParams({ days: String(flags.days), group_by: groups.join(",") });
  const answer = (await new AdminClient(flags).ask("GET", `/quality?${query}`)) as unknown as QualityReport;
  process.stdout.write(`${flags.json ? jsonText(answer) : reportText(answer, groups as ("tenant" | "version")[])}\n`);
}

const percent = (share: number | null): string => (share === null ? "" : `${(100 * share).toFixed(1)} %`);

function reportText({ data, dropped }: QualityReport, groups: readonly ("tenant" | "version")[]): string {
  if (data.length === 0) return "no samples";
  const head = ["model", ...groups, "check", "judged", "failing", "share", "mean", "usual", "state"];
  const rows = data.map((row) => [
    row.model,
    ...groups.map((group) => row[group] ?? ""),
    row.check,
    String(row.judged),
    String(row.failing),
    percent(row.failing_share),
    percent(row.mean),
    percent(row.usual),
    stateOf(row),
  ]);
  const numDropped = Object.values(dropped).reduce((sum, each) => sum + each, 0);
  return formatTable([head, ...rows]) + (numDropped === 0 ? "" : `\n${numDropped} samples were dropped`);
}

function stateOf({ state, drift }: ReportRow): string {
  if (drift === null) return state;
  const change = drift.change === null ? "" : `, after a change at ${minute(drift.change.at)}`;
  return `drifted since ${minute(drift.since)}: ${percent(drift.mean)} instead of ${percent(drift.usual)}${change}`;
}

async function runSamples(flags: SamplesFlags): Promise<void> {
  const { out, json = false } = flags;
  if (out !== undefined) assertNewText(out);
  const samples = await samplesOf(flags);
  if (out === undefined) {
    process.stdout.write(`${json ? jsonText({ samples }) : samplesTable(samples)}\n`);
    return;
  }
  const { items, left } = itemsOf(samples);
  replaceFile(out, items.map((item) => `${JSON.stringify(item)}\n`).join(""));
  const reasons = Object.entries(left).filter(([, count]) => count > 0);
  const said = reasons.map(([reason, count]) => `${count} ${reason}`).join(", ");
  const text = `${items.length} items in ${out}${said === "" ? "" : `; left out: ${said}`}`;
  process.stdout.write(`${json ? jsonText({ file: out, items: items.length, left }) : text}\n`);
}

async function samplesOf(flags: SamplesFlags): Promise<readonly ShownSample[]> {
  const { failing = false, check, model, tenant, days, limit } = flags;
  const client = new AdminClient(flags);
  const given = { days: String(days), failing: String(failing), check, model, tenant };
  const wanted = Object.entries(given).filter((part): part is [string, string] => part[1] !== undefined);
  const samples: ShownSample[] = [];
  let cursor: number | undefined;
  while (samples.length < limit) {
    const place = cursor === undefined ? [] : [["cursor", String(cursor)] as [string, string]];
    const query = new URLSearchParams([...wanted, ...place, ["limit", String(Math.min(PAGE, limit - samples.length))]]);
    const { data, next_cursor: next } = await client.ask("GET", `/quality/samples?${query}`);
    for (const sample of data as readonly ShownSample[]) samples.push(sample);
    if (typeof next !== "number") break;
    cursor = next;
  }
  return samples;
}

function samplesTable(samples: readonly ShownSample[]): string {
  if (samples.length === 0) return "no samples";
  const rows = samples.map(({ at, request_id: id, model, tenant, verdicts, feedback }) => {
    const failing = Object.entries(verdicts).flatMap(([check, verdict]) => (verdict.failing ? [check] : []));
    return [minute(at), id, model, tenant, failing.join(", "), feedback === null ? "" : String(feedback.score)];
  });
  return formatTable([["at (UTC)", "request", "model", "tenant", "failing", "feedback"], ...rows]);
}

async function runAccept(flags: AcceptFlags): Promise<void> {
  const { check, model, json = false } = flags;
  const answer = await new AdminClient(flags).ask("POST", "/quality/accept", { check, model });
  process.stdout.write(json ? `${jsonText(answer)}\n` : `${answer.accepted} series are learned anew\n`);
}
