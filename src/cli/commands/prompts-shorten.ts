/** `millrace prompts shorten`: shorter prompts with equally good answers, measured on the user's own items. */
import { Command, Option } from "commander";
import { assertNewText, assertReplaceable, isSameFile, replaceFile } from "../../core/new-file.js";
import { optionError } from "../../core/option-error.js";
import { type StartStage, silentStages } from "../../core/stages.js";
import type { EvalTarget } from "../../lab/eval-target.js";
import type { CandidateStage, Shortened } from "../../lab/shorten/search.js";
import type { SurpriseModel } from "../../lab/shorten/surprise.js";
import type { Method } from "../../prompts/shorten/candidate.js";
import type { RemoteModel } from "../../quality/remote-model.js";
import { addCommonEngineOptions, engineSettingsFrom } from "../flags/engine-options.js";
import { integerIn, listOf, numberIn } from "../flags/option-values.js";
import { addTargetOptions, type TargetFlags } from "../flags/target-options.js";
import { jsonText } from "../output/format.js";
import { shortenedJson, shortenedText } from "../output/shorten-text.js";
import { stagesTo } from "../output/stages.js";
import { untilStopped } from "../process/stop-signal.js";
import { openEncoder } from "../process/token-encoder.js";

interface ShortenFlags extends TargetFlags {
  readonly count: number;
  readonly seed: number;
  readonly maxDrop: number;
  readonly methods?: readonly string[];
  readonly extractModel?: string;
  readonly rewriteUrl?: string;
  readonly rewriteModel?: string;
  readonly rewriteApiKey?: string;
  readonly requests?: string;
  readonly journal?: string;
  readonly out?: string;
  readonly force?: boolean;
  readonly json?: boolean;
}

const MANY = Number.MAX_SAFE_INTEGER;
const METHODS: readonly Method[] = ["rules", "extraction", "rewriting"];

export function shortenCommand(): Command {
  const command = addTargetOptions(new Command("shorten"))
    .description(
      "Shorten the prompts of an evaluation: by rules, by what a small model predicts, by a model that rewrites. Each change stays only if the answers to the same items are as good, which one half of the items decides and the other half confirms.",
    )
    .argument("<file>", "chats with checks as JSON lines, as `millrace eval --chats` reads them")
    .option("--count <n>", "items of each task (default: all)", integerIn("--count", 1, MANY), MANY)
    .option("--seed <n>", "seed of sampling", integerIn("--seed", 0, MANY), 0)
    .option(
      "--max-drop <points>",
      "largest drop in points of right answers that all changes together may cause",
      numberIn("--max-drop", 0.1, 100, "points"),
      2,
    )
    .option(
      "--methods <names>",
      "of rules, extraction, rewriting (default: the first two, and rewriting with --rewrite-url)",
      listOf("--methods"),
    )
    .option("--extract-model <path|hf:org/repo[:file]>", "model that predicts the prompts (default: the bundled model)")
    .option("--rewrite-url <url>", "URL of an OpenAI-compatible server that rewrites what prompts share")
    .option("--rewrite-model <name>", "its model (default: its first)")
    .addOption(new Option("--rewrite-api-key <key>", "its API key").env("MILLRACE_REWRITE_API_KEY"))
    .option(
      "--requests <file>",
      "recorded requests, as `prompts audit` reads them, to shorten in the same way for --out",
    )
    .option("--journal <file>", "keep every answer here, and go on from the answers of a run that was stopped")
    .option("--out <file>", "a new file for the shortened chats, or requests; written if the result is confirmed")
    .option("--force", "overwrite --out")
    .option("--json", "print one JSON object instead of a table");
  return addCommonEngineOptions(command).action((file: string, flags: ShortenFlags) =>
    untilStopped((signal) => runShorten(file, flags, signal), "the answers so far are in --journal, if it was given"),
  );
}

async function runShorten(file: string, flags: ShortenFlags, signal: AbortSignal): Promise<void> {
  const methods = methodsFrom(flags);
  assertOwnFiles(file, flags);
  if (flags.out !== undefined) (flags.force === true ? assertReplaceable : assertNewText)(flags.out);
  const [{ requireConfinementFor, UNCONFINED_WARNING }, { tasksOfFile }, { readRequests, lineOf }, lab] =
    await Promise.all([
      import("../../quality/code-score.js"),
      import("../../quality/tasks.js"),
      import("../../prompts/requests.js"),
      import("../../lab/shorten/search.js"),
    ]);
  const tasks = tasksOfFile(file, flags.tasks, flags.count);
  const recorded = flags.requests === undefined ? undefined : readRequests(flags.requests);
  const isConfined = await requireConfinementFor(tasks.flatMap(({ chats }) => chats.map(({ check }) => check)));
  if (!isConfined) process.stderr.write(`${UNCONFINED_WARNING}\n`);
  const startStage = flags.json && !process.stderr.isTTY ? silentStages : stagesTo(process.stderr);
  const models = await openModels(flags, methods, startStage, signal);
  try {
    const { target, count, surprise, writer } = models;
    const stages = await stagesFrom(methods, surprise, writer, signal);
    const maxDrop = flags.maxDrop / 100;
    const result = await lab.shortenPrompts({ target, tasks, stages, maxDrop, count, startStage });
    const isConfirmed = result.confirmation?.comparison.verdict === "passes";
    let written: string | undefined;
    try {
      if (isConfirmed && flags.out !== undefined) {
        const lines = recorded === undefined ? chatsOf(result) : (await lab.applied(result.kept, recorded)).map(lineOf);
        replaceFile(flags.out, `${lines.map((line) => JSON.stringify(line)).join("\n")}\n`);
        written = flags.out;
      }
    } finally {
      // Print the report even if the file cannot be written.
      process.stdout.write(
        flags.json
          ? `${jsonText(shortenedJson(target.name, tasks, result, written))}\n`
          : `${shortenedText(result, written)}\n`,
      );
    }
    if (!isConfirmed) process.exitCode = 1;
  } finally {
    await models.close();
  }
}

