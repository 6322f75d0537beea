/**
 * `millrace prompts`: shortening, and `audit`: the waste in recorded prompts, in tokens and money, and its remedies.
 */
import { Command } from "commander";
import { assertNewText, replaceFile } from "../../core/new-file.js";
import { optionError } from "../../core/option-error.js";
import { silentStages } from "../../core/stages.js";
import type { PromptAudit, PromptFinding, PromptPrices } from "../../prompts/audit.js";
import { numberIn } from "../flags/option-values.js";
import { formatTable, jsonText } from "../output/format.js";
import { stagesTo } from "../output/stages.js";
import { openEncoder } from "../process/token-encoder.js";
import { shortenCommand } from "./prompts-shorten.js";

interface AuditFlags {
  readonly model?: string;
  readonly prices?: PromptPrices;
  readonly perMonth?: number;
  readonly mend?: string;
  readonly json?: boolean;
}

export function promptsCommand(): Command {
  const audit = new Command("audit")
    .description(
      "Find waste in recorded chat requests: prefixes that defeat the cache, repeated and unused text, bloat, limits. Each finding has the tokens and the money that mending it saves.",
    )
    .argument("<file>", "requests as JSON lines: bodies, {request, response}, or lines of a batch")
    .option("--model <path|hf:org/repo[:file]>", "count with this model's tokenizer (default: four characters a token)")
    .option(
      "--prices <input,cached,output>",
      "dollars for a million tokens, such as 0.25,0.025,2 (default: only tokens are told)",
      pricesFrom,
    )
    .option(
      "--per-month <n>",
      "requests a month, for money of a month (default: money of the file's requests)",
      numberIn("--per-month", 1, 1e12),
    )
    .option("--mend <file>", "a new file for the requests with the mends that change no content")
    .option("--json", "print one JSON object instead of a table")
    .action(runAudit);
  return new Command("prompts")
    .description("What prompts cost, and could cost.")
    .addCommand(audit)
    .addCommand(shortenCommand());
}

function pricesFrom(text: string): PromptPrices {
  const numbers = text.split(",").map(Number);
  const [input, cached, output] = numbers;
  const isValid = numbers.length === 3 && numbers.every((each) => Number.isFinite(each) && each >= 0);
  if (!isValid) throw optionError("--prices", "three prices, such as 0.25,0.025,2", text);
  return { input: input!, cached: cached!, output: output! };
}

async function runAudit(file: string, { model, prices, perMonth, mend, json }: AuditFlags): Promise<void> {
  const [{ readRequests, lineOf }, { auditPrompts }, { estimate }] = await Promise.all([
    import("../../prompts/requests.js"),
    import("../../prompts/audit.js"),
    import("../../prompts/simulate.js"),
  ]);
  const startStage = json && !process.stderr.isTTY ? silentStages : stagesTo(process.stderr);
  if (mend !== undefined) assertNewText(mend);
  const requests = readRequests(file);
  const encode = model === undefined ? estimate : await openEncoder(model, startStage);
  const stage = startStage("audit");
  const monthly = perMonth === undefined ? 1 : perMonth / requests.length;
  const audit = auditPrompts(requests, encode, prices, monthly, (name) => stage.update(name));
  stage.done(`${requests.length} requests`);
  if (mend !== undefined) {
    replaceFile(mend, `${audit.mended.requests.map((request) => JSON.stringify(lineOf(request))).join("\n")}\n`);
  }
  const { mended, ...shown } = audit;
  const { totals, dollars } = mended;
  process.stdout.write(
    json
      ? `${jsonText({ ...shown, mended: { totals, dollars } })}\n`
      : `${textOf(audit, mend, perMonth === undefined ? "for these requests" : "a month")}\n`,
  );
}

const CHANGES: Readonly<Record<PromptFinding["changes"], string>> = {
  place: "places of words",
  form: "form",
  limits: "limits",
  content: "content: evaluate it",
};

/** Significant digits, since a file's requests cost fractions of a cent. */
const usd = new Intl.NumberFormat("en", { style: "currency", currency: "USD", maximumSignificantDigits: 3 });

/** @param period the dollars' period; without prices there are no dollars */
function textOf(
  { numRequests, totals, dollars, findings, mended }: PromptAudit,
  mend: string | undefined,
  period: string,
): string {
  const cachedShare = ((100 * totals.cached) / Math.max(1, totals.prompt)).toFixed(0);
  const cost = dollars === undefined ? "" : `; ${usd.format(dollars)} ${period}`;
  const head = `${numRequests} requests: ${totals.prompt} prompt tokens, ${cachedShare} % of them cached, ${totals.output} answer tokens${cost}`;
  if (findings.length === 0) return `${head}\nno waste found`;
  const header = ["waste", "requests", "prompt tokens saved", "more cached", "answer tokens saved"];
  const rows = findings.map(({ name, numRequests: count, saved, dollars: saving, changes }) => [
    name,
    ...[count, saved.prompt, saved.cached, saved.output].map(String),
    ...(saving === undefined ? [] : [usd.format(saving)]),
    CHANGES[changes],
  ]);
  const advice = findings.map(
    ({ name, because, advice: what }) => `${name}: ${because}. ${what[0]!.toUpperCase()}${what.slice(1)}.`,
  );
  const after = mended.totals;
  const costAfter =
    dollars === undefined ? "" : `; ${usd.format(mended.dollars ?? 0)} instead of ${usd.format(dollars)} ${period}`;
  const together = `mends that change no content, together: ${totals.prompt - after.prompt} prompt tokens saved, ${after.cached - totals.cached} more cached${costAfter}`;
  const written = mend === undefined ? [] : [`written: ${mend}`];
  const money = dollars === undefined ? [] : [`saves ${period}`];
  return [
    head,
    "",
    formatTable([[...header, ...money, "changes"], ...rows]),
    "",
    ...advice,
    "",
    together,
    ...written,
  ].join("\n");
}
