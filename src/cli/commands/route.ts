/**
 * `millrace route`: trains the router of a cascade on the user's prompts, and reports the cascade's savings and losses.
 */
import { Command, Option } from "commander";
import { MillraceError } from "../../core/errors.js";
import { optionError } from "../../core/option-error.js";
import type { CascadeFigures, TokenPrice } from "../../routers/report.js";
import type { RouteReport } from "../../routers/train.js";
import { integerIn, numberIn, oneOf } from "../flags/option-values.js";
import { formatTable, jsonText } from "../output/format.js";
import { stagesTo } from "../output/stages.js";
import { untilStopped } from "../process/stop-signal.js";

interface CommonFlags {
  readonly smallPrice?: TokenPrice;
  readonly largePrice?: TokenPrice;
  readonly auditShare: number;
  readonly json?: boolean;
}

interface TrainFlags extends CommonFlags {
  readonly small: string;
  readonly large: string;
  readonly url: string;
  readonly prompts: string;
  readonly out: string;
  readonly apiKey?: string;
  readonly label?: "check" | "equal" | "judge";
  readonly judgeModel?: string;
  readonly maxLoss: number;
  readonly holdoutShare: number;
  readonly temperature: number;
  readonly maxTokens: number;
  readonly seed: number;
  readonly concurrency: number;
}

interface ReportFlags extends CommonFlags {
  readonly out?: string;
  readonly floor?: number;
  readonly url?: string;
  readonly adminKey?: string;
}

function priceOf(flag: string): (text: string) => TokenPrice {
  return (text) => {
    const [input = Number.NaN, output = Number.NaN, ...rest] = text
      .split(",")
      .map((each) => Number(each.trim() || "?"));
    if (input >= 0 && output >= 0 && rest.length === 0) return { input, output };
    throw optionError(flag, "two prices in dollars for a million tokens, such as 0.1,0.4", text);
  };
}

function addCommonOptions(command: Command): Command {
  return command
    .option(
      "--small-price <in,out>",
      "dollars for a million tokens (default: cost is the machine's time)",
      priceOf("--small-price"),
    )
    .option("--large-price <in,out>", "the same for the large model", priceOf("--large-price"))
    .option("--audit-share <share>", "share of requests that go to both models", numberIn("--audit-share", 0, 1), 0.03)
    .option("--json", "print one JSON object");
}

export function routeCommand(): Command {
  const train = new Command("train")
    .description(
      "Let two models answer your prompts, and train a router that tells when the small one is as good. An interrupted run resumes.",
    )
    .requiredOption("--small <name>", "name of the small model on the server")
    .requiredOption("--large <name>", "name of the large model on the server")
    .requiredOption("--url <url>", "address of an OpenAI-compatible server with both models")
    .requiredOption(
      "--prompts <file>",
      'JSON lines of {"messages"}, optionally with "check" and a final expected answer',
    )
    .requiredOption("--out <folder>", "folder of answers, labels and the router, router.json")
    .addOption(new Option("--api-key <key>", "API key for the server").env("OPENAI_API_KEY"))
    .option(
      "--label <way>",
      "how answers are compared: check, equal, or judge (default: check where all prompts have one, else equal)",
      oneOf("--label", ["check", "equal", "judge"]),
    )
    .option("--judge-model <name>", "model on the server that compares both answers, for --label judge")
    .option(
      "--max-loss <share>",
      "share of requests that may get a worse answer",
      numberIn("--max-loss", 0.0001, 1),
      0.02,
    )
    .option(
      "--holdout-share <share>",
      "share of the prompts that the report is made of",
      numberIn("--holdout-share", 0, 1),
      0.3,
    )
    .option("--temperature <t>", "temperature of the answers; 0 = greedy", numberIn("--temperature", 0, 2), 0)
    .option("--max-tokens <n>", "longest answer in tokens", integerIn("--max-tokens", 1, 1e6), 1024)
    .option("--seed <n>", "seed of sampling", integerIn("--seed", 0, 2 ** 31 - 1), 1)
    .option("--concurrency <n>", "requests at once", integerIn("--concurrency", 1, 10_000), 8);
  const report = new Command("report")
    .description("Print cost and quality of a trained cascade, or the state of the cascades of a running fleet.")
    .option("--out <folder>", "folder of a training")
    .option(
      "--floor <p>",
      "least probability at which an answer is kept (default: the router's)",
      numberIn("--floor", 0, 1),
    )
    .option("--url <url>", "address of a running fleet, instead of a folder")
    .addOption(new Option("--admin-key <key>", "key of that fleet's administrator").env("MILLRACE_ADMIN_KEY"));
  return new Command("route")
    .description("Train the router of a cascade, and report what cascades save and lose.")
    .addCommand(
      addCommonOptions(train).action((flags: TrainFlags) => untilStopped((signal) => runTrain(flags, signal))),
    )
    .addCommand(addCommonOptions(report).action(runReport));
}

function pricesOf({ smallPrice, largePrice }: CommonFlags) {
  if (smallPrice === undefined && largePrice === undefined) return undefined;
  if (smallPrice !== undefined && largePrice !== undefined) {
    if (smallPrice.input < largePrice.input || smallPrice.output < largePrice.output) {
      return { small: smallPrice, large: largePrice };
    }
    const expected = "expected a small model that costs less than the large one, for prompts or for answers";
    throw new MillraceError("invalid_option", `${expected}, got prices that save nothing`, {
      hint: "exchange --small-price and --large-price, or the models",
    });
  }
  throw new MillraceError("invalid_option", "expected --small-price and --large-price together, got one of them");
}

async function runTrain(flags: TrainFlags, signal: AbortSignal): Promise<void> {
  const { trainRoute } = await import("../../routers/train.js");
  const { apiKey, label, judgeModel } = flags;
  const options = { ...flags, apiKey, label, judgeModel, prices: pricesOf(flags) };
  await print(await trainRoute(options, stagesTo(process.stderr), signal), flags);
}

async function runReport(flags: ReportFlags): Promise<void> {
  const { out, floor, url, auditShare } = flags;
  if ((out === undefined) === (url === undefined)) {
    throw new MillraceError("invalid_option", "expected --out or --url, got both or neither");
  }
  if (url !== undefined) return printLive(url, flags);
  const { reportRoute } = await import("../../routers/train.js");
  await print(reportRoute({ out: out!, floor, auditShare, prices: pricesOf(flags) }), flags);
}

async function print(report: RouteReport, { json }: CommonFlags): Promise<void> {
  if (json === true) {
    process.stdout.write(`${jsonText(report)}\n`);
    return;
  }
  const { findings, reportRows } = await import("../../routers/report.js");
  const { router, terms, figures } = report;
  const lines: readonly string[] = findings(figures);
  process.stdout.write(
    `${formatTable(reportRows(figures, terms))}\n\n${lines.join("\n")}\n${advice(router, figures)}\n`,
  );
}

function advice(router: string, { floor, kept }: CascadeFigures): string {
  if (kept.value === 0)
    return `${router} keeps no answer at floor ${floor}: allow a greater --max-loss, or give more prompts.`;
  return `Use it in millrace.yaml as \`router: ${router}\` of a cascade.`;
}

async function printLive(url: string, { adminKey, json }: ReportFlags): Promise<void> {
  const { readCascades, liveRows } = await import("../../routers/live-report.js");
  const cascades = await readCascades(url, adminKey);
  process.stdout.write(json === true ? `${jsonText({ cascades })}\n` : `${formatTable(liveRows(cascades))}\n`);
}
