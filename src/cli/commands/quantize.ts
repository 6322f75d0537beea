/** `millrace quantize`: writes a model as a smaller GGUF file, and tells what it lost. */
import { resolve } from "node:path";
import { Command, Option } from "commander";
import { LEAST_TOKENS } from "../../compress/calibration.js";
import type { Candidate } from "../../compress/card.js";
import { isFolderMethod, LAYOUTS, type Layout } from "../../compress/folder-formats.js";
import type { Importance } from "../../compress/importance.js";
import type { chooseTypes } from "../../compress/mixed.js";
import type { Quantised } from "../../compress/quantise.js";
import { SCALINGS, type Scaling } from "../../compress/scale-search.js";
import type { Method } from "../../compress/storage.js";
import { defaultNumThreads } from "../../core/cpu.js";
import { optionError } from "../../core/option-error.js";
import { formatBytes } from "../../core/quantities.js";
import { type StartStage, silentStages } from "../../core/stages.js";
import { locateModel } from "../../formats/locate-model.js";
import type { EvalSettings } from "../../lab/eval-target.js";
import { powerText } from "../../quality/compare.js";
import { modelOption } from "../flags/model-option.js";
import { byteSize, integerIn, listOf, numberIn } from "../flags/option-values.js";
import { questionsFrom } from "../flags/own-questions.js";
import { comparisonText } from "../output/eval-text.js";
import { formatTable, jsonText } from "../output/format.js";
import { stagesTo } from "../output/stages.js";
import { untilStopped } from "../process/stop-signal.js";

const USUAL_METHODS = ["Q4_K_M"];
/** `auto` stands for all methods, and `auto:METHOD` for this one and all larger ones. */
const AUTO = /^auto(?::(.*))?$/i;
const GATE_FLAGS = { count: "--count", maxDrop: "--max-drop", maxTokens: "--max-tokens" } as const;

interface QuantizeFlags {
  readonly model?: string;
  readonly method?: readonly string[];
  readonly maxSize?: number;
  readonly out: string;
  readonly layout: Layout;
  readonly calibrate?: string;
  readonly calibrationTokens: number;
  readonly rounding?: "gptq" | "nearest";
  readonly scaling?: Scaling | "none";
  readonly imatrix?: string;
  readonly saveImatrix?: string;
  readonly evals?: string;
  readonly count: number;
  readonly maxDrop: number;
  readonly maxTokens: number;
  readonly threads?: number;
  readonly json?: boolean;
}

export function quantizeCommand(): Command {
  return new Command("quantize")
    .description(
      "Write a model as a smaller GGUF file, or as a folder for vLLM and others. With your texts, the weights that matter to them keep more, and the loss is measured; with your questions, a file that answers worse is not kept.",
    )
    .addOption(modelOption())
    .option(
      "--method <types>",
      "types, separated by commas: the first that passes is kept; auto tries all with --evals, the smallest first, auto:Q4_0 from this type on (default: Q4_K_M; an unknown name lists all)",
      listOf("--method"),
    )
    .option(
      "--max-size <size>",
      "instead of --method: types for each kind of matrix, chosen by what their errors cost on --calibrate, for a file of this size at most",
      byteSize("--max-size"),
    )
    .requiredOption("--out <path>", "the new file, whose name ends in .gguf, or the new folder")
    .addOption(
      new Option(
        "--layout <name>",
        "format of INT4 folders: compressed-tensors for vLLM, SGLang and TGI, awq or gptq for engines that do not read it",
      )
        .choices(LAYOUTS)
        .default(LAYOUTS[0]),
    )
    .option("--calibrate <file>", "chats as JSON lines (.jsonl), or any other text: tells which columns matter")
    .option(
      "--calibration-tokens <n>",
      "most tokens of --calibrate",
      integerIn("--calibration-tokens", LEAST_TOKENS, 1 << 30),
      65_536,
    )
    .addOption(
      new Option(
        "--rounding <way>",
        "gptq: columns rounded later correct the errors of those rounded before, by the inputs that --calibrate measures; nearest: each weight alone (default: gptq with --calibrate)",
      ).choices(["gptq", "nearest"]),
    )
    .addOption(
      new Option(
        "--scaling <way>",
        "scales that move from inputs into weights, by what --calibrate measures. awq: so that rounding the weights costs least; smoothquant: also so that rounding activations to 8 bits does, for INT8 (default with --calibrate: smoothquant for INT8, awq for INT4, else none)",
      ).choices([...SCALINGS, "none"]),
    )
    .option("--imatrix <file.gguf>", "importance matrix of an earlier run or of llama-imatrix, instead of measuring")
    .option("--save-imatrix <file.gguf>", "keep what --calibrate measured")
    .option("--evals <file>", "chats as of millrace eval: a file with fewer right answers than the model is not kept")
    .option("--count <n>", "items of each task in --evals", integerIn("--count", 1, 1_000_000), 1000)
    .option(
      "--max-drop <points>",
      "largest drop of right answers, in points",
      numberIn("--max-drop", 0.1, 100, "points"),
      2,
    )
    .option("--max-tokens <n>", "longest answer to --evals in tokens", integerIn("--max-tokens", 1, 1 << 30), 512)
    .option("--threads <n>", "kernel threads (default: physical cores)", integerIn("--threads", 1, 1024))
    .option("--json", "print one JSON object instead of a table")
    .action((flags: QuantizeFlags, command: Command) => untilStopped((signal) => runQuantize(flags, command, signal)));
}

