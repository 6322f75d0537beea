/**
 * `millrace tune speculation`: the drafts that decode the user's own requests fastest, by class of task and
 * temperature.
 */
import { renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Command } from "commander";
import { machineInfo, versions } from "../../bench/results/machine.js";
import { defaultNumThreads } from "../../core/cpu.js";
import { MillraceError } from "../../core/errors.js";
import { optionError } from "../../core/option-error.js";
import { readRegular } from "../../core/read-text.js";
import { shellWord } from "../../core/shell-word.js";
import { silentStages } from "../../core/stages.js";
import { NO_SPECULATION } from "../../engine/api/speculative-config.js";
import { contentHashOf } from "../../formats/content-hash.js";
import { locateModel } from "../../formats/locate-model.js";
import type { EngineBench, Temperatures } from "../../lab/speculation/engine-bench.js";
import type { ClassedAnswer } from "../../lab/speculation/journal.js";
import type { Ranked } from "../../lab/speculation/search.js";
import type { PromptRequest } from "../../prompts/requests.js";
import { loadTextSide } from "../../text/text-side.js";
import { modelOption } from "../flags/model-option.js";
import { integerIn, listOf, numberIn } from "../flags/option-values.js";
import { jsonText } from "../output/format.js";
import { stagesTo } from "../output/stages.js";
import { untilStopped } from "../process/stop-signal.js";
import { inTuningFolder } from "../process/tuning-folder.js";

const MS_PER_MINUTE = 60_000;
const MOST_CLASSES = 12;
/** Usual sampling temperatures of the bundled model families. */
const USUAL_TEMPERATURES = [0, 0.8];
const USUAL_DRAFTERS = ["ngram", "auto"];
const USUAL_DEPTHS = [2, 4, 8];
/** Training uses other seeds. */
const HELD_OUT_SEED = 1_000_001;

interface SpeculationFlags {
  readonly model?: string;
  readonly requests?: string;
  readonly count: number;
  readonly drafter?: readonly string[];
  readonly depths?: readonly string[];
  readonly fixed?: boolean;
  readonly temperatures?: Temperatures;
  readonly concurrency: number;
  readonly perRound: number;
  readonly maxTokens: number;
  readonly rounds: number;
  readonly maxMinutes: number;
  readonly threads?: number;
  readonly top: number;
  readonly out: string;
  readonly preset?: string;
  readonly resume?: boolean;
  readonly json?: boolean;
}

export function tuneSpeculationCommand(): Command {
  return new Command("speculation")
    .description(
      "Find the drafts that decode your requests fastest: drafters × depths, each beside plain decoding, by class of task and temperature; the winner is written only if its gain is sure.",
    )
    .addOption(modelOption())
    .option(
      "--requests <file>",
      'chat requests as JSON lines: bodies, {request, response}, lines of a batch, or chats; "class" names a class of your own (default: the shipped families)',
    )
    .option("--count <n>", "most requests, taken from all over the file", integerIn("--count", 2, 100_000), 400)
    .option(
      "--drafter <names>",
      "ngram, suffix, mtp, auto, the path of a draft model, heads or a folder of EAGLE-3's or Medusa's, or auto+PATH, separated by commas (default: ngram, auto, and what fits beside the model)",
      listOf("--drafter"),
    )
    .option("--depths <n,…>", "longest drafts, in tokens (default: 2,4,8)", listOf("--depths"))
    .option("--fixed", "also try each with drafts that are always as long as they may be")
    .option(
      "--temperatures <t,…>",
      "own: the requests' temperatures; or a list (default: own with --requests, else 0,0.8)",
      temperaturesFrom,
    )
    .option("--concurrency <n>", "requests at once", integerIn("--concurrency", 1, 256), 1)
    .option(
      "--per-round <n>",
      "most requests of a class and temperature in a round",
      integerIn("--per-round", 1, 1000),
      8,
    )
    .option("--max-tokens <n>", "longest answer", integerIn("--max-tokens", 2, 1 << 20), 128)
    .option("--rounds <n>", "rounds of a first look", integerIn("--rounds", 3, 1000), 3)
    .option("--max-minutes <n>", "no candidate begins after this time", numberIn("--max-minutes", 0.1, 10_000), 60)
    .option("--threads <n>", "kernel threads (default: physical cores)", integerIn("--threads", 1, 1024))
    .option("--top <n>", "drafts of each class and temperature in the table", integerIn("--top", 1, 1000), 3)
    .option("--out <folder>", "folder of the journal and the configuration", "tuning-speculation")
    .option("--preset <file>", "a preset, or another fleet's YAML, to write the winner into")
    .option("--resume", "go on with the journal in --out")
    .option("--json", "print one JSON object instead of tables")
    .action((flags: SpeculationFlags) =>
      untilStopped(
        (signal) => inTuningFolder(flags.out, () => runTuneSpeculation(flags, signal)),
        "the same command with --resume goes on from here",
      ),
    );
}

function temperaturesFrom(text: string): Temperatures {
  if (text === "own") return "own";
  return [...new Set(listOf("--temperatures")(text, undefined).map(numberIn("--temperatures", 0, 2)))];
}

