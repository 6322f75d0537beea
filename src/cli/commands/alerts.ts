/** `millrace alerts`: the alerts of a running gateway, and silences of them. */
import { Command } from "commander";
import { optionError } from "../../core/option-error.js";
import { parseDurationMs } from "../../core/quantities.js";
import { integerIn } from "../flags/option-values.js";
import { addAdminFlags } from "../flags/tenant-flags.js";
import { formatTable, type Json, jsonText, minute } from "../output/format.js";
import { AdminClient, type AdminFlags } from "../process/admin-client.js";

interface ListFlags extends AdminFlags {
  readonly limit: number;
}

interface SilenceFlags extends AdminFlags {
  readonly metric?: string;
  readonly tenant?: string;
  readonly key?: string;
  readonly model?: string;
  readonly for: string;
  readonly comment: string;
}

const LONGEST_MS = 366 * 86_400_000;

export function alertsCommand(): Command {
  const list = addAdminFlags(new Command("list"))
    .description("List the alerts, from the newest.")
    .option("--limit <n>", "alerts at most", integerIn("--limit", 1, 500), 50)
    .action(runList);
  const silence = addAdminFlags(new Command("silence"))
    .description("Keep alerts from the webhook for a time: those that fit all that is given.")
    .option("--metric <name>", "of this metric, such as spend or quality_refusal")
    .option("--tenant <name>", "of this tenant")
    .option("--key <id>", "of this key")
    .option("--model <name>", "of this model")
    .requiredOption("--for <duration>", "from now on, such as 2h")
    .requiredOption("--comment <text>", "why, for those who read the list")
    .action(runSilence);
  const silences = addAdminFlags(new Command("silences"))
    .description("List the silences, and those that ended in the last 30 days.")
    .action(runSilences);
  const unsilence = addAdminFlags(new Command("unsilence"))
    .description("End a silence.")
    .argument("<id>", "as `silences` lists it")
    .action(runUnsilence);
  return new Command("alerts")
    .description("The alerts of a running gateway, and silences of them.")
    .addCommand(list)
    .addCommand(silence)
    .addCommand(silences)
    .addCommand(unsilence);
}

async function runList({ limit, ...flags }: ListFlags): Promise<void> {
  const answer = await new AdminClient(flags).ask("GET", `/alerts?limit=${limit}`);
  const rows = (answer.data as readonly Json[]).map(({ found, text, model, delivered, silence }) => {
    const state = silence === null ? (delivered === null ? "" : "sent") : `silenced by ${silence}`;
    return [minute(String(found)), String(text), String(model), state];
  });
  const table = rows.length === 0 ? "no alerts" : formatTable([["found (UTC)", "alert", "model", ""], ...rows]);
  process.stdout.write(`${flags.json ? jsonText(answer) : table}\n`);
}

async function runSilence({ for: wanted, comment, json, metric, tenant, key, model, ...flags }: SilenceFlags) {
  const ms = parseDurationMs(wanted);
  if (ms === undefined || ms <= 0 || ms > LONGEST_MS) {
    throw optionError("--for", "a duration of at most a year, such as 2h", wanted);
  }
  if ([metric, tenant, key, model].every((each) => each === undefined)) {
    throw optionError("the silence", "one of some alerts (--metric, --tenant, --key or --model)", "none of these");
  }
  const ends = new Date(Date.now() + ms).toISOString();
  const body = { metric, tenant, key, model, ends, comment };
  const answer = await new AdminClient(flags).ask("POST", "/alerts/silences", body);
  process.stdout.write(json ? `${jsonText(answer)}\n` : `${answer.id}: silent until ${minute(ends)} UTC\n`);
}

async function runSilences(flags: AdminFlags): Promise<void> {
  const answer = await new AdminClient(flags).ask("GET", "/alerts/silences");
  const rows = (answer.data as readonly Json[]).map(({ id, state, starts, ends, comment, author, ...matcher }) => {
    const fits = ["metric", "tenant", "key", "model"].filter((name) => matcher[name] !== undefined);
    const text = fits.map((name) => `${name}=${matcher[name]}`).join(" ");
    const times = [minute(String(starts)), minute(String(ends))];
    return [String(id), String(state), text, ...times, String(author), String(comment)];
  });
  const head = ["silence", "state", "alerts", "from (UTC)", "to (UTC)", "by", "comment"];
  const table = rows.length === 0 ? "no silences" : formatTable([head, ...rows]);
  process.stdout.write(`${flags.json ? jsonText(answer) : table}\n`);
}

async function runUnsilence(id: string, { json, ...flags }: AdminFlags): Promise<void> {
  const answer = await new AdminClient(flags).ask("DELETE", `/alerts/silences/${encodeURIComponent(id)}`);
  process.stdout.write(json ? `${jsonText(answer)}\n` : `${id} has ended\n`);
}