async function runQuantize(flags: QuantizeFlags, command: Command, signal: AbortSignal): Promise<void> {
  const [{ METHODS }, { assertFree, MIXED, quantise }, { journaled, outputsOf }, { identityOf }, { keptImportance }] =
    await Promise.all([
      import("../../compress/storage.js"),
      import("../../compress/quantise.js"),
      import("../../compress/journal.js"),
      import("../../compress/identity.js"),
      import("../../compress/importance.js"),
    ]);
  const { maxSize } = flags;
  if (maxSize !== undefined && flags.method !== undefined)
    throw optionError("--method", "absent beside --max-size", flags.method.join(","));
  if (maxSize !== undefined && flags.calibrate === undefined)
    throw optionError("--calibrate", "given beside --max-size", "nothing");
  const { layout, json, imatrix, rounding, scaling, calibrate, saveImatrix } = flags;
  const out = flags.out.replace(/(?<=.)\/+$/, "");
  const methodOf = (name: string): Method => {
    const known = METHODS.find((method) => method === name.toUpperCase());
    if (known === undefined) throw optionError("--method", `auto, or of ${METHODS.join(", ")}`, name);
    return known;
  };
  if ((flags.method ?? []).length > 1 && flags.method!.some((name) => AUTO.test(name)))
    throw optionError("--method", "auto alone", flags.method!.join(","));
  const auto = flags.method?.length === 1 ? AUTO.exec(flags.method[0]!) : undefined;
  const smallest = auto?.[1] === undefined ? undefined : methodOf(auto[1]);
  if (auto && flags.evals === undefined) throw optionError("--evals", "given beside --method auto", "nothing");
  const isTried = (method: Method): boolean =>
    isFolderMethod(method) !== out.endsWith(".gguf") && (layout === LAYOUTS[0] || method.startsWith("INT4"));
  const named = auto ? METHODS.filter(isTried) : (flags.method ?? USUAL_METHODS).map(methodOf);
  const wanted = maxSize === undefined ? named : ([MIXED] as const);
  const isFolder = isFolderMethod(smallest ?? wanted[0]!);
  if (!auto && wanted.some((method) => isFolderMethod(method) !== isFolder))
    throw optionError("--method", "of types of files, or of types of folders", wanted.join(","));
  if (layout !== LAYOUTS[0] && wanted.some((method) => !method.startsWith("INT4")))
    throw optionError("--layout", `${LAYOUTS[0]} for methods other than INT4`, layout);
  if (out.endsWith(".gguf") === isFolder)
    throw optionError("--out", isFolder ? `a folder for ${smallest ?? wanted[0]}` : "a name that ends in .gguf", out);
  if (imatrix !== undefined && saveImatrix !== undefined)
    throw optionError("--save-imatrix", "absent beside --imatrix", saveImatrix);
  if (rounding === "gptq" && calibrate === undefined)
    throw optionError("--calibrate", "given beside --rounding gptq", "nothing");
  if (saveImatrix !== undefined && calibrate === undefined)
    throw optionError("--calibrate", "given beside --save-imatrix", "nothing");
  const others = wanted.filter((method) => method !== "INT8");
  if (scaling === "smoothquant" && others.length > 0)
    throw optionError(
      "--scaling",
      `awq or none for ${others[0]}, which does not round activations to integers`,
      scaling,
    );
  if (scaling !== undefined && scaling !== "none" && calibrate === undefined && imatrix === undefined)
    throw optionError("--calibrate", `given beside --scaling ${scaling}`, "nothing");
  for (const name of ["count", "maxDrop", "maxTokens"] as const) {
    if (flags.evals === undefined && command.getOptionValueSource(name) === "cli")
      throw optionError("--evals", `given beside ${GATE_FLAGS[name]}`, "nothing");
  }
  if (wanted.length > 1 && flags.evals === undefined)
    throw optionError("--method", "one type where no --evals chooses between several", wanted.join(","));
  assertFree({ out, methods: wanted }, saveImatrix === undefined ? [] : [saveImatrix], outputsOf(out));
  const startStage = json && !process.stderr.isTTY ? silentStages : stagesTo(process.stderr);
  const { path, name } = await locateModel(flags.model, startStage);
  if (maxSize !== undefined) (await import("../../compress/mixed.js")).assertRoomForMatrices(path, maxSize);
  const methods = auto ? await methodsFrom(smallest, named, path, layout, startStage) : wanted;
  const numThreads = flags.threads ?? defaultNumThreads();
  const gate = flags.evals === undefined ? undefined : await gateFrom(flags, numThreads);
  const { texts, heldOut } = await textsFrom(flags, path);
  const given = imatrix === undefined ? undefined : await importanceFrom(imatrix, path);
  const identity = identityOf(
    path,
    { "--model": name, ...optionsOf(command) },
    {
      "--calibrate": calibrate,
      "--imatrix": imatrix,
      "--evals": flags.evals,
    },
  );
  const quantised = await journaled(resolve(out), identity, async (journal) => {
    if (journal.isResumed) startStage("resume").done(`goes on with ${journal.folder}`);
    const calibration = { model: path, texts, source: calibrate ?? "", saveTo: saveImatrix, numThreads, journal };
    const importance =
      given ?? (calibrate === undefined ? undefined : await keptImportance(calibration, startStage, signal));
    const { folder, recall } = journal;
    const sizes = { model: path, folder, maxBytes: maxSize ?? 0, importance, heldOut, numThreads, recall };
    const types = maxSize === undefined ? undefined : await typesFor(sizes, startStage, signal);
    const about = await factsFor(flags, name, texts);
    const settings = {
      model: path,
      out,
      methods,
      ...(types && { types }),
      layout,
      about,
      importance,
      texts,
      rounding: calibrate === undefined ? ("nearest" as const) : (rounding ?? "gptq"),
      scaling,
      numThreads,
      heldOut,
      gate,
      journal,
    };
    const tell = (candidate: Candidate): void => {
      if (candidate.quality !== undefined && !json) process.stderr.write(`${comparisonText(candidate.quality)}\n`);
    };
    return await quantise(settings, startStage, tell, signal);
  });
  if (quantised.chosen === undefined) process.exitCode = 1;
  process.stdout.write(json ? `${jsonText({ model: name, ...quantised })}\n` : `${textOf(quantised)}\n`);
}