/** The drafters to try, each with its depths. */
function searchSpaceOf(
  { drafter, depths = USUAL_DEPTHS.map(String), fixed = false }: SpeculationFlags,
  modelPath: string,
  { candidatesOf, drafterFrom, draftersBeside }: typeof import("../../lab/speculation/candidates.js"),
) {
  const named = (drafter ?? USUAL_DRAFTERS).map((word) => drafterFrom("--drafter", word));
  const drafters = drafter === undefined ? [...named, ...draftersBeside(modelPath)] : named;
  return { drafters, candidates: candidatesOf(drafters, depths.map(integerIn("--depths", 1, 64)), fixed) };
}

async function runTuneSpeculation(flags: SpeculationFlags, signal: AbortSignal): Promise<void> {
  const [lab, engines, { SpeculationJournal }, classes, { tuneSpeculation }, files, shown] = await Promise.all([
    import("../../lab/speculation/candidates.js"),
    import("../../lab/speculation/engine-bench.js"),
    import("../../lab/speculation/journal.js"),
    import("../../lab/speculation/task-classes.js"),
    import("../../lab/speculation/search.js"),
    import("../../lab/speculation/preset.js"),
    import("../output/speculation-text.js"),
  ]);
  const { configKeys } = lab;
  const deadlineMs = performance.now() + MS_PER_MINUTE * flags.maxMinutes;
  const { json, out, preset, rounds, concurrency, perRound, maxTokens } = flags;
  const startStage = json && !process.stderr.isTTY ? silentStages : stagesTo(process.stderr);
  const model = await locateModel(flags.model, startStage);
  const { drafters, candidates } = searchSpaceOf(flags, model.path, lab);
  const presetText = preset === undefined ? undefined : readPreset(preset);
  // A preset that cannot be written is refused now, before hours of measurements.
  if (presetText !== undefined) files.presetWith(presetText, preset!, model.name, configKeys(NO_SPECULATION), "");
  const temperatures = flags.temperatures ?? (flags.requests === undefined ? USUAL_TEMPERATURES : "own");
  const numThreads = flags.threads ?? defaultNumThreads();
  const asked = await askedRequests(flags, model.path, maxTokens);
  assertFewClasses(new Set(asked.requests.flatMap(({ source }) => source.label ?? [])).size);
  const settings = {
    model: contentHashOf(model.files, () => {}),
    requests: flags.requests === undefined ? "families" : contentHashOf([flags.requests], () => {}),
    numRequests: asked.requests.length,
    candidates,
    drafters: drafters.map(lab.contentOf),
    temperatures,
    concurrency,
    perRound,
    maxTokens,
    rounds,
    numThreads,
  };
  const journal = new SpeculationJournal(out, settings, flags.resume === true);
  const place = { modelPath: model.path, numThreads, concurrency, perRound, temperatures };
  const requests = asked.requests.map(({ request }) => request);
  const bench = await engines.EngineBench.open(place, requests, startStage, signal);
  try {
    const answers = await journal.answers(() => classed(bench, asked, classes.taskClassOf));
    const weighed = asked.requests.flatMap(({ request }, index) => {
      const { name, decodingMs } = answers[index]!;
      return decodingMs > 0 ? [{ request, className: name, decodingMs }] : [];
    });
    const counts = classes.countClasses(
      answers,
      answers.map(({ decodingMs }) => decodingMs),
    );
    assertFewClasses(counts.length);
    assertMeasurable(weighed.length);
    if (!json) process.stderr.write(`${skippedText(asked)}${shown.classTable(counts)}\n`);
    const cells = engines.cellsOf(weighed, temperatures);
    const tell = (ranked: Ranked): void => {
      if (!json) process.stderr.write(`  ${shown.rankedText(ranked)}\n`);
    };
    const search = { cells, candidates, numRounds: rounds, deadlineMs };
    const tuning = await tuneSpeculation(search, journal.recorded(bench.on(cells)), tell, signal);
    const keys = configKeys(tuning.chosen?.config ?? NO_SPECULATION);
    writeFileSync(join(out, "millrace.yaml"), files.speculationYaml(model, keys));
    if (presetText !== undefined) {
      const because = `${shown.choiceText(tuning)} (millrace tune speculation, ${weighed.length} requests, ${machineInfo().cpu})`;
      writeWhole(preset!, files.presetWith(presetText, preset!, model.name, keys, because.replace(/^drafts: /, "")));
    }
    const words = ["millrace", ...(flags.model === undefined ? [] : ["--model", flags.model])];
    const command = [...words, "--speculative-config", JSON.stringify(keys)].map(shellWord).join(" ");
    if (json) {
      const cellShares = cells.map(({ className, temperature, share }) => ({ className, temperature, share }));
      const about = { model: model.name, machine: machineInfo(), versions: versions(), temperatures, concurrency };
      const { numSkipped } = asked;
      process.stdout.write(
        `${jsonText({ ...about, classes: counts, numSkipped, cells: cellShares, ...tuning, speculativeConfig: keys, command })}\n`,
      );
      return;
    }
    const written = [join(out, "millrace.yaml"), ...(preset === undefined ? [] : [preset])];
    const lines = [
      shown.cellTable(cells, tuning, flags.top),
      "",
      shown.rankingTable(cells, tuning),
      "",
      shown.choiceText(tuning),
      `start it by: ${command}`,
      `written: ${written.join(", ")}`,
    ];
    process.stdout.write(`${lines.join("\n")}\n`);
  } finally {
    await bench.close();
  }
}