const chatsOf = ({ tasks }: Shortened): readonly object[] => tasks.flatMap(({ chats }) => chats);

/** The journal is appended to and truncated, so it must not be another file of the command. */
function assertOwnFiles(file: string, { journal, out, requests }: ShortenFlags): void {
  if (journal === undefined) return;
  const names = { "--out": out, "--requests": requests, "<file>": file };
  for (const [name, path] of Object.entries(names)) {
    if (path === undefined || !isSameFile(path, journal)) continue;
    throw optionError("--journal", `another file than ${name}`, journal);
  }
}

function methodsFrom({ methods, rewriteUrl }: ShortenFlags): readonly Method[] {
  const unknown = methods?.find((name) => !METHODS.includes(name as Method));
  if (unknown !== undefined) throw optionError("--methods", `of ${METHODS.join(", ")}`, unknown);
  const wanted = METHODS.filter(
    (name) => methods?.includes(name) ?? (name !== "rewriting" || rewriteUrl !== undefined),
  );
  if (wanted.includes("rewriting") && rewriteUrl === undefined) {
    throw optionError("--rewrite-url", "given, as rewriting needs it", "nothing");
  }
  return wanted;
}

interface Models {
  readonly target: EvalTarget;
  readonly count: SurpriseModel["count"];
  /** Present if the methods include extraction. */
  readonly surprise: SurpriseModel["surprise"] | undefined;
  readonly writer: RemoteModel | undefined;
  close(): Promise<void>;
}

async function openModels(
  flags: ShortenFlags,
  methods: readonly Method[],
  startStage: StartStage,
  signal: AbortSignal,
): Promise<Models> {
  const [{ openEvalTarget }, { rememberedTarget }, { openSurpriseModel }, { openRemoteModel }] = await Promise.all([
    import("../../lab/eval-target.js"),
    import("../../lab/remembered-target.js"),
    import("../../lab/shorten/surprise.js"),
    import("../../quality/remote-model.js"),
  ]);
  const { model, url, temperature, maxTokens, seed, rewriteUrl, rewriteModel, rewriteApiKey } = flags;
  const settings = { ...flags, engine: engineSettingsFrom(flags) };
  const named = model === undefined ? {} : { model };
  const opened: { close(): Promise<void> }[] = [];
  const keep = <T extends { close(): Promise<void> }>(one: T): T => {
    opened.push(one);
    return one;
  };
  const close = async (): Promise<void> => {
    for (const one of opened) await one.close();
  };
  try {
    const source =
      url === undefined ? ({ kind: "local", ...named } as const) : ({ kind: "server", url, ...named } as const);
    const opening = keep(await openEvalTarget(source, settings, startStage, signal));
    const target = rememberedTarget(opening, { temperature, maxTokens, seed }, flags.journal);
    const predictor = methods.includes("extraction")
      ? keep(await openSurpriseModel(flags.extractModel, settings.engine, startStage, signal))
      : undefined;
    const count = predictor?.count ?? lengthBy(await openEncoder(flags.extractModel, startStage));
    const surprise = predictor?.surprise;
    if (!methods.includes("rewriting")) return { target, count, surprise, writer: undefined, close };
    const writing = {
      url: rewriteUrl!,
      model: rewriteModel,
      apiKey: rewriteApiKey,
      temperature: 0,
      maxTokens: 4096,
      seed,
    };
    return { target, count, surprise, writer: keep(await openRemoteModel(writing, signal)), close };
  } catch (thrown) {
    await close();
    throw thrown;
  }
}

const lengthBy =
  (encode: (text: string) => readonly number[]) =>
  (text: string): number =>
    encode(text).length;

async function stagesFrom(
  methods: readonly Method[],
  surprise: SurpriseModel["surprise"] | undefined,
  writer: RemoteModel | undefined,
  signal: AbortSignal,
): Promise<readonly CandidateStage[]> {
  const [{ formCandidates, contentCandidates }, { extractionCandidates }, { rewritingCandidates }, { isRefusal }] =
    await Promise.all([
      import("../../prompts/shorten/rules.js"),
      import("../../prompts/shorten/extract.js"),
      import("../../prompts/shorten/rewrite.js"),
      import("../../quality/ask.js"),
    ]);
  const write = async (message: string): Promise<string | undefined> => {
    try {
      const { text, end } = await writer!.ask([{ role: "user", content: message }], signal);
      return end === "stop" ? text : undefined;
    } catch (thrown) {
      if (!isRefusal(thrown)) throw thrown;
      return undefined;
    }
  };
  const stages: Readonly<Record<Method, readonly CandidateStage[]>> = {
    rules: [formCandidates, contentCandidates],
    rewriting: [() => rewritingCandidates(write)],
    extraction: [() => extractionCandidates(surprise!)],
  };
  // Extraction comes last: a rewritten prompt has fewer predictable words.
  return (["rules", "rewriting", "extraction"] as const)
    .filter((name) => methods.includes(name))
    .flatMap((name) => stages[name]);
}
