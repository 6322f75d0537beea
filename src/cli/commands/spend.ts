/** `millrace spend`: the cost of requests, from a running gateway's ledger. */
import { Command } from "commander";
import { optionError } from "../../core/option-error.js";
import { addAdminFlags } from "../flags/tenant-flags.js";
import { formatTable, type Json, jsonText } from "../output/format.js";
import { AdminClient, type AdminFlags } from "../process/admin-client.js";

interface SpendFlags extends AdminFlags {
  readonly by: string;
  readonly from?: string;
  readonly to?: string;
  readonly tenant?: string;
  readonly key?: string;
  readonly model?: string;
  readonly export?: string;
}

const GROUPS = ["tenant", "team", "key", "model", "engine", "status", "hour", "day", "month"];
const FORMATS = ["csv", "jsonl", "parquet"];

export function spendCommand(): Command {
  return addAdminFlags(new Command("spend"))
    .description("Show what requests cost, from the ledger of a running gateway.")
    .option("--by <groups>", `what to add up by: of ${GROUPS.join(", ")}`, "model")
    .option("--from <time>", "first day or time, in UTC, such as 2026-11-01 (default: all)")
    .option("--to <time>", "day or time before which it ends")
    .option("--tenant <name>", "of this tenant only")
    .option("--key <id>", "of this key only")
    .option("--model <name>", "of this model only")
    .option("--export <file>", "write each request and attempt to a file, as its name ends: .csv, .jsonl or .parquet")
    .action(runSpend);
}

async function runSpend(flags: SpendFlags): Promise<void> {
  const { by, from, to, tenant, key, model, json = false, export: file } = flags;
  const client = new AdminClient(flags);
  if (file !== undefined) {
    const format = FORMATS.find((each) => file.endsWith(`.${each}`));
    if (format === undefined) throw optionError("--export", "a name that ends in .csv, .jsonl or .parquet", file);
    await client.download(`/ledger/export?${query({ format, from, to })}`, file);
    process.stdout.write(json ? `${jsonText({ file })}\n` : `${file} written\n`);
    return;
  }
  const groups = by.split(",").map((each) => each.trim());
  const unknown = groups.find((each) => !GROUPS.includes(each));
  if (unknown !== undefined) throw optionError("--by", GROUPS.join(", "), unknown);
  const answer = await client.ask(
    "GET",
    `/ledger/spend?${query({ group_by: groups.join(","), from, to, tenant, key, model })}`,
  );
  process.stdout.write(`${json ? jsonText(answer) : spendTable(answer.data as readonly Json[], groups)}\n`);
}

function query(parts: Readonly<Record<string, string | undefined>>): URLSearchParams {
  return new URLSearchParams(Object.entries(parts).filter((part): part is [string, string] => part[1] !== undefined));
}

function spendTable(rows: readonly Json[], groups: readonly string[]): string {
  if (rows.length === 0) return "no requests";
  const head = [...groups, "requests", "prompt", "cached", "output", "cost $", "saved $"];
  const cells = rows.map((row) => {
    const of = (name: string): string => String(row[name] ?? "");
    const prompt = String(Number(row.fresh) + Number(row.cache_write) + Number(row.cache_read));
    return [...groups.map(of), of("requests"), prompt, of("cache_read"), of("output"), of("cost"), of("saved")];
  });
  const unpriced = rows.reduce((sum, { unpriced: count }) => sum + Number(count), 0);
  const note = unpriced === 0 ? "" : `\n${unpriced} answers of models without a price are not in the cost`;
  return formatTable([head, ...cells]) + note;
}