/** The methods of `auto`, the smallest first. @param smallest the first of them; undefined: all */
async function methodsFrom(
  smallest: Method | undefined,
  known: readonly Method[],
  path: string,
  layout: Layout,
  startStage: StartStage,
): Promise<readonly Method[]> {
  const [{ bySize }, { openModel }] = await Promise.all([
    import("../../compress/by-size.js"),
    import("../../model/open-model.js"),
  ]);
  const all = bySize(openModel(path), known, layout);
  const methods = smallest === undefined ? all : all.slice(all.indexOf(smallest));
  if (methods.length === 0 || (smallest !== undefined && !all.includes(smallest)))
    throw optionError(
      "--method",
      `of types that make this model smaller (${all.join(", ") || "there is none"})`,
      `auto${smallest === undefined ? "" : `:${smallest}`}`,
    );
  startStage("methods").done(methods.join(", "));
  return methods;
}

/** Each text as token ids. */
type Texts = readonly (readonly number[])[];

/** Chooses a type for each group of matrices, and prints the choices as a table. */
async function typesFor(settings: Parameters<typeof chooseTypes>[0], startStage: StartStage, signal: AbortSignal) {
  const [mixed, { createRowEncoder }] = await Promise.all([
    import("../../compress/mixed.js"),
    import("../../backend/create/create-backend.js"),
  ]);
  const encoder = createRowEncoder(settings.numThreads);
  try {
    const choices = await mixed.chooseTypes(settings, encoder, startStage, signal);
    const rows = choices.map(({ group, type, probeKl, numBytes }) => [
      group,
      type,
      formatBytes(numBytes),
      probeKl.toFixed(5),
    ]);
    process.stderr.write(`${formatTable([["matrices", "type", "size", "KL of the probe"], ...rows])}\n`);
    return new Map(choices.map(({ group, type }) => [group, type]));
  } finally {
    encoder.close();
  }
}