interface Asked {
  readonly requests: readonly {
    readonly source: PromptRequest;
    readonly request: Awaited<ReturnType<PlanBody>>[number];
  }[];
  readonly numSkipped: number;
  /** The engine's reason for its first refusal. */
  readonly firstProblem: string | undefined;
  readonly decode: (tokens: readonly number[]) => string;
}

type PlanBody = ReturnType<typeof import("../../serve/prompt-reader.js").createRequestPlanner>;

/**
 * The requests as the server gives them to its engine. Throws file_unreadable, template_missing, and invalid_option if
 * none is usable.
 */
async function askedRequests(
  { requests: file, count }: SpeculationFlags,
  modelPath: string,
  maxTokens: number,
): Promise<Asked> {
  const [{ askedBody, evenly, withoutAnswer }, { createRequestPlanner }, { openModel }] = await Promise.all([
    import("../../lab/speculation/asked.js"),
    import("../../serve/prompt-reader.js"),
    import("../../model/open-model.js"),
  ]);
  const text = await loadTextSide(modelPath);
  if (text.chatTemplate === undefined) {
    throw new MillraceError("template_missing", "expected a model with a chat template, got one without");
  }
  const sources = evenly(file === undefined ? await familyRequests(count) : await recordedRequests(file), count);
  const { contextLength, vocabSize } = openModel(modelPath).config;
  // The engine reserves memory only for the requested sizes.
  const info = { maxModelLen: contextLength, vocabSize, numKvBlocks: contextLength, blockSize: 1 };
  const plan = createRequestPlanner({ ...text, samplingDefaults: text.readSampling() }, info);
  const requests: Asked["requests"][number][] = [];
  let firstProblem: string | undefined;
  for (const source of sources.map(withoutAnswer)) {
    try {
      const [request] = await plan(askedBody(source, maxTokens));
      requests.push({ source, request: request! });
    } catch (thrown) {
      if (!(thrown instanceof MillraceError)) throw thrown;
      firstProblem ??= thrown.message;
    }
  }
  text.asyncTokenizer.end();
  if (requests.length === 0) {
    const hint = "ask requests that this model's server takes";
    throw new MillraceError("invalid_option", `expected requests that can be asked, got none: ${firstProblem}`, {
      hint,
    });
  }
  const decode = (tokens: readonly number[]): string => text.tokenizer.decode(tokens);
  return { requests, numSkipped: sources.length - requests.length, firstProblem, decode };
}

async function recordedRequests(file: string): Promise<readonly PromptRequest[]> {
  const { readRequests } = await import("../../prompts/requests.js");
  return readRequests(file);
}

/** Chats of the corpus outside the bundled models' training. */
async function familyRequests(count: number): Promise<readonly PromptRequest[]> {
  const [{ chatAt }, { plainRequest }] = await Promise.all([
    import("../../../models/corpus/families.js"),
    import("../../prompts/requests.js"),
  ]);
  return Array.from({ length: count }, (_, index) => {
    const { messages } = chatAt(HELD_OUT_SEED, index);
    return plainRequest(messages.slice(0, -1), messages.at(-1)!.content);
  });
}

async function classed(
  bench: EngineBench,
  { requests, decode }: Asked,
  classOf: typeof import("../../lab/speculation/task-classes.js").taskClassOf,
): Promise<ClassedAnswer[]> {
  const answers = await bench.answers(requests.map(({ request }) => request));
  return answers.map(({ tokens, decodingMs }, index) => {
    const { source } = requests[index]!;
    return { ...classOf(source, source.answer ?? decode(tokens)), decodingMs };
  });
}

function assertFewClasses(numClasses: number): void {
  if (numClasses <= MOST_CLASSES) return;
  throw optionError("--requests", `requests of at most ${MOST_CLASSES} classes`, `${numClasses} ("class")`);
}

function assertMeasurable(numRequests: number): void {
  if (numRequests > 0) return;
  throw new MillraceError("invalid_option", "expected answers of two tokens or more, got none", {
    hint: "drafts speed up what follows the first token: ask for longer answers",
  });
}

const skippedText = ({ numSkipped, firstProblem }: Asked): string =>
  numSkipped === 0 ? "" : `${numSkipped} requests left out, the first one since: ${firstProblem}\n`;

function readPreset(path: string): string {
  try {
    return readRegular(path);
  } catch (cause) {
    throw optionError("--preset", "a file that can be read", `${path} (${(cause as Error).message})`);
  }
}

function writeWhole(path: string, text: string): void {
  writeFileSync(`${path}.partial`, text);
  renameSync(`${path}.partial`, path);
}