async function gateFrom({ evals, count, maxDrop, maxTokens }: QuantizeFlags, numThreads: number) {
  const [tasks, { DEFAULT_ENGINE_OPTIONS }] = await Promise.all([
    questionsFrom(evals!, count),
    import("../../engine/api/options.js"),
  ]);
  const numItems = tasks.reduce((sum, { chats }) => sum + chats.length, 0);
  process.stderr.write(`${powerText(numItems, maxDrop / 100)}\n`);
  const engine = { ...DEFAULT_ENGINE_OPTIONS, numThreads };
  const evaluation: EvalSettings = { temperature: 0, maxTokens, seed: 0, concurrency: 1, engine };
  return { tasks, maxDrop: maxDrop / 100, evaluation };
}

/** The options that change the file's bytes or the report's figures. */
function optionsOf(command: Command): Readonly<Record<string, unknown>> {
  const counted = command.options.filter(({ long }) => !["--model", "--out", "--threads", "--json"].includes(long!));
  return Object.fromEntries(counted.map((each) => [each.long, command.getOptionValue(each.attributeName())]));
}

async function textsFrom({ calibrate, calibrationTokens: maxTokens }: QuantizeFlags, path: string) {
  if (calibrate === undefined) return { texts: [], heldOut: [] };
  const [{ readCalibration }, { loadTextSide }, { openModel }] = await Promise.all([
    import("../../compress/calibration.js"),
    import("../../text/text-side.js"),
    import("../../model/open-model.js"),
  ]);
  const { tokenizer, chatTemplate, asyncTokenizer } = await loadTextSide(path);
  asyncTokenizer.end();
  const { contextLength } = openModel(path).config;
  const { windows, heldOut } = readCalibration(calibrate, tokenizer, chatTemplate, { contextLength, maxTokens });
  return { texts: windows, heldOut };
}

/** Facts for the model card. */
async function factsFor({ calibrate, imatrix, evals }: QuantizeFlags, model: string, texts: Texts) {
  const { dataFile } = await import("../../compress/card.js");
  const used = calibrate ?? imatrix;
  const numTokens = calibrate === undefined ? undefined : texts.reduce((sum, { length }) => sum + length, 0);
  return {
    model,
    calibration: used === undefined ? undefined : { ...dataFile(used), numTokens },
    evals: evals === undefined ? undefined : dataFile(evals),
  };
}

/** @throws invalid_option where no matrix of the model is in the file */
async function importanceFrom(imatrix: string, path: string): Promise<Importance> {
  const [{ readImportance }, { openModel }] = await Promise.all([
    import("../../compress/importance.js"),
    import("../../model/open-model.js"),
  ]);
  const importance = readImportance(imatrix);
  const source = openModel(path).tensors();
  const names = [...importance.means.keys()];
  if (names.some((name) => source.has(`${name}.weight`))) return importance;
  throw optionError("--imatrix", "an importance matrix of this model", `one with ${names[0] ?? "nothing"}`);
}

/** On fewer tokens, a perplexity below the original's is chance. */
const FEW_TOKENS = 2000;

function textOf({ candidates, chosen, original }: Quantised): string {
  const header = [
    "method",
    "size",
    "of the original",
    "bits a weight",
    "perplexity (before)",
    "KL divergence",
    "same token",
    "answers",
  ];
  const rows = candidates.map(({ method, numBytes, weightBytes, bitsPerWeight, loss, quality }) => [
    method,
    formatBytes(numBytes),
    `${((100 * weightBytes) / original.weightBytes).toFixed(0)} %`,
    bitsPerWeight.toFixed(2),
    loss === undefined ? "–" : `${loss.testedPerplexity.toFixed(3)} (${loss.referencePerplexity.toFixed(3)})`,
    loss === undefined ? "–" : loss.meanKl.toFixed(5),
    loss === undefined ? "–" : `${(100 * loss.sameTop).toFixed(1)} %`,
    quality === undefined ? "not judged" : quality.verdict,
  ]);
  const end =
    chosen === undefined
      ? "none passed; they are kept aside with their figures, under names with .failed, or .undecided where more questions would tell"
      : `written: ${chosen.path}; to serve it: millrace serve --model ${chosen.path}`;
  const numTokens = candidates[0]?.loss?.numTokens ?? FEW_TOKENS;
  const note = numTokens < FEW_TOKENS ? `\nthe loss is a rough figure: it is of ${numTokens} held-out tokens only` : "";
  return `${formatTable([header, ...rows])}${note}\n${end}`;
}
